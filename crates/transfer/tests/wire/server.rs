//! The server against clients that misbehave, and many connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use format::{FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, PROTOCOL, SessionId, StorePath};
use transfer::message::{FailureKind, Reply, Request};
use transfer::{Connection, Error, Remote, Server};

use crate::fake::Fake;

fn address(server: &Server) -> String {
    server.local_address().to_string()
}

/// Returns a connection that has sent Hello.
fn greeted(server: &Server) -> Connection {
    let connection = Connection::open(&address(server)).unwrap();
    let hello = Request::Hello { client: 1, stream: 2, job: String::new(), application: String::new() };
    connection.send(hello.kind(), 1, &hello.encode(), &[]).unwrap();
    assert!(matches!(answer(&connection), (1, Reply::Welcome { .. })));
    connection
}

fn ask(connection: &Connection, number: u64, request: Request) {
    connection.send(request.kind(), number, &request.encode(), &[]).unwrap();
}

/// Returns the node's next message other than heartbeats.
fn answer(connection: &Connection) -> (u64, Reply) {
    loop {
        let frame = connection.receive().unwrap().expect("the node says something");
        match Reply::decode(frame.header.kind, &frame.body).unwrap() {
            Reply::Alive { .. } => continue,
            reply => return (frame.header.request, reply),
        }
    }
}

fn failure(connection: &Connection) -> (u64, FailureKind) {
    match answer(connection) {
        (number, Reply::Failed { failure }) => (number, failure.kind),
        (number, other) => panic!("{number} was answered {other:?}"),
    }
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "not within 60 s: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn path(text: &str) -> StorePath {
    StorePath::new(text.as_bytes()).unwrap()
}

#[test]
fn requests_are_answered_now_later_and_unasked() {
    let server = Fake::new(1).serve();
    let connection = greeted(&server);
    ask(&connection, 5, Request::Checkpoint { session: SessionId(1), stripe_set: 0, epoch: 0 });
    ask(&connection, 6, Request::Size { session: SessionId(1), stripe_set: 0 });
    assert!(matches!(answer(&connection), (0, Reply::Durable { sequence: 3, .. })));
    assert_eq!(answer(&connection), (6, Reply::Size { size: 9 }));
    assert_eq!(answer(&connection), (5, Reply::Done {}));
    ask(&connection, 7, Request::Versions { path: path("dropped"), after: 0 });
    assert_eq!(failure(&connection), (7, FailureKind::Io), "a replier that is dropped answers Failed");
    ask(&connection, 8, Request::Read { session: SessionId(1), stripe_set: 0, extents: Vec::new() });
    assert_eq!(failure(&connection), (8, FailureKind::Refused), "a reply above the limit becomes a failure");
}

#[test]
fn frames_with_a_flipped_bit_are_refused_with_a_farewell() {
    let fake = Fake::new(1);
    let server = fake.serve();
    let hello = Request::Hello { client: 1, stream: 2, job: "job".into(), application: String::new() };
    let body = hello.encode();
    let frame = [&FrameHeader::new(hello.kind(), 1, &body, b"").encode()[..], &body].concat();
    for bit in (0..frame.len() * 8).filter(|bit| bit / 8 != RESERVED_BYTE) {
        let mut bad = frame.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let mut stream = TcpStream::connect(server.local_address()).unwrap();
        stream.write_all(&bad).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
        let header = FrameHeader::decode(&said).unwrap();
        let reply = Reply::decode(header.kind, &said[FRAME_HEADER_BYTES..]).unwrap();
        assert!(matches!(reply, Reply::Failed { .. }), "bit {bit} was answered {reply:?}");
    }
    assert_eq!(fake.connected.load(Ordering::SeqCst), 0);
    greeted(&server);
}

/// The one header byte without a meaning yet.
const RESERVED_BYTE: usize = 5;

#[test]
fn only_the_client_that_breaks_the_rules_is_disconnected() {
    let fake = Fake::new(1);
    let server = fake.serve();
    let good = greeted(&server);
    let stranger = Connection::open(&address(&server)).unwrap();
    ask(&stranger, 1, Request::Release { owner: 1 });
    assert_eq!(failure(&stranger), (0, FailureKind::Refused), "the first message must be Hello");
    for (request, number) in [
        (Request::Hello { client: 1, stream: 1, job: String::new(), application: String::new() }, 2),
        (Request::Release { owner: 1 }, 0),
    ] {
        let guest = greeted(&server);
        ask(&guest, number, request);
        assert_eq!(failure(&guest), (0, FailureKind::Refused));
        assert!(guest.receive().unwrap().is_none(), "and the connection is closed");
    }
    let newer = greeted(&server);
    newer.send(0x7777, 2, b"", &[]).unwrap();
    assert_eq!(failure(&newer), (0, FailureKind::Corrupt), "an unknown kind");
    eventually("three handlers are closed", || fake.closed.load(Ordering::SeqCst) == 3);
    ask(&good, 2, Request::Release { owner: 1 });
    assert_eq!(answer(&good), (2, Reply::Done {}));
}

/// Returns the goodbye to a client that sends this and nothing more, but does not hang up.
fn goodbye(server: &Server, said: &[u8]) -> transfer::message::Failure {
    let mut stream = TcpStream::connect(server.local_address()).unwrap();
    stream.write_all(said).unwrap();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    let header = FrameHeader::decode(&heard).unwrap();
    match Reply::decode(header.kind, &heard[FRAME_HEADER_BYTES..]).unwrap() {
        Reply::Failed { failure } if header.request == 0 => {
            // The client's own port means nothing to its user.
            let own = stream.local_addr().unwrap().port().to_string();
            assert!(!failure.text.contains(&own), "{}", failure.text);
            failure
        }
        other => panic!("{} was answered {other:?}", header.request),
    }
}

#[test]
fn strangers_and_clients_of_other_releases_are_sent_off_at_their_first_words() {
    let fake = Fake::new(1);
    let server = fake.serve();
    for (protocol, older) in [(PROTOCOL - 1, "the peer is the older"), (PROTOCOL + 1, "this program is the older")] {
        let failure = goodbye(&server, &[&FRAME_MAGIC[..], &[protocol]].concat());
        assert!(failure.kind == FailureKind::TooNew && failure.text.contains(older), "{failure:?}");
    }
    for said in [&b"GET / HTTP/1.0\r\n\r\n"[..], b"\x16\x03\x01", b"T "] {
        let failure = goodbye(&server, said);
        assert!(failure.kind == FailureKind::Corrupt && failure.text.contains("no thalweg peer"), "{failure:?}");
    }
    assert_eq!(fake.connected.load(Ordering::SeqCst), 0);
}

#[test]
fn oversize_claims_and_half_open_clients_delay_no_other() {
    let fake = Fake::new(1);
    let server = fake.serve();
    let mut header = FrameHeader::new(1, 1, b"", b"");
    header.payload_bytes = u32::MAX;
    let mut greedy = TcpStream::connect(server.local_address()).unwrap();
    greedy.write_all(&header.encode()).unwrap();
    let mut said = Vec::new();
    greedy.read_to_end(&mut said).unwrap();
    assert!(String::from_utf8_lossy(&said).contains("above the limit"));
    header.payload_bytes = format::MAX_PAYLOAD_BYTES;
    let slow: Vec<TcpStream> = (0..40)
        .map(|number| {
            let mut stream = TcpStream::connect(server.local_address()).unwrap();
            let part = if number % 2 == 0 { 7 } else { FRAME_HEADER_BYTES };
            stream.write_all(&header.encode()[..part]).unwrap();
            stream
        })
        .collect();
    greeted(&server);
    eventually("all are taken in", || server.connections() >= slow.len());
    server.stop();
    eventually("all are sent away", || server.connections() == 0);
}

#[test]
fn a_service_may_turn_a_client_away() {
    let server = Fake::new(1).serve();
    let unwelcome = Remote::connect(&address(&server), 1, "unwelcome", "");
    assert!(matches!(&unwelcome, Err(Error::Failed(failure)) if failure.text.ends_with(": not you")));
}

#[test]
fn connections_beyond_the_limit_are_refused_with_a_message_and_the_others_served() {
    let server = Fake::new(1).serve();
    server.limit_connections(3);
    let mut guests: Vec<Connection> = (0..3).map(|_| greeted(&server)).collect();
    for _ in 0..3 {
        match Remote::connect(&address(&server), 1, "job", "") {
            Err(Error::Unavailable { why, .. }) => assert!(why.contains("serves 3 connections"), "{why}"),
            other => panic!("a fourth connection: {:?}", other.map(drop)),
        }
    }
    guests.iter().for_each(|guest| ask(guest, 2, Request::Release { owner: 1 }));
    guests.iter().for_each(|guest| assert_eq!(answer(guest), (2, Reply::Done {})));
    guests.pop();
    eventually("there is room again", || server.connections() == 2);
    greeted(&server);
}

#[test]
fn stopping_answers_what_is_at_hand() {
    let fake = Fake::new(1);
    let server = fake.serve();
    let (busy, locked) = (greeted(&server), greeted(&server));
    ask(&busy, 2, Request::Checkpoint { session: SessionId(1), stripe_set: 0, epoch: 0 });
    ask(&locked, 2, Request::Lock { session: SessionId(1) });
    eventually("both are at hand", || fake.asked.load(Ordering::SeqCst) == 2);
    server.stop();
    assert_eq!(answer(&busy), (2, Reply::Done {}));
    assert!(busy.receive().unwrap().is_none());
    assert_eq!(failure(&locked), (2, FailureKind::Io), "closing the handler gives up the lock");
    eventually("all are gone", || server.connections() == 0);
    assert!(Connection::open(&address(&server)).is_err(), "no client is let in any more");
}

#[test]
fn a_suspended_server_takes_nothing_and_its_successor_serves_those_who_waited() {
    let server = Fake::new(1).serve();
    let (asking, idle) = (greeted(&server), greeted(&server));
    server.suspend();
    ask(&asking, 2, Request::Release { owner: 1 });
    asking.set_receive_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(asking.receive().is_err(), "a request is left to the successor");
    let waiting = Connection::open(&address(&server)).unwrap();
    ask(&waiting, 1, Request::Hello { client: 9, stream: 1, job: "job".into(), application: String::new() });
    server.cut_off();
    assert!(asking.receive().unwrap().is_none());
    assert!(idle.receive().unwrap().is_none());
    let successor = Fake::new(2).serve_on(server.listener().try_clone().unwrap());
    assert!(matches!(answer(&waiting), (1, Reply::Welcome { incarnation: 2, .. })));
    successor.stop();
}

#[test]
fn two_hundred_connections_are_served_at_once() {
    let fake = Fake::new(1);
    let server = fake.serve();
    let address = address(&server);
    let guests: Vec<Connection> = (0..200).map(|_| greeted(&server)).collect();
    assert_eq!(server.connections(), 200);
    for round in 2..7 {
        guests.iter().for_each(|guest| ask(guest, round, Request::Release { owner: 1 }));
        guests.iter().for_each(|guest| assert_eq!(answer(guest), (round, Reply::Done {})));
    }
    let remote = Remote::connect(&address, 1, "job", "").unwrap();
    assert_eq!(remote.welcome(), &Fake::settings());
    drop((guests, remote));
    eventually("all are closed", || fake.closed.load(Ordering::SeqCst) == 201);
}

#[test]
#[ignore = "takes the 30 s that a client may take to read"]
fn a_client_that_never_reads_is_given_up() {
    let fake = Fake::new(1);
    let server = fake.serve();
    let deaf = greeted(&server);
    ask(&deaf, 2, Request::FlushHint { session: SessionId(1), stripe_set: 0 });
    let started = Instant::now();
    while fake.closed.load(Ordering::SeqCst) == 0 {
        assert!(started.elapsed() < Duration::from_secs(45));
        thread::sleep(Duration::from_millis(100));
    }
    assert!(started.elapsed() > Duration::from_secs(25));
}
