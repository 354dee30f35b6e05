//! Peers that are no nodes, or nodes of another release: refused at once, in words that say what to do.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Mutex;

use format::{FRAME_MAGIC, PROTOCOL};

use super::*;

/// Returns an address where `serve` gets every connection, each in a thread of its own.
fn at(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Sends `said` and then reads, without hanging up.
fn saying(said: Vec<u8>) -> String {
    at(move |mut stream| {
        // The client may have left already.
        let _ = stream.write_all(&said);
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

fn node_of(protocol: u8) -> String {
    saying([&FRAME_MAGIC[..], &[protocol], b" and what comes after is not understood"].concat())
}

/// Returns the error of a client that opens a file there.
fn refusal(address: String, timeout: Duration) -> Error {
    let client = Client::new(Settings { nodes: vec![address], timeout, ..Settings::default() }, None);
    match client.open(b"/a", WRITE | CREATE) {
        Err(OpenError::Transfer(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// A timeout that an immediate refusal does not use.
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_node_of_another_release_is_refused_at_once_and_the_older_is_named() {
    for (protocol, older) in [(PROTOCOL - 1, "the peer is the older"), (PROTOCOL + 1, "this program is the older")] {
        let address = node_of(protocol);
        let error = refusal(address.clone(), HOUR);
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
        assert!(error.to_string().starts_with(&address) && error.to_string().contains(older), "{error}");
    }
}

#[test]
fn another_service_is_refused_at_once() {
    for said in [&b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..], b"SSH-2.0-OpenSSH\r\n", &[0xff; 100]] {
        let error = refusal(saying(said.to_vec()), HOUR);
        assert!(error.to_string().contains("this is no thalweg peer"), "{error}");
        assert!(error.to_string().contains(&said[..8].escape_ascii().to_string()), "{error}");
    }
}

#[test]
fn a_peer_that_says_nothing_or_hangs_up_is_an_error_within_the_timeout() {
    for address in [saying(Vec::new()), at(drop)] {
        let error = refusal(address, Duration::from_secs(3));
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("it answers no greeting; is it a thalweg node?"), "{error}");
    }
}

/// A file whose node is replaced by one of another release, at the same address.
#[test]
fn a_file_fails_when_its_only_node_comes_back_as_another_release() {
    let (_world, nodes) = nodes(1);
    let (target, address) = relay(&nodes[0].address);
    let client = Client::new(Settings { nodes: vec![address], timeout: HOUR, ..settings(&nodes) }, None);
    let file = open(&client, WRITE);
    file.write(&[source(0, &[1; 1000])]).unwrap();
    file.flush().unwrap();
    *target.lock().unwrap() = node_of(PROTOCOL + 1);
    nodes[0].break_connections();
    file.write(&[source(1000, &[1; 1000])]).unwrap();
    let error = file.flush().unwrap_err();
    assert!(error.to_string().contains("this program is the older"), "{error}");
}

#[test]
fn a_file_goes_on_at_its_other_node_when_one_comes_back_as_another_release() {
    let (_world, nodes) = nodes(2);
    let (target, address) = relay(&nodes[1].address);
    let addresses = vec![nodes[0].address.clone(), address];
    // Half of it would pass before a silent node is left, and a sixtieth before the new one is asked.
    let timeout = Duration::from_secs(120);
    let client = Client::new(Settings { nodes: addresses, timeout, ..settings(&nodes) }, None);
    let file = open(&client, READ | WRITE);
    let bytes: Vec<u8> = (0..500_000u32).map(|at| (at % 251) as u8).collect();
    file.write(&[source(0, &bytes[..200_000])]).unwrap();
    *target.lock().unwrap() = node_of(PROTOCOL + 1);
    nodes[1].crash();
    file.write(&[source(200_000, &bytes[200_000..])]).unwrap();
    assert!(read(&file, 0, bytes.len()) == bytes);
    file.detach(1).unwrap();
}

/// Returns an address whose new connections go to a target that can be changed.
fn relay(target: &str) -> (Arc<Mutex<String>>, String) {
    let target = Arc::new(Mutex::new(target.to_owned()));
    let aim = target.clone();
    let address = at(move |near| {
        let target = aim.lock().unwrap().clone();
        TcpStream::connect(target).into_iter().for_each(|far| join(&near, &far));
    });
    (target, address)
}

/// Copies in both directions, until either end hangs up.
fn join(near: &TcpStream, far: &TcpStream) {
    let copy = |mut from: &TcpStream, mut to: &TcpStream| {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| copy(far, near));
        copy(near, far);
    });
}

#[test]
fn a_node_that_takes_no_client_now_is_quoted_and_not_doubted() {
    let failure = crate::message::Failure::new(FailureKind::Unavailable, "it serves 7 connections");
    let (kind, body) = (Reply::Failed { failure: failure.clone() }.kind(), Reply::Failed { failure }.encode());
    let frame = format::FrameHeader::new(kind, 0, &body, &[]).encode();
    let error = refusal(saying([&frame[..], &body].concat()), Duration::from_secs(2));
    let said = error.to_string();
    assert!(said.contains("it serves 7 connections") && !said.contains("is it a thalweg node?"), "{said}");
}
