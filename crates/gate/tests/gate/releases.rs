//! However a request ends or hangs, it gives the server's depth back: others are served, and in the end nothing is in
//! flight.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::Value;

use crate::fixture::{Gate, TRIALS, connect, content_length, read_head, server, spare_address, status};
use crate::tls::{client_config, make_certificate};

/// Within this nothing may be in flight any more, though client and server stay.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(8);
const OBJECT: usize = 70_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Plain,
    Tls,
}

struct Watched {
    gate: Gate,
    metrics: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
}

trait Both: Read + Write {
    fn socket(&self) -> &TcpStream;
}

impl Both for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Both for StreamOwned<ClientConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }
}

type Client = Box<dyn Both>;

impl Watched {
    fn new(protocol: Protocol, server: SocketAddr) -> Watched {
        let metrics = spare_address();
        let folder = tempfile::tempdir().expect("a folder");
        let mut tls = None;
        let mut tls_line = "";
        if protocol == Protocol::Tls {
            make_certificate(folder.path());
            tls = Some(client_config(folder.path() as &Path));
            tls_line = "tls = { certificate = \"certificate.pem\", key = \"key.pem\" }\n";
        }
        let file = format!(
            "metrics = \"{metrics}\"\ndepth = \"128 KiB\"\n[[listen]]\nprotocol = \"s3\"\naddress = \"127.0.0.1:0\"\n\
             upstream = \"{server}\"\n{tls_line}"
        );
        Watched { gate: Gate::in_folder(folder, &file), metrics, tls }
    }

    fn client(&self) -> Client {
        let stream = connect(self.gate.address);
        match &self.tls {
            None => Box::new(stream),
            Some(config) => {
                let name = "localhost".try_into().expect("a name");
                let tls = ClientConnection::new(config.clone(), name).expect("a client");
                Box::new(StreamOwned::new(tls, stream))
            }
        }
    }

    /// Bytes in flight and grants waited for.
    fn load(&self) -> (u64, u64) {
        let said = status(self.metrics);
        let body = said.split_once("\r\n\r\n").expect("a head").1;
        let status: Value = serde_json::from_str(body).expect("JSON");
        let sum = |list: &str, key: &str| {
            status[list].as_array().expect("a list").iter().map(|entry| entry[key].as_u64().expect("a number")).sum()
        };
        (sum("servers", "in_flight_bytes"), sum("applications", "queued"))
    }

    fn is_released_after(&self, what: &str) {
        let end = Instant::now() + RELEASE_TIMEOUT;
        while self.load() != (0, 0) {
            assert!(Instant::now() < end, "{what}: (in flight, queued) stay {:?}", self.load());
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn serves_others_after(&self, what: &str) {
        let mut client = self.client();
        for _ in 0..3 {
            put(&mut client, "/ok", OBJECT).unwrap_or_else(|error| panic!("{what}: a PUT after it: {error}"));
            get(&mut client, OBJECT).unwrap_or_else(|error| panic!("{what}: a GET after it: {error}"));
        }
    }
}

fn put(client: &mut Client, path: &str, length: usize) -> io::Result<String> {
    write!(client, "PUT {path} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n")?;
    client.write_all(&vec![1; length])?;
    answer(client)
}

fn get(client: &mut Client, length: usize) -> io::Result<()> {
    write!(client, "GET /ok/{length} HTTP/1.1\r\n\r\n")?;
    answer(client).map(drop)
}

/// Reads a head and the body it declares.
fn answer(client: &mut Client) -> io::Result<String> {
    let head = head(client)?;
    client.read_exact(&mut vec![0; content_length(&head)])?;
    Ok(head)
}

fn head(client: &mut Client) -> io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    String::from_utf8(head).map_err(io::Error::other)
}

/// Does what the path says.
fn obeying(mut stream: TcpStream) -> io::Result<()> {
    loop {
        let head = read_head(&mut stream)?;
        let path = head.split(' ').nth(1).unwrap_or("").to_owned();
        let hang = || thread::sleep(Duration::from_secs(60));
        match path.trim_start_matches('/').split('/').next().unwrap_or("") {
            "hangs" => hang(),
            "half-a-head" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le")?;
                hang();
            }
            "half-a-body" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc")?;
                hang();
            }
            "half-a-large-body" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nabc")?;
                hang();
            }
            "refuses" => {
                stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")?;
                hang();
            }
            "refuses-and-reads-on" => stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")?,
            "refuses-and-closes" => {
                stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
                stream.shutdown(Shutdown::Write)?;
                hang();
            }
            "closes" => return stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            "goes" => return stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nabc"),
            _ => {}
        }
        let mut left = content_length(&head);
        let mut piece = vec![0; 64 << 10];
        while left > 0 {
            let taken = left.min(piece.len());
            stream.read_exact(&mut piece[..taken])?;
            left -= taken;
        }
        let length: usize = path.rsplit('/').next().and_then(|length| length.parse().ok()).unwrap_or(0);
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")?;
        if !head.starts_with("HEAD") {
            stream.write_all(&vec![7; length])?;
        }
    }
}

/// A way to end, or to hang: what it leaves open is kept by the caller.
type Ending = (&'static str, fn(&Watched) -> Vec<Client>);

fn sent(watched: &Watched, request: &str) -> Client {
    let mut client = watched.client();
    client.write_all(request.as_bytes()).expect("it is open");
    client
}

fn with_part_of_a_body(watched: &Watched, path: &str) -> Client {
    let mut client = sent(watched, &format!("PUT {path} HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n"));
    // Some servers read nothing of it.
    client.socket().set_write_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    let _ = client.write_all(&vec![1; 200_000]);
    client
}

const ENDINGS: &[Ending] = &[
    ("a client goes within a body", |watched| {
        drop(with_part_of_a_body(watched, "/ok"));
        vec![]
    }),
    ("a client stops within a body", |watched| vec![with_part_of_a_body(watched, "/ok")]),
    ("a client stops within a short body", |watched| {
        vec![sent(watched, "PUT /ok HTTP/1.1\r\nContent-Length: 3000\r\n\r\nabc")]
    }),
    ("a client stops within chunks", |watched| {
        vec![sent(watched, "PUT /ok HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n30d40\r\nabc")]
    }),
    ("a client closes its direction within a body", |watched| {
        let client = with_part_of_a_body(watched, "/ok");
        client.socket().shutdown(Shutdown::Write).expect("it is open");
        vec![client]
    }),
    ("a client closes its direction after a request", |watched| {
        let client = sent(watched, "GET /ok/5000000 HTTP/1.1\r\n\r\n");
        client.socket().shutdown(Shutdown::Write).expect("it is open");
        vec![client]
    }),
    ("a client goes within an answer", |watched| {
        let mut client = sent(watched, "GET /ok/50000000 HTTP/1.1\r\n\r\n");
        client.read_exact(&mut [0; 100_000]).expect("it comes");
        vec![]
    }),
    ("a client reads nothing", |watched| (0..4).map(|_| sent(watched, "GET /ok/50000000 HTTP/1.1\r\n\r\n")).collect()),
    ("a client reads no more", |watched| {
        let mut client = sent(watched, "GET /ok/50000000 HTTP/1.1\r\n\r\n");
        client.read_exact(&mut [0; 100_000]).expect("it comes");
        vec![client]
    }),
    ("a hundred pipelined ranges", |watched| {
        let one = "GET /ok/70000 HTTP/1.1\r\nRange: bytes=0-69999\r\n\r\n";
        let mut client = sent(watched, &one.repeat(100));
        (0..100).for_each(|_| drop(answer(&mut client).expect("each is answered")));
        vec![client]
    }),
    ("a hundred pipelined ranges that are not read", |watched| {
        vec![sent(watched, &"GET /ok/70000 HTTP/1.1\r\nRange: bytes=0-69999\r\n\r\n".repeat(100))]
    }),
    ("a hundred pipelined ranges whose client goes", |watched| {
        let one = "GET /ok/70000 HTTP/1.1\r\nRange: bytes=0-69999\r\n\r\n";
        let mut client = sent(watched, &one.repeat(100));
        answer(&mut client).expect("the first");
        vec![]
    }),
    ("pipelined short answers that are not read", |watched| {
        let mut client = watched.client();
        client.socket().set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        let _ = client.write_all("GET /ok/4000 HTTP/1.1\r\n\r\n".repeat(20_000).as_bytes());
        vec![client]
    }),
    ("different pipelined requests", |watched| {
        let body = "x".repeat(OBJECT);
        let put = format!("PUT /ok HTTP/1.1\r\nContent-Length: {OBJECT}\r\n\r\n{body}");
        let others = "GET /ok/70000 HTTP/1.1\r\n\r\nHEAD /ok/70000 HTTP/1.1\r\n\r\nDELETE /ok HTTP/1.1\r\n\r\n";
        let mut client = sent(watched, &format!("{put}{others}{put}"));
        for number in 0..5 {
            let head = head(&mut client).unwrap_or_else(|error| panic!("answer {number}: {error}"));
            let length = if number == 2 { 0 } else { content_length(&head) };
            client.read_exact(&mut vec![0; length]).expect("its body");
        }
        vec![client]
    }),
    ("a head that comes byte by byte", |watched| {
        let mut client = watched.client();
        for byte in b"GET /ok/70000 HTTP/1.1\r\nX-Long: yes\r\n\r\n" {
            client.write_all(&[*byte]).expect("it is open");
            thread::sleep(Duration::from_millis(2));
        }
        answer(&mut client).expect("an answer");
        vec![client]
    }),
    ("empty objects", |watched| {
        let mut client = watched.client();
        (0..100).for_each(|_| drop(put(&mut client, "/ok", 0).expect("an answer")));
        vec![client]
    }),
    ("PUT and GET in turns", |watched| {
        let mut client = watched.client();
        for _ in 0..30 {
            put(&mut client, "/ok", OBJECT).expect("an answer");
            get(&mut client, OBJECT).expect("an answer");
        }
        vec![client]
    }),
    ("a server never answers a GET", |watched| (0..4).map(|_| sent(watched, "GET /hangs HTTP/1.1\r\n\r\n")).collect()),
    ("a server never answers a PUT", |watched| (0..4).map(|_| with_part_of_a_body(watched, "/hangs")).collect()),
    ("a server stops within a head", |watched| vec![sent(watched, "GET /half-a-head HTTP/1.1\r\n\r\n")]),
    ("a server stops within a short body", |watched| vec![sent(watched, "GET /half-a-body HTTP/1.1\r\n\r\n")]),
    ("a server stops within a body", |watched| vec![sent(watched, "GET /half-a-large-body HTTP/1.1\r\n\r\n")]),
    ("a server goes within a body", |watched| vec![sent(watched, "GET /goes HTTP/1.1\r\n\r\n")]),
    ("a server refuses before the body and hangs", |watched| vec![with_part_of_a_body(watched, "/refuses")]),
    ("a server refuses before the body and reads on", |watched| {
        let mut client = sent(watched, "PUT /refuses-and-reads-on HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n");
        head(&mut client).expect("a refusal");
        client.write_all(&vec![1; 3_000_000]).expect("it is read");
        vec![client]
    }),
    ("a server refuses before the body and closes", |watched| {
        let mut client = with_part_of_a_body(watched, "/refuses-and-closes");
        head(&mut client).expect("a refusal");
        vec![client]
    }),
    ("a server closes after its answer", |watched| {
        let mut client = sent(watched, "GET /closes HTTP/1.1\r\n\r\n");
        head(&mut client).expect("an answer");
        // It has not seen the end yet.
        let _ = client.write_all(b"GET /ok/70000 HTTP/1.1\r\n\r\n");
        let _ = client.write_all(b"GET /ok/70000 HTTP/1.1\r\n\r\n");
        vec![client]
    }),
    ("a server closes after the first of many", |watched| {
        vec![sent(watched, &format!("GET /closes HTTP/1.1\r\n\r\n{}", "GET /ok/70000 HTTP/1.1\r\n\r\n".repeat(100)))]
    }),
    ("a server closes its direction and the client goes on", |watched| {
        let mut client = sent(watched, "PUT /refuses-and-closes HTTP/1.1\r\nContent-Length: 10\r\n\r\n0123456789");
        head(&mut client).expect("a refusal");
        let _ = client.write_all("GET /ok/70000 HTTP/1.1\r\n\r\n".repeat(10).as_bytes());
        vec![client]
    }),
];

#[track_caller]
fn every_ending_releases(protocol: Protocol) {
    let watched = Watched::new(protocol, server(obeying));
    let mut open = Vec::new();
    for (what, end) in ENDINGS {
        eprintln!("{protocol:?}: {what}");
        open.extend(end(&watched));
        watched.serves_others_after(what);
        watched.is_released_after(what);
    }
    drop(open);
    watched.is_released_after("all have gone");
}

#[test]
fn every_way_a_request_ends_gives_the_depth_back() {
    every_ending_releases(Protocol::Plain);
}

#[test]
fn every_way_a_request_over_tls_ends_gives_the_depth_back() {
    every_ending_releases(Protocol::Tls);
}

/// As long as a server could still say it; the depth was kept for a second and more, until the client gave up waiting.
#[test]
fn a_client_that_waits_for_100_continue_in_vain_keeps_no_depth_meanwhile() {
    let is_kept = || {
        let watched = Watched::new(Protocol::Plain, server(obeying));
        let head = format!("PUT /ok HTTP/1.1\r\nContent-Length: {OBJECT}\r\nExpect: 100-continue\r\n\r\n");
        let mut client = sent(&watched, &head);
        thread::sleep(Duration::from_millis(600));
        let is_kept = watched.load().0 > 0;
        client.write_all(&vec![1; OBJECT]).expect("it is open");
        answer(&mut client).expect("it is served all the same");
        is_kept
    };
    assert!(!(0..TRIALS).all(|_| is_kept()), "it is kept in each trial");
}
