//! A client's end against a node's end that the test plays.

use std::net::{SocketAddr, TcpListener};
use std::thread;

use super::*;
use crate::connection::Connection;
use crate::handshake::ClientIdentity;

const TIMEOUT: Duration = Duration::from_secs(60);
const HANDSHAKE_TIMEOUTS: HandshakeTimeouts = HandshakeTimeouts { silence: TIMEOUT, welcome: TIMEOUT };

/// Returns an address without a listener.
fn absent() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Welcomes the next client; returns the node's end.
fn welcome(listener: &TcpListener) -> Connection {
    let (stream, peer) = listener.accept().unwrap();
    let connection = Connection::accepted(stream, peer).unwrap();
    let hello = connection.receive().unwrap().unwrap();
    send(&connection, hello.header.request, &Reply::Welcome { settings: String::new(), incarnation: 5 });
    connection
}

fn send(connection: &Connection, number: u64, reply: &Reply) {
    connection.send(reply.kind(), number, &reply.encode(), &[]).unwrap();
}

fn dial(candidates: Vec<SocketAddr>) -> Result<NodeConnection, Disconnect> {
    let hello = ClientIdentity::nameless(1).hello(2);
    let credentials = Credentials::default();
    NodeConnection::dial("node:1", candidates, &hello, &credentials, HANDSHAKE_TIMEOUTS, Instant::now())
}

/// Waits for the next event, sending what is lent meanwhile.
fn next(node: &mut NodeConnection, lent: &[&[u8]]) -> Result<Event, Disconnect> {
    let begun = Instant::now();
    while begun.elapsed() < TIMEOUT {
        if node.is_welcome() {
            node.flush(lent)?;
        }
        node.wait(Duration::from_millis(100))?;
        if let Some(event) = node.next(Instant::now())? {
            return Ok(event);
        }
    }
    panic!("nothing has happened for {} s", TIMEOUT.as_secs());
}

#[test]
fn an_address_that_takes_no_connection_is_passed_over() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let candidates = vec![absent(), absent(), listener.local_addr().unwrap()];
    let serving = thread::spawn(move || welcome(&listener));
    let Ok(mut node) = dial(candidates) else { panic!("one of them listens") };
    assert!(matches!(next(&mut node, &[]), Ok(Event::Welcome { incarnation: 5, .. })));
    assert!(node.is_welcome() && !node.is_greeting());
    drop(serving.join().unwrap());
    let refused = dial(vec![absent()]).and_then(|mut node| next(&mut node, &[]).map(drop));
    assert!(matches!(refused, Err(Disconnect::Broken(why)) if why.contains("refused")));
}

#[test]
fn a_request_of_many_lent_pieces_arrives_whole_and_heartbeats_only_count() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let connection = welcome(&listener);
        let frame = connection.receive().unwrap().unwrap();
        send(&connection, 0, &Reply::Alive { progress: 3 });
        let answer = Reply::Measured { workers: 4 };
        connection.send(answer.kind(), frame.header.request, &answer.encode(), &[&frame.payload]).unwrap();
        // Until the client has read it.
        let _ = connection.receive();
    });
    let Ok(mut node) = dial(vec![address]) else { panic!("it listens") };
    assert!(matches!(next(&mut node, &[]), Ok(Event::Welcome { .. })));
    let begun = node.liveness.advanced();
    let bytes: Vec<u8> = (0..5_000_000u32).map(|number| (number * 31) as u8).collect();
    // More pieces than one system call takes.
    let pieces: Vec<&[u8]> = bytes.chunks(1000).collect();
    node.push_lent(LAST_HANDSHAKE_NUMBER + 1, &Request::Measure {}, &pieces).unwrap();
    match next(&mut node, &pieces) {
        Ok(Event::Message { number, reply: Reply::Measured { workers: 4 }, payload }) => {
            assert!(number == LAST_HANDSHAKE_NUMBER + 1 && payload == bytes && node.has_sent());
        }
        _ => panic!("it answers with what it was sent"),
    }
    assert!(node.liveness.advanced() > begun, "the heartbeat said that the node has done something");
    drop(node);
    serving.join().unwrap();
}

#[test]
fn a_message_that_no_frame_holds_is_refused_and_the_connection_stays() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let Ok(mut node) = dial(vec![listener.local_addr().unwrap()]) else { panic!("it listens") };
    let large = vec![0; format::MAX_PAYLOAD_BYTES as usize + 1];
    assert!(matches!(node.push_lent(3, &Request::Measure {}, &[&large]), Err(Error::Refused(..))));
    let serving = thread::spawn(move || welcome(&listener));
    assert!(matches!(next(&mut node, &[]), Ok(Event::Welcome { .. })));
    serving.join().unwrap();
}
