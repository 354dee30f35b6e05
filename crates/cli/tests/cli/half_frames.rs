//! Welcome clients that send large frames and stop in the midst of them.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use format::{FRAME_HEADER_BYTES, FrameHeader, MAX_PAYLOAD_BYTES};
use transfer::message::Request;

use super::node::Node;
use super::runner::{Store, run};

const HALF_FRAMES: usize = 14;
const SENT_BYTES: usize = 79 << 20;
/// Frames of all connections, the oldest one beyond that, and everything else.
const MAX_NODE_BYTES: u64 = (256 + 144 + 200) << 20;

/// Announces as much as a frame may hold, and sends most of it for as long as the node reads.
fn send_half_a_frame(address: &str, client: u64) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let hello = Request::Hello { client, stream: 1, job: "half".into(), application: String::new() };
    let body = hello.encode();
    stream.write_all(&[&FrameHeader::new(hello.kind(), 1, &body, b"").encode()[..], &body].concat()).unwrap();
    stream.read_exact(&mut [0; FRAME_HEADER_BYTES]).unwrap();
    let measure = Request::Measure {};
    let header =
        FrameHeader { payload_bytes: MAX_PAYLOAD_BYTES, ..FrameHeader::new(measure.kind(), 2, &measure.encode(), b"") };
    stream.write_all(&[&header.encode()[..], &measure.encode()].concat()).unwrap();
    // The node may hold it back.
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..SENT_BYTES / zeros.len() {
        match stream.write_all(&zeros) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            sent => sent.unwrap(),
        }
    }
    stream
}

#[test]
fn many_half_frames_stay_within_the_bound_while_an_honest_writer_goes_on() {
    let store = Store::new();
    let node = Node::prepared(&store, &["--staging-mib", "64"], |command| {
        command.stderr(Stdio::piped());
    });
    let half: Vec<TcpStream> =
        (0..HALF_FRAMES).map(|number| send_half_a_frame(&node.address, 100 + number as u64)).collect();
    let file = store.path("honest");
    let content: Vec<u8> =
        (0..8u32 << 20).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    std::fs::write(&file, &content).unwrap();
    let address = format!("thalweg://{}::honest", node.address);
    run(&["put".as_ref(), file.as_os_str(), address.as_ref()]).expect(0);
    assert!(store.read("honest") == content);
    let held_bytes = node.peak_bytes();
    assert!(held_bytes < MAX_NODE_BYTES, "the node held {} MiB", held_bytes >> 20);
    // Others wait for the memory that these hold: their connections end, and the node says so.
    let deadline = Instant::now() + Duration::from_secs(60);
    while half.iter().all(is_open) {
        assert!(Instant::now() < deadline, "no half frame was given up");
        std::thread::sleep(Duration::from_millis(50));
    }
    let said = node.kill_and_read_messages();
    assert!(said.contains("memory that others waited for"), "{said}");
}

/// Whether the node has not hung up; its messages meanwhile are read.
fn is_open(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    match stream.read(&mut [0; 4096]) {
        Ok(count) => count > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}
