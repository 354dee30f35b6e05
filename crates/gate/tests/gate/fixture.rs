//! A gate in a thread of its own, and servers that do what a test says.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use random::Random;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// A test that waits longer has failed.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// A machine that stands still for a second spoils one trial, a fault of the gate each of them.
pub const TRIALS: usize = 3;

/// In one of the trials at least, the longest wait was a few seconds.
pub fn assert_waits_are_short(longest: impl Fn() -> Duration) {
    let is_long = |longest: &Duration| *longest >= Duration::from_secs(4);
    let long: Vec<_> = (0..TRIALS).map(|_| longest()).take_while(is_long).collect();
    assert!(long.len() < TRIALS, "the longest waits: {long:?}");
}

pub struct Gate {
    pub address: SocketAddr,
    pub folder: TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gate {
    /// Before this server, with more lines for its file.
    pub fn before(server: SocketAddr, more: &str) -> Gate {
        Gate::with_file(&format!(
            "[[listen]]\nprotocol = \"s3\"\naddress = \"127.0.0.1:0\"\nupstream = \"{server}\"\n{more}"
        ))
    }

    pub fn with_file(text: &str) -> Gate {
        Gate::in_folder(tempfile::tempdir().expect("a folder"), text)
    }

    pub fn in_folder(folder: TempDir, text: &str) -> Gate {
        let path = folder.path().join("gate.toml");
        fs::write(&path, text).expect("the file is written");
        let (say_ready, ready) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            let stopped = async move {
                let _ = stopped.await;
            };
            thalweg_gate::run(&path, |addresses| say_ready.send(addresses[0]).expect("the test waits"), stopped)
                .expect("the gate runs");
        });
        let address = ready.recv_timeout(TIMEOUT).expect("the gate begins");
        Gate { address, folder, stop: Some(stop), thread: Some(thread) }
    }

    pub fn rewrite(&self, text: &str) {
        let fresh = self.folder.path().join("fresh");
        fs::write(&fresh, text).expect("the file is written");
        fs::rename(fresh, self.folder.path().join("gate.toml")).expect("it takes the other's place");
    }

    pub fn connect(&self) -> TcpStream {
        connect(self.address)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().expect("it runs").join();
        assert!(ended.is_ok() || thread::panicking(), "the gate panicked");
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a server listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    stream.set_write_timeout(Some(TIMEOUT)).expect("a timeout");
    stream
}

/// An address where no process listens now.
pub fn spare_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|spare| spare.local_addr()).expect("a port")
}

pub fn status(metrics: SocketAddr) -> String {
    page(metrics, "/status.json")
}

/// A gate's answer at its metrics address, with its head.
pub fn page(metrics: SocketAddr, path: &str) -> String {
    let mut stream = connect(metrics);
    write!(stream, "GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n").expect("the page is asked for");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("the page comes");
    said
}

/// Runs `serve` for each connection, in a thread of its own, until the test ends.
pub fn server(serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, serve) = (stream.expect("a client"), serve.clone());
            stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
            thread::spawn(move || {
                // Clients that go away are part of the tests.
                let _ = serve(stream);
            });
        }
    });
    address
}

/// A server that answers each connection's bytes in one go: reads `expects.len()` bytes, reports them, writes `answer`.
pub fn scripted(expects: usize, answer: Vec<u8>) -> (SocketAddr, mpsc::Receiver<Vec<u8>>) {
    let (sender, received) = mpsc::channel();
    let address = server(move |mut stream| {
        let mut bytes = vec![0; expects];
        stream.read_exact(&mut bytes)?;
        stream.write_all(&answer)?;
        sender.send(bytes).map_err(io::Error::other)?;
        // The client closes.
        stream.read(&mut [0]).map(drop)
    });
    (address, received)
}

/// Reads a head up to its empty line.
pub fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    String::from_utf8(head).map_err(io::Error::other)
}

pub fn content_length(head: &str) -> usize {
    let line =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(str::to_owned));
    line.map_or(0, |value| value.trim().parse().expect("a length"))
}

/// Bytes that look different everywhere.
pub fn content(length: usize, seed: u64) -> Vec<u8> {
    Random::new(seed).bytes(length)
}
