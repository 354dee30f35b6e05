//! Bandwidth follows the weights. The servers are slow on purpose: a machine that is busy with other tests must not
//! matter, so the bounds are wide.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::{Gate, content_length, read_head, server};

pub const APPLICATIONS: &str = "
[[application]]
name = \"heavy\"
weight = 4
match = { access_key = \"HEAVY\" }
[[application]]
name = \"light\"
match = { access_key = \"LIGHT\" }
";

/// A fixed depth: the test is of the order of grants, not of how the best depth is found.
fn sharing(server: SocketAddr) -> Gate {
    Gate::with_file(&format!(
        "depth = \"256 KiB\"\n[[listen]]\nprotocol = \"s3\"\naddress = \"127.0.0.1:0\"\n\
         upstream = \"{server}\"\n{APPLICATIONS}"
    ))
}

/// One disk for all connections: each read waits for those before.
#[derive(Clone)]
pub struct Disk {
    free_at: Arc<Mutex<Instant>>,
    bytes_per_second: f64,
}

impl Disk {
    pub fn new(bytes_per_second: f64) -> Self {
        Disk { free_at: Arc::new(Mutex::new(Instant::now())), bytes_per_second }
    }

    pub fn moves(&self, bytes: usize) {
        let mut free_at = self.free_at.lock().expect("no thread panics with it");
        *free_at = (*free_at).max(Instant::now()) + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        let until = *free_at;
        drop(free_at);
        thread::sleep(until.saturating_duration_since(Instant::now()));
    }
}

/// Takes and gives objects at the disk's pace.
fn paced(disk: Disk) -> SocketAddr {
    server(move |mut stream| {
        let mut piece = vec![7; 64 << 10];
        loop {
            let head = read_head(&mut stream)?;
            let mut left = content_length(&head);
            while left > 0 {
                let taken = left.min(piece.len());
                stream.read_exact(&mut piece[..taken])?;
                disk.moves(taken);
                left -= taken;
            }
            let mut left = if head.starts_with("GET") { OBJECT } else { 0 };
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n")?;
            while left > 0 {
                disk.moves(piece.len());
                stream.write_all(&piece)?;
                left -= piece.len();
            }
        }
    })
}

/// Sockets hold some hundred kilobytes of each, beyond any scheduling.
const OBJECT: usize = 8 << 20;

pub fn head(method: &str, key: &str, length: usize) -> String {
    format!(
        "{method} /b/k HTTP/1.1\r\nAuthorization: AWS4-HMAC-SHA256 Credential={key}/d/r/s3/aws4_request\r\n\
         Content-Length: {length}\r\n\r\n"
    )
}

fn put(client: &mut TcpStream, key: &str, moved: &AtomicU64) -> io::Result<()> {
    client.write_all(head("PUT", key, OBJECT).as_bytes())?;
    for _ in 0..OBJECT / (64 << 10) {
        client.write_all(&[1; 64 << 10])?;
        moved.fetch_add(64 << 10, Ordering::Relaxed);
    }
    read_head(client).map(drop)
}

fn get(client: &mut TcpStream, key: &str, moved: &AtomicU64) -> io::Result<()> {
    client.write_all(head("GET", key, 0).as_bytes())?;
    read_head(client)?;
    let mut piece = vec![0; 64 << 10];
    for _ in 0..OBJECT / piece.len() {
        client.read_exact(&mut piece)?;
        moved.fetch_add(piece.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}

type Act = fn(&mut TcpStream, &str, &AtomicU64) -> io::Result<()>;

/// Heavy bytes over light bytes, with so many connections each, over some seconds after the first.
fn ratio(gate: &Gate, act: Act, connections: usize) -> f64 {
    let stop = Arc::new(AtomicBool::new(false));
    let moved: HashMap<&str, Arc<AtomicU64>> = ["HEAVY", "LIGHT"].map(|key| (key, Arc::default())).into();
    let mut threads = Vec::new();
    for (key, moved) in &moved {
        for _ in 0..connections {
            let (key, moved, stop, mut client) = (*key, moved.clone(), stop.clone(), gate.connect());
            threads.push(thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    act(&mut client, key, &moved).expect("the server serves");
                }
            }));
        }
    }
    let read = || (moved["HEAVY"].load(Ordering::Relaxed), moved["LIGHT"].load(Ordering::Relaxed));
    thread::sleep(Duration::from_secs(1));
    let (heavy, light) = read();
    thread::sleep(Duration::from_secs(4));
    let (heavy_then, light_then) = read();
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    (heavy_then - heavy) as f64 / (light_then - light).max(1) as f64
}

#[test]
fn uploads_share_by_weight() {
    let gate = sharing(paced(Disk::new(40e6)));
    let ratio = ratio(&gate, put, 4);
    assert!((2.4..5.6).contains(&ratio), "4:1 became {ratio:.2}");
}

#[test]
fn downloads_share_by_weight() {
    let gate = sharing(paced(Disk::new(40e6)));
    let ratio = ratio(&gate, get, 4);
    assert!((2.4..5.6).contains(&ratio), "4:1 became {ratio:.2}");
}

#[test]
fn a_client_that_reads_nothing_delays_no_other() {
    let gate = Gate::before(paced(Disk::new(400e6)), APPLICATIONS);
    let asleep: Vec<TcpStream> = (0..30)
        .map(|_| {
            let mut client = gate.connect();
            client.write_all(head("GET", "HEAVY", 0).as_bytes()).expect("sent");
            client
        })
        .collect();
    thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    let moved = AtomicU64::new(0);
    let mut client = gate.connect();
    for _ in 0..3 {
        get(&mut client, "LIGHT", &moved).expect("the server serves");
        put(&mut client, "LIGHT", &moved).expect("the server serves");
    }
    assert!(began.elapsed() < Duration::from_secs(12), "48 MiB took {:?}", began.elapsed());
    drop(asleep);
}

#[test]
fn a_server_that_reads_nothing_on_some_connections_serves_the_others() {
    let disk = Disk::new(400e6);
    let address = server(move |mut stream| {
        let head = read_head(&mut stream)?;
        if head.contains("HEAVY") {
            thread::sleep(Duration::from_secs(8));
            return Ok(());
        }
        let mut piece = vec![0; 64 << 10];
        for _ in 0..OBJECT / piece.len() {
            stream.read_exact(&mut piece)?;
            disk.moves(piece.len());
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    });
    let gate = Gate::before(address, APPLICATIONS);
    let stuck: Vec<_> = (0..20)
        .map(|_| {
            let mut client = gate.connect();
            client.set_write_timeout(Some(Duration::from_millis(100))).expect("a timeout");
            let sent = client.write_all(head("PUT", "HEAVY", 1 << 30).as_bytes());
            sent.and_then(|()| client.write_all(&vec![1; 8 << 20])).expect_err("it is not read");
            client
        })
        .collect();
    let began = Instant::now();
    let moved = AtomicU64::new(0);
    for _ in 0..3 {
        put(&mut gate.connect(), "LIGHT", &moved).expect("the server serves");
    }
    assert!(began.elapsed() < Duration::from_secs(6), "24 MiB took {:?}", began.elapsed());
    drop(stuck);
}

/// Eight downloads that may take as long as they like, and one that may not: it has the server nearly to itself.
#[test]
fn a_request_with_a_deadline_of_its_own_overtakes_those_without() {
    let server = paced(Disk::new(40e6));
    let gate = Gate::with_file(&format!(
        "depth = \"128 KiB\"\nscheduler = \"deadline\"\n[[listen]]\nprotocol = \"s3\"\n\
         address = \"127.0.0.1:0\"\nupstream = \"{server}\"\n\
         [[application]]\nname = \"listed\"\n"
    ));
    let stop = Arc::new(AtomicBool::new(false));
    let moved = Arc::new(AtomicU64::new(0));
    let others = (0..8).map(|_| {
        let (moved, stop, mut client) = (moved.clone(), stop.clone(), gate.connect());
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                get(&mut client, "A", &moved).expect("the server serves");
            }
        })
    });
    let others: Vec<_> = others.collect();
    thread::sleep(Duration::from_secs(1));
    let before = moved.load(Ordering::Relaxed);
    let mut urgent = gate.connect();
    urgent.write_all(b"GET /b/k HTTP/1.1\r\nX-Thalweg-Deadline-Ms: 20\r\n\r\n").expect("it is open");
    read_head(&mut urgent).expect("an answer");
    urgent.read_exact(&mut vec![0; OBJECT]).expect("all of it");
    let meanwhile = moved.load(Ordering::Relaxed) - before;
    stop.store(true, Ordering::Relaxed);
    others.into_iter().for_each(|thread| thread.join().expect("it ends"));
    // Served in the order they came, they would have had eight times as much as it did.
    assert!(meanwhile < 2 * OBJECT as u64, "the others moved {meanwhile} bytes meanwhile");
}
