//! NFS through the gate, before a server that the test plays itself.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::fixture::{Gate, TIMEOUT};

pub const READ: u32 = 6;
pub const WRITE: u32 = 7;
const FSINFO: u32 = 19;
pub const COMMIT: u32 = 21;
pub const NULL: u32 = 0;
/// The xid of a connection's first call, which is not answered.
const FIRST: u32 = 0xf157;
/// In which nothing comes that is not going to come.
const MOMENT: Duration = Duration::from_millis(300);

/// A gate before this server of NFS, for two applications, by uid: 1 has weight 4, 2 has weight 1.
pub fn before_nfs(server: SocketAddr, top: &str, more_of_listen: &str) -> Gate {
    Gate::with_file(&format!(
        r#"
        {top}
        [[listen]]
        protocol = "nfs"
        address = "127.0.0.1:0"
        upstream = "{server}"
        {more_of_listen}
        [[application]]
        name = "heavy"
        weight = 4
        match = {{ uid = 1 }}
        [[application]]
        name = "light"
        match = {{ uid = 2 }}
        "#
    ))
}

struct Stage {
    gate: Gate,
    server: TcpListener,
}

impl Stage {
    /// `depth` in bytes.
    fn new(scheduler: &str, depth: u64) -> Self {
        Self::with(scheduler, depth, "")
    }

    fn with(scheduler: &str, depth: u64, more_of_listen: &str) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let top = format!("scheduler = \"{scheduler}\"\ndepth = {depth}");
        let gate = before_nfs(server.local_addr().unwrap(), &top, more_of_listen);
        Stage { gate, server }
    }

    /// A client's end and the server's, which is dialled at the client's first call.
    fn connect(&self) -> (TcpStream, TcpStream) {
        let mut client = TcpStream::connect(self.gate.address).unwrap();
        client.write_all(&call(FIRST, NULL, 1, 0)).unwrap();
        let (mut server, _) = self.server.accept().unwrap();
        assert_eq!(next_xid(&mut server), FIRST);
        for end in [&client, &server] {
            end.set_read_timeout(Some(TIMEOUT)).unwrap();
            end.set_nodelay(true).unwrap();
        }
        (client, server)
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

pub fn record(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32 | 1 << 31).to_be_bytes()[..], message].concat()
}

/// In fragments of this many bytes.
fn fragmented(message: &[u8], length: usize) -> Vec<u8> {
    let last = message.len().div_ceil(length) - 1;
    let fragments = message.chunks(length).enumerate();
    fragments.flat_map(|(at, bytes)| [&marker(bytes.len(), at == last)[..], bytes].concat()).collect()
}

fn marker(length: usize, last: bool) -> [u8; 4] {
    (length as u32 | u32::from(last) << 31).to_be_bytes()
}

/// A call's message. READ and WRITE carry `count` bytes; of the others it does not matter.
pub fn message(xid: u32, procedure: u32, uid: u32, count: u32) -> Vec<u8> {
    let credentials = words(&[1, 24, 0, 3, 0x61626300, uid, 100, 0]);
    let arguments = words(&[8, 0, 0, 0, 0, count]);
    let mut message = [words(&[xid, 0, 2, 100_003, 3, procedure]), credentials, words(&[0, 0]), arguments].concat();
    if procedure == WRITE {
        message.extend(words(&[2, count]));
        message.resize(message.len() + count as usize, xid as u8);
    }
    message
}

pub fn call(xid: u32, procedure: u32, uid: u32, count: u32) -> Vec<u8> {
    record(&message(xid, procedure, uid, count))
}

pub fn reply(xid: u32, bytes: usize) -> Vec<u8> {
    record(&[words(&[xid, 1, 0, 0, 0, 0, 0]), vec![xid as u8; bytes]].concat())
}

fn receive(stream: &mut TcpStream, bytes: usize) -> Vec<u8> {
    let mut received = vec![0; bytes];
    stream.read_exact(&mut received).unwrap();
    received
}

/// The xid of the next record, which is read whole.
pub fn next_xid(stream: &mut TcpStream) -> u32 {
    let length = u32::from_be_bytes(receive(stream, 4).try_into().unwrap()) & !(1 << 31);
    u32::from_be_bytes(receive(stream, length as usize)[..4].try_into().unwrap())
}

fn is_silent(stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(MOMENT)).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

pub fn has_ended(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => rest.is_empty(),
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn bytes_pass_unchanged_however_they_are_cut() {
    let stage = Stage::new("sfq-depth", 1 << 20);
    let long = message(5, WRITE, 1, 100_000);
    let calls = [
        call(1, NULL, 1, 0),
        call(2, READ, 1, 4096),
        fragmented(&message(3, READ, 2, 4096), 7),
        call(4, WRITE, 1, 3000),
        fragmented(&long, 9000),
        call(6, WRITE, 1, 9000),
        record(b"no call"),
        record(b""),
        call(7, COMMIT, 1, 0),
    ];
    let replies = [
        reply(1, 0),
        fragmented(&reply(2, 4096)[4..], 1000),
        reply(3, 100),
        reply(999, 70_000),
        record(b"odd"),
        reply(4, 0),
        reply(5, 0),
        reply(6, 0),
        reply(7, 300_000),
    ];
    for piece in [1, 3, 1000, 8192, 1 << 20] {
        let (mut client, mut server) = stage.connect();
        let (sent, answered) = (calls.concat(), replies.concat());
        let mut far = server.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for bytes in sent.chunks(piece.max(sent.len() / 2000)) {
                    client.write_all(bytes).unwrap();
                }
            });
            // Calls that wait for a grant may be overtaken by others: they are compared as a set.
            let mut received: Vec<u8> = Vec::new();
            while received.len() < sent.len() {
                let mut some = vec![0; sent.len() - received.len()];
                let count = server.read(&mut some).unwrap();
                assert!(count > 0, "the gate ended early");
                received.extend(&some[..count]);
            }
            for call in &calls {
                assert!(received.windows(call.len()).any(|window| window == call), "{:?} is missing", &call[..8]);
            }
        });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                answered.chunks(piece.max(answered.len() / 2000)).for_each(|bytes| far.write_all(bytes).unwrap())
            });
            assert!(receive(&mut client, answered.len()) == answered, "pieces of {piece}");
        });
    }
}

#[test]
fn reads_wait_for_their_turns_and_all_else_passes() {
    let stage = Stage::new("sfq-depth", 64 << 10);
    let (mut client, mut server) = stage.connect();
    for xid in 1..=3 {
        client.write_all(&call(xid, READ, 1, 64 << 10)).unwrap();
    }
    assert_eq!(next_xid(&mut server), 1);
    assert!(is_silent(&server));
    client.write_all(&call(9, NULL, 1, 0)).unwrap();
    assert_eq!(next_xid(&mut server), 9);
    // Half a reply is none.
    let whole = reply(1, 64 << 10);
    server.write_all(&whole[..1000]).unwrap();
    assert_eq!(receive(&mut client, 1000), whole[..1000]);
    assert!(is_silent(&server));
    server.write_all(&whole[1000..]).unwrap();
    assert_eq!(next_xid(&mut server), 2);
    assert_eq!(receive(&mut client, whole.len() - 1000), whole[1000..]);
}

#[test]
fn a_commit_follows_the_writes_before_it() {
    let stage = Stage::new("sfq-depth", 64 << 10);
    let (mut client, mut server) = stage.connect();
    for (xid, procedure) in [(1, WRITE), (2, WRITE), (3, COMMIT), (4, NULL)] {
        client.write_all(&call(xid, procedure, 1, 64 << 10)).unwrap();
    }
    let mut first = [next_xid(&mut server), next_xid(&mut server)];
    first.sort();
    assert_eq!(first, [1, 4], "the last follows no write");
    assert!(is_silent(&server));
    server.write_all(&reply(1, 20)).unwrap();
    assert_eq!((next_xid(&mut server), next_xid(&mut server)), (2, 3));
}

#[test]
fn users_of_one_connection_share_it_by_weight() {
    let stage = Stage::new("sfq-depth", 64 << 10);
    let (mut client, mut server) = stage.connect();
    for at in 0..100 {
        for uid in [2, 1] {
            client.write_all(&call(1000 * uid + at, READ, uid, 32 << 10)).unwrap();
        }
    }
    let mut served = [0, 0];
    let drain = client.try_clone().unwrap();
    std::thread::spawn(move || std::io::copy(&mut &drain, &mut std::io::sink()));
    for _ in 0..100 {
        let xid = next_xid(&mut server);
        served[xid as usize / 1000 - 1] += 1;
        server.write_all(&reply(xid, 32 << 10)).unwrap();
    }
    assert!(served[0] >= 76 && served[1] >= 17, "{served:?} of 4:1");
}

#[test]
fn a_client_that_dies_leaves_its_place_to_others() {
    let stage = Stage::new("sfq-depth", 64 << 10);
    let (mut dying, mut its_server) = stage.connect();
    let (mut living, mut server) = stage.connect();
    for xid in 1..=50 {
        dying.write_all(&call(xid, READ, 1, 64 << 10)).unwrap();
    }
    assert_eq!(next_xid(&mut its_server), 1);
    living.write_all(&call(7, READ, 2, 64 << 10)).unwrap();
    assert!(is_silent(&server));
    // Unread bytes make its end a break, not a proper one.
    its_server.write_all(&reply(900, 100)).unwrap();
    dying.peek(&mut [0]).unwrap();
    drop(dying);
    assert_eq!(next_xid(&mut server), 7);
    assert!(has_ended(&mut its_server));
}

#[test]
fn a_client_that_has_said_all_gets_all_replies() {
    let stage = Stage::new("sfq-depth", 64 << 10);
    let (mut client, mut server) = stage.connect();
    let xids: Vec<u32> = (1..=20).collect();
    for xid in &xids {
        client.write_all(&call(*xid, READ, 1, 64 << 10)).unwrap();
    }
    client.shutdown(Shutdown::Write).unwrap();
    let far = std::thread::spawn(move || {
        for _ in 0..20 {
            let xid = next_xid(&mut server);
            server.write_all(&reply(xid, 64 << 10)).unwrap();
        }
        assert!(has_ended(&mut server), "the server sees the client's end after its last call");
    });
    let received: Vec<u32> = xids.iter().map(|_| next_xid(&mut client)).collect();
    assert_eq!(received, xids);
    far.join().unwrap();
    assert!(has_ended(&mut client));
}

#[test]
fn a_call_sent_twice_is_answered_twice() {
    let stage = Stage::new("sfq-depth", 64 << 10);
    let (mut client, mut server) = stage.connect();
    for xid in [5, 5, 6] {
        client.write_all(&call(xid, READ, 1, 64 << 10)).unwrap();
    }
    for xid in [5, 5, 6] {
        assert_eq!(next_xid(&mut server), xid);
        assert!(is_silent(&server));
        server.write_all(&reply(xid, 64 << 10)).unwrap();
        assert_eq!(next_xid(&mut client), xid);
    }
}

#[test]
fn a_stream_without_records_is_closed_and_others_live_on() {
    let stage = Stage::new("sfq-depth", 64 << 10);
    let (mut living, mut server) = stage.connect();
    for garbage in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], &[0xff; 64], &[0; 5000]] {
        let (mut client, mut its_server) = stage.connect();
        client.write_all(&call(1, NULL, 1, 0)).unwrap();
        assert_eq!(next_xid(&mut its_server), 1);
        client.write_all(garbage).unwrap();
        assert!(has_ended(&mut client) && has_ended(&mut its_server), "{garbage:?}");
        let (mut client, mut its_server) = stage.connect();
        its_server.write_all(garbage).unwrap();
        let mut received = Vec::new();
        _ = client.read_to_end(&mut received);
        assert!(garbage.starts_with(&received) && has_ended(&mut its_server), "{garbage:?}");
    }
    living.write_all(&call(2, READ, 1, 10)).unwrap();
    assert_eq!(next_xid(&mut server), 2);
}

#[test]
fn a_client_that_does_not_drain_delays_no_other() {
    let stage = Stage::new("sfq-depth", 256 << 10);
    let (mut slow, mut its_server) = stage.connect();
    let (mut quick, mut server) = stage.connect();
    for xid in 1..=200 {
        slow.write_all(&call(xid, READ, 1, 256 << 10)).unwrap();
    }
    // Answers what it is asked for until nothing more fits anywhere.
    let answering = std::thread::spawn(move || {
        its_server.set_write_timeout(Some(Duration::from_secs(3))).unwrap();
        its_server.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        let mut head = [0; 4];
        while its_server.read_exact(&mut head).is_ok() {
            let length = u32::from_be_bytes(head) & !(1 << 31);
            let call = receive(&mut its_server, length as usize);
            let xid = u32::from_be_bytes(call[..4].try_into().unwrap());
            if its_server.write_all(&reply(xid, 256 << 10)).is_err() {
                break;
            }
        }
        its_server
    });
    let mut its_server = answering.join().unwrap();
    // The shortest rounds count: the machine itself may stand still in others.
    let mut rounds: Vec<_> = (1..=50)
        .map(|xid| {
            let began = Instant::now();
            quick.write_all(&call(xid, READ, 2, 64 << 10)).unwrap();
            assert_eq!(next_xid(&mut server), xid);
            server.write_all(&reply(xid, 64 << 10)).unwrap();
            assert_eq!(next_xid(&mut quick), xid);
            began.elapsed()
        })
        .collect();
    rounds.sort();
    assert!(rounds[40] < Duration::from_millis(40), "{rounds:?}");
    // When it drains after all, it goes on.
    slow.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut drained = Vec::new();
    _ = slow.read_to_end(&mut drained);
    assert!(!is_silent(&its_server), "the next call comes");
    assert!(next_xid(&mut its_server) > 1);
}

#[test]
fn what_waits_in_the_gate_is_bounded() {
    let stage = Stage::new("sfq-depth", 64 << 10);
    let (client, mut server) = stage.connect();
    client.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut sent = 0;
    for xid in 1.. {
        let bytes = call(xid, WRITE, 1, 256 << 10);
        match (&client).write(&bytes) {
            Ok(count) if count == bytes.len() => sent += count,
            _ => break,
        }
    }
    assert_eq!(next_xid(&mut server), 1);
    // The window, the sockets' own buffers and one call on its way.
    assert!((16 << 20..40 << 20).contains(&sent), "{sent} bytes were taken");
}

#[test]
fn the_offer_of_transfer_sizes_is_lowered_however_it_comes() {
    let stage = Stage::with("sfq-depth", 1 << 20, r#"max_transfer = "128 KiB""#);
    let offer = |size: u32| {
        let sizes = words(&[size, size, 512, size, size, 512, 4096, 0, u32::MAX, 0, 1, 0x1b]);
        record(&[words(&[2, 1, 0, 0, 0, 0, 0, 0]), sizes].concat())
    };
    let before = reply(1, 30_000);
    let after = reply(3, 5000);
    let stream = [&before[..], &offer(64 << 20), &after].concat();
    let expected = [&before[..], &offer(128 << 10), &after].concat();
    for cut in [1, 2, 100, 30_030, 30_033, 30_040, 30_060, 30_110, 30_118, 30_119, 30_125] {
        let (mut client, mut server) = stage.connect();
        client.write_all(&[call(1, NULL, 1, 0), call(2, FSINFO, 1, 0), call(3, NULL, 1, 0)].concat()).unwrap();
        for xid in 1..=3 {
            assert_eq!(next_xid(&mut server), xid);
        }
        server.write_all(&stream[..cut]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        server.write_all(&stream[cut..]).unwrap();
        assert!(receive(&mut client, expected.len()) == expected, "cut at {cut}");
    }
}

#[test]
fn a_server_that_is_gone_is_gone_and_comes_back() {
    let stage = Stage::new("sfq-depth", 64 << 10);
    let (mut client, mut server) = stage.connect();
    client.write_all(&[call(1, READ, 1, 64 << 10), call(2, READ, 1, 64 << 10)].concat()).unwrap();
    assert_eq!(next_xid(&mut server), 1);
    drop(server);
    assert!(has_ended(&mut client));
    // Its memory is free again.
    let (mut client, mut server) = stage.connect();
    client.write_all(&call(3, READ, 1, 64 << 10)).unwrap();
    assert_eq!(next_xid(&mut server), 3);
    let address = stage.server.local_addr().unwrap();
    let Stage { gate, server: listener } = stage;
    drop(listener);
    let mut refused = TcpStream::connect(gate.address).unwrap();
    refused.set_read_timeout(Some(TIMEOUT)).unwrap();
    refused.write_all(&call(3, NULL, 1, 0)).unwrap();
    assert!(has_ended(&mut refused));
    let listener = TcpListener::bind(address).unwrap();
    let stage = Stage { gate, server: listener };
    let (mut client, mut server) = stage.connect();
    client.write_all(&call(4, NULL, 1, 0)).unwrap();
    assert_eq!(next_xid(&mut server), 4);
}

#[test]
fn a_client_that_calls_nothing_costs_the_server_no_connection() {
    let stage = Stage::new("sfq-depth", 64 << 10);
    stage.server.set_nonblocking(true).unwrap();
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(stage.gate.address).unwrap()).collect();
    std::thread::sleep(MOMENT);
    assert!(stage.server.accept().is_err(), "the server was dialled for a client that called nothing");
    drop(silent);
    let mut client = TcpStream::connect(stage.gate.address).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    stage.server.set_nonblocking(false).unwrap();
    client.write_all(&call(5, NULL, 1, 0)).unwrap();
    let (mut server, _) = stage.server.accept().unwrap();
    assert_eq!(next_xid(&mut server), 5);
    server.write_all(&reply(5, 10)).unwrap();
    assert_eq!(next_xid(&mut client), 5);
    client.shutdown(Shutdown::Write).unwrap();
    assert!(has_ended(&mut server));
}
