//! Frames over a pair of sockets.

use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use super::*;

fn pair() -> (Connection, Connection) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = Connection::open(&listener.local_addr().unwrap().to_string()).unwrap();
    let (stream, peer) = listener.accept().unwrap();
    (near, Connection::accepted(stream, peer).unwrap())
}

/// Returns a node's end of a connection, and its client's.
pub(crate) fn node_and_client() -> (Arc<Connection>, Connection) {
    let (client, node) = pair();
    (Arc::new(node), client)
}

#[test]
fn a_frame_arrives_as_it_was_sent_from_many_pieces() {
    let (near, far) = pair();
    let payload: Vec<u8> = (0..3_000_000u32).map(|number| number as u8).collect();
    let pieces: Vec<&[u8]> = payload.chunks(1000).collect();
    let frame = thread::scope(|scope| {
        scope.spawn(|| near.send(7, 9, b"body", &pieces).unwrap());
        far.receive().unwrap().unwrap()
    });
    assert_eq!((frame.header.kind, frame.header.request), (7, 9));
    assert!(frame.body == b"body" && frame.payload == payload);
}

#[test]
fn an_end_between_frames_differs_from_a_break_inside_one() {
    let whole = FrameHeader::new(1, 2, b"body", b"payload").encode();
    let bytes = [&whole[..], b"body", b"payload"].concat();
    for cut in 0..=bytes.len() {
        let (near, far) = pair();
        (&near.stream).write_all(&bytes[..cut]).unwrap();
        near.shut();
        match far.receive() {
            Ok(None) => assert_eq!(cut, 0),
            Ok(Some(frame)) => assert!(cut == bytes.len() && frame.payload == b"payload"),
            Err(error) => assert!(error.to_string().contains("ended inside"), "cut at {cut}: {error}"),
        }
    }
}

#[test]
fn a_node_that_drips_is_given_up_and_a_slow_one_is_not() {
    let body = vec![7; 40 << 10];
    let (short, long) = (Duration::from_millis(300), Duration::from_secs(20));
    for (step, announced_bytes, timeout, is_given_up) in
        [(40, 0, short, true), (40, 80 << 20, short, true), (8 << 10, 0, long, false)]
    {
        let header = FrameHeader { payload_bytes: announced_bytes, ..FrameHeader::new(1, 2, &body, b"") };
        let frame = [&header.encode()[..], &body].concat();
        let (mut near, far) = pair();
        near.frame_timeout = timeout;
        let received = thread::scope(|scope| {
            scope.spawn(|| {
                for bytes in frame.chunks(step) {
                    thread::sleep(Duration::from_millis(10));
                    if (&far.stream).write_all(bytes).is_err() {
                        return;
                    }
                }
                far.shut();
            });
            let received = near.receive();
            near.shut();
            received
        });
        match received {
            Ok(frame) => assert!(!is_given_up && frame.unwrap().body == body),
            Err(error) => assert!(is_given_up && error.to_string().contains("drips"), "{error}"),
        }
    }
}

#[test]
fn the_kernel_gives_up_clients_and_never_a_node_that_holds_its_client_back() {
    let (near, far) = pair();
    assert_eq!(sockopt::tcp_user_timeout(&near.stream).unwrap(), 0);
    assert_eq!(sockopt::tcp_user_timeout(&far.stream).unwrap(), NODE_TIMEOUT.as_millis() as u32);
}

#[test]
fn a_message_above_the_limit_is_refused_before_a_byte_leaves() {
    let (near, far) = pair();
    let large = vec![0; MAX_PAYLOAD_BYTES as usize + 1];
    assert!(matches!(near.send(1, 1, b"", &[&large]), Err(Error::Refused(..))));
    near.send(2, 2, b"", &[]).unwrap();
    assert_eq!(far.receive().unwrap().unwrap().header.kind, 2);
}

#[test]
fn quiet_means_alive_with_nothing_to_receive() {
    let (near, far) = pair();
    assert!(near.is_quiet());
    far.shut();
    thread::sleep(Duration::from_millis(50));
    assert!(!near.is_quiet());
}
