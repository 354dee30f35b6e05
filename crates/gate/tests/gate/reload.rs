//! The file is read again while connections live.

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::{Gate, TIMEOUT, connect, read_head, server, spare_address, status};

fn answering(word: &'static str) -> std::net::SocketAddr {
    server(move |mut stream| {
        loop {
            read_head(&mut stream)?;
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{word}", word.len())?;
        }
    })
}

fn asked(client: &mut std::net::TcpStream) -> Option<String> {
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").ok()?;
    let head = read_head(client).ok()?;
    let mut word = vec![0; crate::fixture::content_length(&head)];
    client.read_exact(&mut word).ok()?;
    String::from_utf8(word).ok()
}

/// Polls, since the file is checked once a second.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn file(address: &str, upstream: std::net::SocketAddr, more: &str) -> String {
    format!("{more}\n[[listen]]\nprotocol = \"s3\"\naddress = \"{address}\"\nupstream = \"{upstream}\"\n")
}

#[test]
fn another_server_and_another_depth_come_with_the_file_and_connections_stay() {
    let (first, second) = (answering("first"), answering("second"));
    let gate = Gate::with_file(&file("127.0.0.1:0", first, ""));
    let mut kept = gate.connect();
    assert_eq!(asked(&mut kept).as_deref(), Some("first"));
    gate.rewrite(&file("127.0.0.1:0", second, "depth = \"128 KiB\"\nscheduler = \"sfq-depth\""));
    until("the second server", || asked(&mut gate.connect()).as_deref() == Some("second"));
    assert_eq!(asked(&mut kept).as_deref(), Some("first"), "a connection ended or moved");
}

#[test]
fn a_server_that_is_taken_out_is_forgotten_with_its_last_connection() {
    let (first, second) = (answering("first"), answering("second"));
    let metrics = spare_address();
    let with_metrics = |server| file("127.0.0.1:0", server, &format!("metrics = \"{metrics}\""));
    let gate = Gate::with_file(&with_metrics(first));
    let knows = |server: std::net::SocketAddr| status(metrics).contains(&server.to_string());
    let mut kept = gate.connect();
    assert_eq!(asked(&mut kept).as_deref(), Some("first"));
    let charged = |said: &str| said.split("\"charged_bytes\":").nth(1).expect("it is shown").to_owned();
    let charged_before = charged(&status(metrics));
    gate.rewrite(&with_metrics(second));
    until("the second server", || knows(second));
    assert!(knows(first), "a connection uses it still");
    assert_eq!(asked(&mut kept).as_deref(), Some("first"));
    drop(kept);
    until("the first to be forgotten", || !knows(first));
    let number = |text: &str| text.split(',').next().and_then(|text| text.trim().parse::<u64>().ok());
    assert!(number(&charged(&status(metrics))) > number(&charged_before), "what it served still counts");
    gate.rewrite(&with_metrics(first));
    until("the first again", || knows(first) && !knows(second));
    assert_eq!(asked(&mut gate.connect()).as_deref(), Some("first"));
}

#[test]
fn a_wrong_file_changes_nothing() {
    let (first, second) = (answering("first"), answering("second"));
    let gate = Gate::with_file(&file("127.0.0.1:0", first, ""));
    gate.rewrite(&file("127.0.0.1:0", second, "wieght = 3"));
    thread::sleep(Duration::from_millis(2500));
    assert_eq!(asked(&mut gate.connect()).as_deref(), Some("first"));
    gate.rewrite(&file("127.0.0.1:0", second, ""));
    until("the second server", || asked(&mut gate.connect()).as_deref() == Some("second"));
}

#[test]
fn listeners_come_and_go() {
    let first = answering("first");
    let gate = Gate::with_file(&file("127.0.0.1:0", first, ""));
    let added = spare_address();
    let both = file("127.0.0.1:0", first, "") + &file(&added.to_string(), first, "");
    gate.rewrite(&both);
    let listens = || std::net::TcpStream::connect(added).is_ok();
    until("the new listener", listens);
    assert_eq!(asked(&mut connect(added)).as_deref(), Some("first"));
    gate.rewrite(&file("127.0.0.1:0", first, ""));
    until("its end", || !listens());
}
