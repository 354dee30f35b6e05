//! Limits on what hostile or hung peers of NFS can make the gate hold, and keep from others.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::{Gate, TIMEOUT, assert_waits_are_short, connect, spare_address, status};
use crate::rpc::{COMMIT, NULL, READ, WRITE, before_nfs, call, has_ended, message, next_xid, record, reply};

const MIB: usize = 1 << 20;
/// The bytes that the sockets between client, gate and server hold besides.
const SOCKETS: usize = 24 * MIB;

/// Before a server that the test plays, and where it shows its numbers.
fn gate(server: SocketAddr, more: &str) -> (Gate, SocketAddr) {
    let metrics = spare_address();
    let top = format!("depth = \"128 KiB\"\nscheduler = \"sfq-depth\"\nmetrics = \"{metrics}\"\n{more}");
    (before_nfs(server, &top, ""), metrics)
}

/// A server that reads what comes with `read`, for each connection.
fn server(read: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let read = Arc::new(read);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let read = read.clone();
            thread::spawn(move || read(stream.unwrap()));
        }
    });
    address
}

fn hang(_stream: TcpStream) {
    thread::sleep(Duration::from_secs(3600));
}

/// Reads all and answers none.
fn swallow(mut stream: TcpStream) {
    _ = std::io::copy(&mut stream, &mut std::io::sink());
}

/// Answers every call but READs of uid 1.
fn answer_light(mut stream: TcpStream) {
    loop {
        let mut head = [0; 4];
        if stream.read_exact(&mut head).is_err() {
            return;
        }
        let mut call = vec![0; (u32::from_be_bytes(head) & !(1 << 31)) as usize];
        stream.read_exact(&mut call).unwrap();
        let word = |at: usize| u32::from_be_bytes(call[4 * at..4 * at + 4].try_into().unwrap());
        if (word(5), word(11)) != (READ, 1) {
            _ = stream.write_all(&reply(word(0), 100));
        }
    }
}

/// Sends calls until the gate takes no more for a second, or so many bytes were taken.
fn flood(gate: &Gate, most: usize, calls: impl Fn(u32) -> Vec<u8>) -> usize {
    let mut client = connect(gate.address);
    flood_on(&mut client, most, calls)
}

fn flood_on(client: &mut TcpStream, most: usize, calls: impl Fn(u32) -> Vec<u8>) -> usize {
    client.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut taken = 0;
    for xid in 1.. {
        let bytes = calls(xid);
        let mut at = 0;
        while at < bytes.len() {
            match client.write(&bytes[at..]) {
                Ok(count) => at += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return taken + at,
                Err(error) => panic!("{error}"),
            }
        }
        taken += at;
        if taken >= most {
            break;
        }
    }
    taken
}

fn padded(xid: u32, procedure: u32, bytes: usize) -> Vec<u8> {
    let mut message = message(xid, procedure, 1, 0);
    message.resize(bytes, 0);
    record(&message)
}

/// A number of the gate's status page.
fn number(metrics: SocketAddr, key: &str) -> usize {
    let page = status(metrics);
    let (_, from) = page.split_once("\"call_memory\":").expect("it is shown");
    let (_, from) = from.split_once(&format!("\"{key}\":")).expect("it is shown");
    from.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// One WRITE passes and is answered.
fn is_served(gate: &Gate, uid: u32, bytes: u32) -> bool {
    let mut client = connect(gate.address);
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    client.write_all(&call(77, WRITE, uid, bytes)).unwrap();
    let mut answer = [0; 8];
    client.read_exact(&mut answer).is_ok() && answer[4..] == 77_u32.to_be_bytes()
}

#[test]
fn short_calls_to_a_server_that_does_not_read_are_held_within_the_budget() {
    let (gate, metrics) = gate(server(hang), "");
    let taken = flood(&gate, 200 * MIB, |xid| padded(xid, NULL, 3900));
    assert!(taken < 16 * MIB + SOCKETS, "{taken} bytes were taken");
    assert!(number(metrics, "used_bytes") <= number(metrics, "limit_bytes"));
}

#[test]
fn calls_that_follow_a_waiting_write_are_held_within_the_budget() {
    let (gate, metrics) = gate(server(swallow), "");
    let mut client = connect(gate.address);
    for xid in 1..=3 {
        client.write_all(&call(xid, WRITE, 1, 100 << 10)).unwrap();
    }
    let taken = flood_on(&mut client, 200 * MIB, |xid| padded(xid, COMMIT, 3900));
    assert!(taken < 16 * MIB + SOCKETS, "{taken} bytes were taken");
    assert!(number(metrics, "used_bytes") <= number(metrics, "limit_bytes"));
}

#[test]
fn short_writes_of_many_connections_share_the_budget() {
    let (gate, metrics) = gate(server(hang), "call_memory = \"8 MiB\"");
    let clients: Vec<_> = (0..100)
        .map(|_| {
            let mut client = connect(gate.address);
            thread::spawn(move || {
                flood_on(&mut client, 3 * MIB, |xid| call(xid, WRITE, 1, 3600));
                client
            })
        })
        .collect();
    let clients: Vec<TcpStream> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    let used_bytes = number(metrics, "used_bytes");
    assert!((2 * MIB..=8 * MIB).contains(&used_bytes), "{used_bytes} bytes are held");
    assert_eq!(number(metrics, "connections"), 100);
    drop(clients);
    // Their ends stand behind bytes that the gate does not read.
    all_is_given_back_within(metrics, TIMEOUT);
}

/// Sends more than the gate takes, from so many clients, and breaks all their connections at once.
fn flood_and_reset(address: SocketAddr, clients: usize, metrics: SocketAddr) {
    let flooding: Vec<_> = (0..clients)
        .map(|_| {
            let mut client = connect(address);
            thread::spawn(move || {
                flood_on(&mut client, 3 * MIB, |xid| call(xid, WRITE, 1, 3600));
                client
            })
        })
        .collect();
    let flooding: Vec<TcpStream> = flooding.into_iter().map(|client| client.join().unwrap()).collect();
    assert_eq!(number(metrics, "connections"), clients);
    flooding.iter().for_each(|client| rustix::net::sockopt::set_socket_linger(client, Some(Duration::ZERO)).unwrap());
}

fn all_is_given_back_within(metrics: SocketAddr, most: Duration) {
    let end = Instant::now() + most;
    while number(metrics, "used_bytes") + number(metrics, "connections") > 0 {
        assert!(Instant::now() < end, "memory is not given back");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn memory_of_clients_that_reset_is_given_back_at_once_while_the_server_does_not_read() {
    let (gate, metrics) = gate(server(hang), "call_memory = \"8 MiB\"");
    flood_and_reset(gate.address, 100, metrics);
    all_is_given_back_within(metrics, Duration::from_secs(5));
}

#[test]
fn memory_of_clients_that_reset_is_given_back_at_once_while_the_server_does_not_answer() {
    let (gate, metrics) = gate(server(swallow), "call_memory = \"8 MiB\"");
    flood_and_reset(gate.address, 20, metrics);
    all_is_given_back_within(metrics, Duration::from_secs(5));
}

#[test]
fn memory_of_a_client_that_closes_is_given_back_although_the_server_answers_nothing() {
    let (gate, metrics) = gate(server(swallow), "");
    let mut client = connect(gate.address);
    for xid in 1..=100 {
        client.write_all(&call(xid, WRITE, 1, 60 << 10)).unwrap();
    }
    drop(client);
    all_is_given_back_within(metrics, Duration::from_secs(80));
}

/// Calls of so many bytes in all from each of so many clients, as fast as the gate takes them, for so long.
fn clients_that_stay(gate: &Gate, clients: usize, most: usize, lasting: Duration) -> (Vec<TcpStream>, usize) {
    let flooding: Vec<_> = (0..clients)
        .map(|_| {
            let client = connect(gate.address);
            rustix::net::sockopt::set_socket_send_buffer_size(&client, 64 << 10).unwrap();
            thread::spawn(move || {
                let calls: Vec<u8> = (1..=(most / 3600) as u32).flat_map(|xid| call(xid, WRITE, 1, 3600)).collect();
                client.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
                let (end, mut sent) = (Instant::now() + lasting, 0);
                while sent < calls.len() && Instant::now() < end {
                    sent += (&client).write(&calls[sent..]).unwrap_or(0);
                }
                (client, sent)
            })
        })
        .collect();
    let all: Vec<_> = flooding.into_iter().map(|client| client.join().unwrap()).collect();
    let sent = all.iter().map(|(_, sent)| sent).sum();
    (all.into_iter().map(|(client, _)| client).collect(), sent)
}

#[test]
fn the_kernel_takes_unread_bytes_of_a_few_live_clients_only_and_none_of_them_is_broken() {
    let (gate, metrics) = gate(server(hang), "call_memory = \"8 MiB\"");
    let (clients, sent) = clients_that_stay(&gate, 50, 8 * MIB, Duration::from_secs(12));
    // 16 of 50 are given 4 MiB.
    assert!(sent < (8 + 16 * 4 + 50) * MIB, "{} MiB were taken", sent / MIB);
    assert!(sent > (8 + 16 * 2) * MIB, "{} MiB were taken", sent / MIB);
    assert_eq!((number(metrics, "connections"), clients.len()), (50, 50));
}

#[test]
fn clients_that_wait_for_memory_get_all_their_replies_when_the_server_moves_again() {
    let sleeps = Instant::now() + Duration::from_secs(9);
    let served = server(move |stream| {
        thread::sleep(sleeps.saturating_duration_since(Instant::now()));
        answer_light(stream);
    });
    let (gate, metrics) = gate(served, "call_memory = \"8 MiB\"");
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let mut client = connect(gate.address);
            thread::spawn(move || {
                let mut replies = client.try_clone().unwrap();
                let reading = thread::spawn(move || (0..500).map(|_| next_xid(&mut replies)).collect::<Vec<u32>>());
                (1..=500).for_each(|xid| client.write_all(&call(xid, WRITE, 1, 3600)).unwrap());
                assert_eq!(reading.join().unwrap(), (1..=500).collect::<Vec<u32>>());
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!(number(metrics, "used_bytes"), 0);
}

#[test]
fn replies_that_clients_do_not_read_are_held_within_the_budget() {
    let served = server(|mut stream| {
        let xid = next_xid(&mut stream);
        _ = stream.write_all(&reply(xid, 30 * MIB));
        hang(stream);
    });
    let (gate, metrics) = gate(served, "call_memory = \"4 MiB\"\nconnections_per_client = 100");
    let clients: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut client = connect(gate.address);
            client.write_all(&call(1, NULL, 1, 0)).unwrap();
            client
        })
        .collect();
    thread::sleep(Duration::from_secs(2));
    let used_bytes = number(metrics, "used_bytes");
    assert!(used_bytes <= 4 * MIB, "{used_bytes} bytes are held");
    // A client that reads gets all.
    let mut last = clients.into_iter().next_back().unwrap();
    assert_eq!(next_xid(&mut last), 1);
}

#[test]
fn a_full_budget_does_not_stop_the_replies_that_free_it() {
    let (gate, metrics) = gate(server(answer_light), "call_memory = \"4 MiB\"");
    let clients: Vec<_> = (0..50)
        .map(|_| {
            let mut client = connect(gate.address);
            thread::spawn(move || {
                let mut far = client.try_clone().unwrap();
                let reading = thread::spawn(move || (0..20).for_each(|_| _ = next_xid(&mut far)));
                (1..=20).for_each(|xid| client.write_all(&call(xid, WRITE, 1, 700_000)).unwrap());
                reading.join().unwrap();
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!(number(metrics, "used_bytes"), 0);
}

#[test]
fn declared_records_that_do_not_come_delay_no_other() {
    let (gate, _) = gate(server(answer_light), "");
    for declared in [(64 * MIB - 4) as u32, (8 * MIB) as u32, (30 * MIB) as u32] {
        let begun = [&(declared | 1 << 31).to_be_bytes()[..], &message(1, WRITE, 1, declared - 200)].concat();
        let hostile: Vec<TcpStream> = (0..12)
            .map(|_| {
                let mut client = connect(gate.address);
                _ = client.write_all(&begun);
                _ = client.write_all(&[0; 4000]);
                client
            })
            .collect();
        thread::sleep(Duration::from_millis(200));
        for uid in [1, 2] {
            assert!(is_served(&gate, uid, 1 << 20), "{declared} bytes declared, uid {uid}");
        }
        drop(hostile);
    }
}

#[test]
fn an_application_that_fills_its_part_leaves_the_other_its_own() {
    let swallowing_heavy = server(|stream| {
        let mut peeked = [0; 64];
        while stream.peek(&mut peeked).unwrap_or(0) < 64 {}
        match peeked[47] {
            1 => hang(stream),
            _ => answer_light(stream),
        }
    });
    let (gate, _) = gate(swallowing_heavy, "call_memory = \"16 MiB\"");
    let hostile: Vec<_> = (0..20)
        .map(|_| {
            let mut client = connect(gate.address);
            thread::spawn(move || {
                flood_on(&mut client, 20 * MIB, |xid| padded(xid, NULL, 8000));
                client
            })
        })
        .collect();
    let _hostile: Vec<TcpStream> = hostile.into_iter().map(|client| client.join().unwrap()).collect();
    assert!(is_served(&gate, 2, 1 << 20));
}

#[test]
fn calls_that_hang_keep_others_waiting_for_a_moment_only_and_late_replies_pass() {
    let hung: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    let kept = hung.clone();
    let served = server(move |stream| {
        kept.lock().unwrap().push(stream.try_clone().unwrap());
        answer_light(stream);
    });
    assert_waits_are_short(|| {
        hung.lock().unwrap().clear();
        let (gate, _) = gate(served, "");
        let mut heavy = connect(gate.address);
        for xid in 1..=200 {
            heavy.write_all(&call(xid, READ, 1, 60 << 10)).unwrap();
        }
        thread::sleep(Duration::from_millis(200));
        let mut light = connect(gate.address);
        // The longest wait, not all of them: hundreds of hops between threads take seconds on a busy machine.
        let mut longest = Duration::ZERO;
        for xid in 1..=100 {
            let began = Instant::now();
            light.write_all(&call(xid, READ, 2, 60 << 10)).unwrap();
            assert_eq!(next_xid(&mut light), xid);
            longest = longest.max(began.elapsed());
        }
        // Their grants are over, and their replies still pass.
        let mut server = hung.lock().unwrap()[0].try_clone().unwrap();
        server.write_all(&reply(1, 60 << 10)).unwrap();
        assert_eq!(next_xid(&mut heavy), 1);
        longest
    });
}

#[test]
fn an_application_whose_calls_hang_is_sent_no_more_than_its_part_of_the_depth() {
    let read: Arc<Mutex<usize>> = Arc::default();
    let counted = read.clone();
    let served = server(move |mut stream| {
        while next_xid_or_end(&mut stream).is_some() {
            *counted.lock().unwrap() += 1;
        }
    });
    let (gate, _) = gate(served, "");
    let mut heavy = connect(gate.address);
    for xid in 1..=200 {
        heavy.write_all(&call(xid, READ, 1, 30 << 10)).unwrap();
    }
    thread::sleep(Duration::from_secs(5));
    let sent = *read.lock().unwrap();
    assert!((1..=4).contains(&sent), "{sent} calls of 30 KiB within 128 KiB");
    thread::sleep(Duration::from_secs(8));
    let sent_later = *read.lock().unwrap();
    assert!(sent_later > sent, "after a while they no longer count");
}

/// How many requests of heavy's are shown as not answered, and for how long the oldest.
fn unanswered(metrics: SocketAddr) -> (u64, f64) {
    let page = status(metrics);
    let body = page.split_once("\r\n\r\n").expect("a head").1;
    let status: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let mut applications = status["applications"].as_array().expect("a list").iter();
    let heavy = applications.find(|application| application["name"] == "heavy").expect("it is listed");
    (heavy["unanswered"].as_u64().expect("a number"), heavy["oldest_unanswered_s"].as_f64().expect("a number"))
}

/// They held no turn any more after a second, and the gate showed an idle server.
#[test]
fn calls_that_hang_are_shown_until_they_are_answered_or_their_client_has_gone() {
    let kept: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    let streams = kept.clone();
    let served = server(move |stream| {
        streams.lock().unwrap().push(stream.try_clone().unwrap());
        swallow(stream);
    });
    let (gate, metrics) = gate(served, "");
    let mut heavy = connect(gate.address);
    for xid in 1..=40 {
        heavy.write_all(&call(xid, READ, 1, 1 << 10)).unwrap();
    }
    let begun = Instant::now();
    while unanswered(metrics).0 < 40 {
        assert!(begun.elapsed() < TIMEOUT);
        thread::sleep(Duration::from_millis(20));
    }
    // They have lost their grants, and no longer count against their application.
    thread::sleep(Duration::from_secs(13));
    let (count, oldest_s) = unanswered(metrics);
    assert!(count == 40 && oldest_s > 12.0, "{count} calls, the oldest {oldest_s} s old");
    let mut server = kept.lock().unwrap()[0].try_clone().unwrap();
    server.write_all(&reply(1, 1 << 10)).unwrap();
    assert_eq!(next_xid(&mut heavy), 1);
    assert_eq!(unanswered(metrics).0, 39);
    drop(heavy);
    kept.lock().unwrap().iter().for_each(|stream| stream.shutdown(std::net::Shutdown::Both).unwrap());
    while unanswered(metrics) != (0, 0.0) {
        assert!(begun.elapsed() < 2 * TIMEOUT);
        thread::sleep(Duration::from_millis(20));
    }
}

fn next_xid_or_end(stream: &mut TcpStream) -> Option<u32> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).ok()?;
    let mut call = vec![0; (u32::from_be_bytes(head) & !(1 << 31)) as usize];
    stream.read_exact(&mut call).ok()?;
    Some(u32::from_be_bytes(call[..4].try_into().ok()?))
}

#[test]
fn connections_are_limited_and_places_come_back() {
    let (gate, metrics) = gate(server(answer_light), "call_memory = \"4 MiB\"\nconnections_per_client = 1000");
    let crowd: Vec<TcpStream> = (0..256).map(|_| connect(gate.address)).collect();
    let end = Instant::now() + TIMEOUT;
    while number(metrics, "connections") < 256 {
        assert!(Instant::now() < end);
        thread::sleep(Duration::from_millis(20));
    }
    assert!(has_ended(&mut connect(gate.address)), "one more is refused");
    drop(crowd);
    while number(metrics, "connections") > 0 {
        assert!(Instant::now() < end, "places come back");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(is_served(&gate, 2, 1000));
}

#[test]
fn one_client_takes_a_quarter_of_the_connections_and_no_more() {
    let (gate, metrics) = gate(server(answer_light), "call_memory = \"4 MiB\"");
    let _crowd: Vec<TcpStream> = (0..64).map(|_| connect(gate.address)).collect();
    let end = Instant::now() + TIMEOUT;
    while number(metrics, "connections") < 64 {
        assert!(Instant::now() < end);
        thread::sleep(Duration::from_millis(20));
    }
    assert!(has_ended(&mut connect(gate.address)), "one more of the same client is refused");
    assert_eq!(number(metrics, "connections"), 64);
}

#[test]
fn a_server_that_takes_no_connections_is_given_up() {
    // Its queue is full: it answers no more of them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let _queued = TcpStream::connect(address).unwrap();
    let (gate, _) = gate(address, "");
    let mut client = connect(gate.address);
    client.write_all(&call(1, NULL, 1, 0)).unwrap();
    let began = Instant::now();
    assert!(has_ended(&mut client));
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}
