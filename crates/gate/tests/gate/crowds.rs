//! Many connections at once, and nothing left when they have gone.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::{Gate, TIMEOUT, TRIALS, content, content_length, read_head, server};
use crate::sharing::{APPLICATIONS, head};

const CROWD: usize = 1000;
const OBJECT: usize = 20_000;

#[test]
fn a_thousand_connections_are_all_served() {
    raise_open_files();
    let address = server(|mut stream| {
        loop {
            read_head(&mut stream)?;
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {OBJECT}\r\n\r\n")?;
            stream.write_all(&content(OBJECT, 5))?;
        }
    });
    let gate = Gate::before(address, "");
    let mut crowd: Vec<TcpStream> = (0..CROWD).map(|_| gate.connect()).collect();
    let expected = content(OBJECT, 5);
    for _ in 0..2 {
        for client in &mut crowd {
            client.write_all(b"GET /b/k HTTP/1.1\r\n\r\n").expect("sent");
        }
        for client in &mut crowd {
            read_head(client).expect("an answer");
            let mut body = vec![0; OBJECT];
            client.read_exact(&mut body).expect("its body");
            assert!(body == expected);
        }
    }
    drop(crowd);
    let end = Instant::now() + TIMEOUT;
    while connections_to(address.port()) > 0 {
        assert!(Instant::now() < end, "connections to the server are left open");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Established, as /proc/net/tcp counts them: state 01, remote port in hexadecimal.
fn connections_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
    let wanted = format!(":{port:04X}");
    let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields.filter(|fields| fields.len() > 3 && fields[2].ends_with(&wanted) && fields[3] == "01").count()
}

/// The test holds both ends of two thousand connections.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).expect("up to the hard limit anyone may");
}

const WORKERS: usize = 4;
const SERVICE: Duration = Duration::from_millis(4);

/// Each worker accepts a connection, serves its request, and only then accepts another.
fn accepting_as_it_serves() -> SocketAddr {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").expect("a port"));
    rustix::net::listen(&listener, CROWD as i32).expect("it listens already");
    let address = listener.local_addr().expect("an address");
    for _ in 0..WORKERS {
        let listener = listener.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                // Clients end in the middle when the test does.
                let _ = serve_one(stream.expect("a client"));
            }
        });
    }
    address
}

fn serve_one(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    let length = content_length(&read_head(&mut stream)?);
    stream.read_exact(&mut vec![0; length])?;
    thread::sleep(SERVICE);
    stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
}

fn put_on_a_new_connection(gate: SocketAddr, key: &str) -> io::Result<()> {
    let mut client = TcpStream::connect(gate)?;
    client.set_read_timeout(Some(TIMEOUT))?;
    client.write_all((head("PUT", key, 1) + "x").as_bytes())?;
    read_head(&mut client).map(drop)
}

/// Uploads of heavy over those of light, due 4:1, and the part of the server's rate that both had.
fn shared_by_a_crowd() -> (f64, f64) {
    let server = accepting_as_it_serves();
    let gate = Gate::with_file(&format!(
        "depth = \"64 KiB\"\n[[listen]]\nprotocol = \"s3\"\naddress = \"127.0.0.1:0\"\n\
         upstream = \"{server}\"\n{APPLICATIONS}"
    ));
    let (address, stop, done) = (gate.address, AtomicBool::new(false), [AtomicUsize::new(0), AtomicUsize::new(0)]);
    let read = || done.each_ref().map(|done| done.load(Ordering::Relaxed) as f64);
    thread::scope(|scope| {
        for (key, done) in [("HEAVY", &done[0]), ("LIGHT", &done[1])] {
            let stop = &stop;
            let client = move || {
                while !stop.load(Ordering::Relaxed) {
                    done.fetch_add(put_on_a_new_connection(address, key).is_ok().into(), Ordering::Relaxed);
                }
            };
            for _ in 0..CROWD / 4 {
                scope.spawn(client);
            }
        }
        thread::sleep(Duration::from_secs(2));
        let (began, before) = (Instant::now(), read());
        thread::sleep(Duration::from_secs(4));
        let [heavy, light] = [0, 1].map(|at| read()[at] - before[at]);
        let due = began.elapsed().as_secs_f64() * WORKERS as f64 / SERVICE.as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        (heavy / light.max(1.0), (heavy + light) / due)
    })
}

/// The server's workers waited for the requests of connections without a grant, while those with one were not accepted:
/// 1:1, and a hundredth of the server's rate.
#[test]
fn new_connections_share_before_a_server_that_accepts_as_many_as_it_serves() {
    raise_open_files();
    let is_shared = |(ratio, part): &(f64, f64)| (2.8..5.4).contains(ratio) && *part > 0.3;
    let missed: Vec<_> = (0..TRIALS).map(|_| shared_by_a_crowd()).take_while(|trial| !is_shared(trial)).collect();
    assert!(missed.len() < TRIALS, "ratios, and parts of what the server serves: {missed:.2?}");
}
