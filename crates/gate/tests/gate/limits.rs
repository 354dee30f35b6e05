//! What a client may take of the gate without asking a server for anything.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::{Gate, content_length, read_head, server};

#[test]
fn a_head_that_comes_drop_by_drop_is_not_waited_for() {
    let gate = Gate::before(server(|mut stream| read_head(&mut stream).map(drop)), "");
    let mut client = gate.connect();
    client.set_read_timeout(Some(Duration::from_millis(10))).expect("a timeout");
    let began = Instant::now();
    for byte in b"GET /b/k HTTP/1.1\r\nX-Drop: ".iter().chain([b'x'; 100].iter()) {
        if client.write_all(&[*byte]).is_err() {
            break;
        }
        thread::sleep(Duration::from_millis(200));
    }
    assert!(began.elapsed() < Duration::from_secs(18), "the gate waited for {:?}", began.elapsed());
}

#[test]
fn a_client_that_asks_for_nothing_costs_the_server_no_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("it can be asked");
    let gate = Gate::before(listener.local_addr().expect("an address"), "");
    let clients: Vec<_> = (0..50).map(|_| gate.connect()).collect();
    thread::sleep(Duration::from_millis(500));
    assert!(listener.accept().is_err(), "the server was dialled for a client that said nothing");
    drop(clients);
}

/// Eight requests that say they are in a hurry, and one application that the file lists: only the listed one may.
#[test]
fn a_deadline_of_its_own_counts_for_listed_applications_only() {
    let slow = server(|mut stream| {
        loop {
            let head = read_head(&mut stream)?;
            assert_eq!(content_length(&head), 0);
            thread::sleep(Duration::from_millis(30));
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        }
    });
    let metrics = crate::fixture::spare_address();
    let gate = Gate::with_file(&format!(
        "metrics = \"{metrics}\"\nscheduler = \"deadline\"\n[[listen]]\nprotocol = \"s3\"\naddress = \"127.0.0.1:0\"\n\
         upstream = \"{slow}\"\n[[application]]\nname = \"listed\"\nmatch = {{ bucket = \"listed\" }}\n"
    ));
    let mut client = gate.connect();
    for bucket in ["listed", "unlisted"] {
        write!(client, "GET /{bucket}/k HTTP/1.1\r\nX-Thalweg-Deadline-Ms: 1\r\n\r\n").expect("sent");
        read_head(&mut client).expect("an answer");
    }
    let said = crate::fixture::status(metrics);
    let status: serde_json::Value = serde_json::from_str(said.split_once("\r\n\r\n").expect("a head").1).expect("JSON");
    let late = |name: &str| {
        let all = status["applications"].as_array().expect("a list");
        all.iter().find(|one| one["name"] == name).expect("it is told")["late"].as_u64().expect("a number")
    };
    assert_eq!((late("listed"), late("other")), (1, 0));
    let _ = client.read(&mut []);
}
