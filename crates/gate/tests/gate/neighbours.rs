//! Effects of an application's clients on others of the same application, and of its kind.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::{Gate, assert_waits_are_short, content_length, read_head, server};
use crate::sharing::{Disk, head};

/// Answers from memory, at this rate.
fn answering(bytes_per_second: f64) -> SocketAddr {
    let disk = Disk::new(bytes_per_second);
    server(move |mut stream| {
        let piece = vec![7; 64 << 10];
        loop {
            let head = read_head(&mut stream)?;
            let mut left: usize = head.split(['/', ' ']).nth(3).and_then(|word| word.parse().ok()).expect("a length");
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n")?;
            while left > 0 {
                let some = left.min(piece.len());
                disk.moves(some);
                stream.write_all(&piece[..some])?;
                left -= some;
            }
        }
    })
}

fn get(client: &mut TcpStream, length: usize) {
    write!(client, "GET /b/{length} HTTP/1.1\r\n\r\n").expect("sent");
    read_head(client).expect("an answer");
    client.read_exact(&mut vec![0; length]).expect("all of it");
}

/// The longest of some short downloads within some seconds.
fn longest(good: &mut TcpStream) -> Duration {
    let (begin, mut longest) = (Instant::now(), Duration::ZERO);
    while begin.elapsed() < Duration::from_secs(6) {
        let began = Instant::now();
        get(good, 64 << 10);
        longest = longest.max(began.elapsed());
        thread::sleep(Duration::from_millis(10));
    }
    longest
}

/// Each of them kept a part of the depth for 200 ms: 12 s for all, one after the other.
#[test]
fn clients_that_never_read_keep_one_of_their_own_application_waiting_for_seconds_at_most() {
    let asked = format!("GET /b/{} HTTP/1.1\r\n\r\n", 1 << 20).repeat(64);
    assert_waits_are_short(|| {
        let gate = Gate::before(answering(1e12), "");
        let mut good = gate.connect();
        get(&mut good, 64 << 10);
        let _deaf = clients_that_begin(&gate, &asked);
        longest(&mut good)
    });
}

fn clients_that_begin(gate: &Gate, beginning: &str) -> Vec<TcpStream> {
    let begun = (0..300).map(|_| {
        let mut client = gate.connect();
        client.write_all(beginning.as_bytes()).expect("sent");
        client
    });
    begun.collect()
}

/// A short body was waited for without end, with the request's grant.
#[test]
fn clients_that_never_send_what_they_promise_keep_one_of_their_own_application_waiting_for_seconds_at_most() {
    for beginning in [
        "PUT /b/k HTTP/1.1\r\nContent-Length: 1000\r\n\r\n",
        "PUT /b/k HTTP/1.1\r\nContent-Length: 100000\r\n\r\n",
        "PUT /b/k HTTP/1.1\r\nContent-Length: 10000000\r\n\r\n",
        "PUT /b/k HTTP/1.1\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n",
    ] {
        assert_waits_are_short(|| {
            let gate = Gate::before(continuing(), "");
            let mut good = gate.connect();
            get(&mut good, 64 << 10);
            let _silent = clients_that_begin(&gate, beginning);
            longest(&mut good)
        });
    }
}

/// Says that the body may come, and waits for it.
fn continuing() -> SocketAddr {
    server(|mut stream| {
        loop {
            let head = read_head(&mut stream)?;
            if head.contains("Expect") {
                stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
            let length = if head.starts_with("GET") { 64 << 10 } else { 0 };
            stream.read_exact(&mut vec![0; content_length(&head)])?;
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")?;
            stream.write_all(&vec![7; length])?;
        }
    })
}

/// Answers light at once, and heavy not before then.
fn answering_heavy_from(then: Instant) -> SocketAddr {
    server(move |mut stream| {
        loop {
            let head = read_head(&mut stream)?;
            stream.read_exact(&mut vec![0; content_length(&head)])?;
            if head.contains("HEAVY") {
                thread::sleep(then.saturating_duration_since(Instant::now()));
            }
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 64 << 10)?;
            stream.write_all(&vec![7; 64 << 10])?;
        }
    })
}

const UNEQUAL: &str = "
[[application]]
name = \"heavy\"
weight = 64
match = { access_key = \"HEAVY\" }
[[application]]
name = \"light\"
match = { access_key = \"LIGHT\" }
";

fn heavy_clients(gate: &Gate, count: usize, method: &str, length: usize) -> Vec<TcpStream> {
    let asking = (0..count).map(|_| {
        let mut client = gate.connect();
        client.write_all(head(method, "HEAVY", length).as_bytes()).expect("sent");
        client.write_all(&vec![1; length]).expect("sent");
        client
    });
    asking.collect()
}

fn take_answer(client: &mut TcpStream) {
    let length = content_length(&read_head(client).expect("an answer"));
    client.read_exact(&mut vec![0; length]).expect("all of it");
}

/// A client of light waited for 64 of heavy's, each of which kept its part of the depth for a second and more.
#[test]
fn requests_that_hang_keep_those_of_another_application_waiting_for_seconds_at_most() {
    for (method, length) in [("GET", 0), ("PUT", 100_000)] {
        assert_waits_are_short(|| {
            let gate = Gate::before(answering_heavy_from(Instant::now() + Duration::from_secs(60)), UNEQUAL);
            let _hanging = heavy_clients(&gate, 600, method, length);
            let mut light = gate.connect();
            let (begin, mut longest) = (Instant::now(), Duration::ZERO);
            while begin.elapsed() < Duration::from_secs(10) {
                let began = Instant::now();
                light.write_all(head("GET", "LIGHT", 0).as_bytes()).expect("sent");
                take_answer(&mut light);
                longest = longest.max(began.elapsed());
            }
            longest
        });
    }
}

#[test]
fn requests_that_waited_while_others_hung_pass_when_the_server_answers_again() {
    let gate = Gate::before(answering_heavy_from(Instant::now() + Duration::from_secs(4)), UNEQUAL);
    let mut waiting = heavy_clients(&gate, 300, "GET", 0);
    waiting.iter_mut().for_each(take_answer);
}

/// Answers a request for `/b/sleep/<milliseconds>` after that time, and others at once.
fn sleeping_by_path() -> SocketAddr {
    server(|mut stream| {
        loop {
            let head = read_head(&mut stream)?;
            stream.read_exact(&mut vec![0; content_length(&head)])?;
            let path = head.split(' ').nth(1).and_then(|path| path.strip_prefix("/b/sleep/"));
            thread::sleep(Duration::from_millis(path.map_or(0, |path| path.parse().expect("milliseconds"))));
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 64 << 10)?;
            stream.write_all(&vec![7; 64 << 10])?;
        }
    })
}

/// One that has the server to itself: each of them kept its part of the depth for a second and more, and the next came after it.
#[test]
fn requests_that_hang_keep_one_of_their_own_application_waiting_for_seconds_at_most() {
    for (method, length) in [("GET", 0), ("PUT", 100_000)] {
        assert_waits_are_short(|| {
            let gate = Gate::before(sleeping_by_path(), "");
            let body = "1".repeat(length);
            let asked = format!("{method} /b/sleep/60000 HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}");
            let _hanging = clients_that_begin(&gate, &asked);
            longest(&mut gate.connect())
        });
    }
}

/// In this depth the part of light is one request.
fn narrow(server: SocketAddr) -> Gate {
    Gate::with_file(&format!(
        "depth = \"256 KiB\"\n[[listen]]\nprotocol = \"s3\"\naddress = \"127.0.0.1:0\"\nupstream = \"{server}\"\n{UNEQUAL}"
    ))
}

fn ask(client: &mut TcpStream, key: &str, sleep: Duration) {
    let asked = head("GET", key, 0).replace("/b/k ", &format!("/b/sleep/{} ", sleep.as_millis()));
    client.write_all(asked.as_bytes()).expect("sent");
}

/// Heavy wants something of the server whenever `is_over` runs, so that light has its part only.
fn wait_beside(heavy: &mut TcpStream, mut is_over: impl FnMut(Duration) -> bool) {
    let begin = Instant::now();
    let mut over = false;
    while !over {
        ask(heavy, "HEAVY", Duration::from_millis(400));
        thread::sleep(Duration::from_millis(100));
        over = is_over(begin.elapsed());
        take_answer(heavy);
    }
}

/// Each request that was sent ahead began anew the 10 s after which the one before it counts no longer.
#[test]
fn a_request_that_hangs_is_given_up_in_time_while_its_client_sends_more_ahead() {
    let gate = narrow(sleeping_by_path());
    let (mut heavy, mut hanging, mut light) = (gate.connect(), gate.connect(), gate.connect());
    ask(&mut hanging, "LIGHT", Duration::from_secs(60));
    wait_beside(&mut heavy, |waited| waited > Duration::from_secs(3));
    let mut is_asked = false;
    light.set_nonblocking(true).expect("set");
    wait_beside(&mut heavy, |waited| {
        assert!(waited < Duration::from_secs(16), "it waits for a request that hangs");
        if !std::mem::replace(&mut is_asked, true) {
            ask(&mut light, "LIGHT", Duration::ZERO);
        }
        ask(&mut hanging, "LIGHT", Duration::ZERO);
        light.peek(&mut [0]).is_ok()
    });
}

/// The answer to a request that was given up was ignored: its application counted as one whose requests hang.
#[test]
fn a_server_that_answers_what_was_given_up_counts_as_living() {
    let gate = narrow(sleeping_by_path());
    let (mut heavy, mut slow, mut light) = (gate.connect(), gate.connect(), gate.connect());
    ask(&mut slow, "LIGHT", Duration::from_secs(14));
    wait_beside(&mut heavy, |waited| waited > Duration::from_secs(13));
    take_answer(&mut slow);
    ask(&mut heavy, "HEAVY", Duration::from_secs(10));
    thread::sleep(Duration::from_millis(100));
    ask(&mut slow, "LIGHT", Duration::from_secs(10));
    thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    ask(&mut light, "LIGHT", Duration::ZERO);
    take_answer(&mut light);
    assert!(began.elapsed() < Duration::from_secs(5), "it waited for the other: {:?}", began.elapsed());
}
