//! A web server for a few small pages: GET or HEAD, one request a connection.
//!
//! It is for monitoring alone and must never matter to the data: it takes few connections at once, reads little, and
//! waits for no client long.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::exposition::Exposition;
use crate::view::{self, Health, View};

/// More are closed at once.
const MAX_CONNECTIONS: usize = 16;
const MAX_REQUEST_BYTES: usize = 8 << 10;
/// For request and answer together.
const TIMEOUT: Duration = Duration::from_secs(10);
const MARK_INTERVAL: Duration = Duration::from_secs(1);
/// After `accept` failed: file descriptors may be free again then.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub struct Page {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

impl Page {
    pub fn new(content_type: &'static str, body: String) -> Page {
        Page { status: "200 OK", content_type, body }
    }

    fn text(status: &'static str, body: String) -> Page {
        Page { status, content_type: "text/plain; charset=utf-8", body }
    }

    /// For load balancers and supervisors: 200, or 503 and why.
    fn health(health: Health) -> Page {
        match health {
            Ok(()) => Page::text("200 OK", "ok\n".into()),
            Err(why) => Page::text("503 Service Unavailable", format!("{why}\n")),
        }
    }
}

/// A server that shows itself.
pub trait Monitored {
    fn metrics(&self) -> Exposition;
    fn health(&self) -> Health;
    fn view(&self) -> View;
    /// Called each second where the pages have a thread of their own ([`spawn`]).
    fn mark(&self) {}
    /// A page of its own at another path.
    fn other(&self, _path: &str) -> Option<Page> {
        None
    }
}

/// The live page; it asks for its numbers itself.
const LIVE_PAGE: &str = include_str!("page.html");

/// Serves these pages from a thread of its own until the process ends, for a server of plain threads.
pub fn spawn(listener: std::net::TcpListener, monitored: impl Monitored + Send + 'static) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let serve = move || {
        let pages = async {
            let listener = TcpListener::from_std(listener).expect("the runtime is this thread's, and polls sockets");
            let monitored: Rc<dyn Monitored> = Rc::new(monitored);
            tokio::task::spawn_local(mark_for_ever(monitored.clone()));
            serve(listener, monitored).await;
        };
        tokio::task::LocalSet::new().block_on(&runtime, pages);
    };
    std::thread::Builder::new().name("metrics".into()).spawn(serve).map(drop)
}

async fn mark_for_ever(monitored: Rc<dyn Monitored>) {
    let mut ticks = tokio::time::interval(MARK_INTERVAL);
    loop {
        ticks.tick().await;
        monitored.mark();
    }
}

/// Answers until dropped. Must be called within a `LocalSet`.
pub async fn serve(listener: TcpListener, monitored: Rc<dyn Monitored>) {
    let connections = Rc::new(Cell::new(0));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if connections.get() >= MAX_CONNECTIONS {
            continue;
        }
        let place = ConnectionSlot::take(&connections);
        let monitored = monitored.clone();
        tokio::task::spawn_local(async move {
            // A client that is too slow or breaks off has no use for an error.
            let _ = timeout(TIMEOUT, answer(stream, monitored.as_ref())).await;
            drop(place);
        });
    }
}

/// The page runs its own script only, asks only its own server, and is shown in no other site's.
const SAFETY: &str = "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'\r\n\
                      X-Content-Type-Options: nosniff\r\n";

/// One of the connections open now.
struct ConnectionSlot(Rc<Cell<usize>>);

impl ConnectionSlot {
    fn take(connections: &Rc<Cell<usize>>) -> ConnectionSlot {
        connections.set(connections.get() + 1);
        ConnectionSlot(connections.clone())
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

async fn answer(mut stream: TcpStream, monitored: &dyn Monitored) -> io::Result<()> {
    let request = read_head(&mut stream).await?;
    let answer = respond(&request, monitored);
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // Reads what the client may still send, so that closing does not reset what it has not read yet.
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// Up to the empty line, or as much of it as a server for small pages needs.
async fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while request.len() < MAX_REQUEST_BYTES {
        let length = stream.read(&mut piece).await?;
        if length == 0 {
            break;
        }
        let searched = request.len().saturating_sub(3);
        request.extend(&piece[..length]);
        if request[searched..].windows(4).any(|window| window == b"\r\n\r\n") {
            break;
        }
    }
    Ok(request)
}

fn respond(request: &[u8], monitored: &dyn Monitored) -> String {
    let head = String::from_utf8_lossy(request);
    let mut words = head.lines().next().unwrap_or("").split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let is_http = version.is_some_and(|version| version.starts_with("HTTP/1."));
    let (Some(method), Some(target), true) = (method, target, is_http) else {
        return whole(&Page::text("400 Bad Request", "this is a web server for small pages\n".into()), true);
    };
    if method != "GET" && method != "HEAD" {
        return whole(&Page::text("405 Method Not Allowed", "only GET and HEAD\n".into()), true);
    }
    let path = target.split('?').next().unwrap_or("");
    whole(&page(path, monitored), method == "GET")
}

fn page(path: &str, monitored: &dyn Monitored) -> Page {
    match path {
        "/" => Page::new("text/html; charset=utf-8", LIVE_PAGE.into()),
        view::PATH => monitored.view().into_page(),
        "/metrics" => monitored.metrics().into_page(),
        "/health" => Page::health(monitored.health()),
        _ => monitored
            .other(path)
            .unwrap_or_else(|| Page::text("404 Not Found", "there are /, /metrics and /health\n".into())),
    }
}

fn whole(page: &Page, with_body: bool) -> String {
    let Page { status, content_type, body } = page;
    let length = body.len();
    let body = if with_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
         {SAFETY}Connection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Shown(Health);

    impl Monitored for Shown {
        fn metrics(&self) -> Exposition {
            let mut page = Exposition::new("t_");
            page.sample("n", &[], 7);
            page
        }

        fn health(&self) -> Health {
            self.0.clone()
        }

        fn view(&self) -> View {
            let (facts, plots, tables) = Default::default();
            View { title: "a server".into(), health: self.health(), facts, plots, tables }
        }

        fn other(&self, path: &str) -> Option<Page> {
            (path == "/more").then(|| Page::new("text/plain", "more\n".into()))
        }
    }

    #[test]
    fn pages_are_found_and_the_rest_is_refused() {
        let shown = Shown(Ok(()));
        let answer = respond(b"GET /metrics?x=1 HTTP/1.1\r\nHost: here\r\n\r\n", &shown);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nt_n 7\n"), "{answer}");
        let answer = respond(b"HEAD /metrics HTTP/1.1\r\n\r\n", &shown);
        assert!(answer.contains("Content-Length: 6\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
        assert!(respond(b"GET /more HTTP/1.1\r\n\r\n", &shown).ends_with("\r\n\r\nmore\n"));
        assert!(respond(b"GET / HTTP/1.1\r\n\r\n", &shown).contains("\r\n\r\n<!doctype html>"));
        for (request, status) in [
            (&b"GET /none HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"", "400"),
            (b"\x16\x03\x01\xff\xfe", "400"),
            (b"GET /metrics", "400"),
        ] {
            assert!(respond(request, &shown).starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}");
        }
    }

    #[test]
    fn health_is_a_status_that_says_why() {
        let health = |health| respond(b"GET /health HTTP/1.1\r\n\r\n", &Shown(health));
        assert!(health(Ok(())).starts_with("HTTP/1.1 200 OK\r\n"));
        let ill = health(Err("the node is stopping".into()));
        assert!(ill.starts_with("HTTP/1.1 503 ") && ill.ends_with("\r\n\r\nthe node is stopping\n"), "{ill}");
        let view = respond(b"GET /page.json HTTP/1.1\r\n\r\n", &Shown(Err("why".into())));
        assert!(view.contains("\"health\":\"why\"") && view.contains("\"title\":\"a server\""), "{view}");
    }

    #[test]
    fn a_server_of_plain_threads_has_its_pages_served_too() {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        spawn(listener, Shown(Ok(()))).unwrap();
        let mut client = std::net::TcpStream::connect(address).unwrap();
        client.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("\r\n\r\nt_n 7\n"), "{answer}");
    }

    #[test]
    fn a_client_that_sends_little_by_little_is_answered_and_a_crowd_is_limited() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::task::spawn_local(serve(listener, Rc::new(Shown(Ok(())))));
            let mut crowd = Vec::new();
            for _ in 0..MAX_CONNECTIONS - 1 {
                crowd.push(TcpStream::connect(address).await.unwrap());
            }
            let mut slow = TcpStream::connect(address).await.unwrap();
            for piece in ["GET /met", "rics HTTP/1.1\r\n", "Host: here\r\n\r", "\n"] {
                slow.write_all(piece.as_bytes()).await.unwrap();
                sleep(Duration::from_millis(20)).await;
            }
            let mut late = TcpStream::connect(address).await.unwrap();
            let mut answer = String::new();
            slow.read_to_string(&mut answer).await.unwrap();
            assert!(answer.ends_with("t_n 7\n"), "{answer}");
            drop(slow);
            let mut nothing = [0];
            assert!(matches!(late.read(&mut nothing).await, Ok(0) | Err(_)), "one more was answered");
        });
    }
}
