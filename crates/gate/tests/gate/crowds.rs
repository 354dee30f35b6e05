//! Many connections at once, and nothing left when they have gone.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::{Gate, PATIENCE, content, read_head, server};

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
    let end = Instant::now() + PATIENCE;
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
