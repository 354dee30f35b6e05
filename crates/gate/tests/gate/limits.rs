//! Limits on what a client may take of the gate without asking a server for anything.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType};

use crate::fixture::{Gate, connect, content_length, read_head, server, spare_address};

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

#[test]
fn a_client_with_all_the_connections_it_may_have_is_refused_in_words_and_others_are_served() {
    let served = server(|mut stream| {
        loop {
            read_head(&mut stream)?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        }
    });
    let gate = Gate::with_file(&format!(
        "connections_per_client = 10\n[[listen]]\nprotocol = \"s3\"\naddress = \"127.0.0.1:0\"\nupstream = \"{served}\"\n"
    ));
    let is_served = |client: &mut TcpStream| {
        client.write_all(b"GET /b/k HTTP/1.1\r\n\r\n").expect("sent");
        read_head(client).expect("an answer").starts_with("HTTP/1.1 200 ")
    };
    let mut taken: Vec<TcpStream> = (0..10).map(|_| gate.connect()).collect();
    assert!(taken.iter_mut().all(is_served));
    let mut refused = String::new();
    let mut one_more = gate.connect();
    one_more.write_all(b"GET /b/k HTTP/1.1\r\n\r\n").expect("sent");
    one_more.read_to_string(&mut refused).expect("it gets an error, and is closed in order");
    assert!(refused.starts_with("HTTP/1.1 503 Slow Down\r\n") && refused.ends_with("</Error>"), "{refused}");
    assert!(is_served(&mut connect_from([127, 0, 0, 2], gate.address)), "another address has its own");
    drop(taken);
    let end = Instant::now() + Duration::from_secs(5);
    while !is_served(&mut gate.connect()) {
        assert!(Instant::now() < end, "places come back");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn connections_to_a_hung_server_take_none_from_those_to_another() {
    let hung = TcpListener::bind("127.0.0.1:0").expect("a port");
    let well = server(|mut stream| {
        read_head(&mut stream)?;
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
    });
    let (of_hung, of_well) = (hung.local_addr().expect("its address"), spare_address());
    let gate = Gate::with_file(&format!(
        "connections_per_client = 2\n[[listen]]\nprotocol = \"s3\"\naddress = \"127.0.0.1:0\"\nupstream = \"{of_hung}\"\n\
         [[listen]]\nprotocol = \"s3\"\naddress = \"{of_well}\"\nupstream = \"{well}\"\n"
    ));
    let ask = |address| {
        let mut client = connect(address);
        client.write_all(b"GET /b/k HTTP/1.1\r\n\r\n").expect("sent");
        client
    };
    let _waiting = [ask(gate.address), ask(gate.address)];
    assert!(read_head(&mut ask(gate.address)).expect("an answer").starts_with("HTTP/1.1 503 "), "all it may have");
    assert!(read_head(&mut ask(of_well)).expect("an answer").starts_with("HTTP/1.1 204 "));
}

fn connect_from(client: [u8; 4], gate: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    rustix::net::bind(&socket, &SocketAddr::from((client, 0))).expect("an address of this machine");
    rustix::net::connect(&socket, &gate).expect("a server listens");
    socket.into()
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
        all.iter().find(|one| one["name"] == name).expect("it is shown")["late"].as_u64().expect("a number")
    };
    assert_eq!((late("listed"), late("other")), (1, 0));
    let _ = client.read(&mut []);
}
