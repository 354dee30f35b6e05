//! A web server for a few small pages: GET or HEAD, one request a connection.
//!
//! It is for monitoring alone and must never matter to the data: it takes few connections at once, reads little, and
//! waits for nobody long.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// More are closed at once.
const MOST_CONNECTIONS: usize = 16;
const MOST_REQUEST_BYTES: usize = 8 << 10;
/// For request and answer together.
const PATIENCE: Duration = Duration::from_secs(10);
/// After `accept` failed: file descriptors may be free again then.
const REST: Duration = Duration::from_millis(100);

pub struct Page {
    pub content_type: &'static str,
    pub body: String,
}

/// Makes the page of a path.
pub type FindPage = dyn Fn(&str) -> Option<Page>;

/// Answers until dropped; `find` makes the page of a path. Must be called within a `LocalSet`.
pub async fn serve(listener: TcpListener, find: Rc<FindPage>) {
    let connections = Rc::new(Cell::new(0));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(REST).await;
            continue;
        };
        if connections.get() >= MOST_CONNECTIONS {
            continue;
        }
        let place = Place::take(&connections);
        let find = find.clone();
        tokio::task::spawn_local(async move {
            // Who is too slow or breaks off has no use for an error.
            let _ = timeout(PATIENCE, answer(stream, find.as_ref())).await;
            drop(place);
        });
    }
}

/// One of the connections open now.
struct Place(Rc<Cell<usize>>);

impl Place {
    fn take(connections: &Rc<Cell<usize>>) -> Place {
        connections.set(connections.get() + 1);
        Place(connections.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

async fn answer(mut stream: TcpStream, find: &dyn Fn(&str) -> Option<Page>) -> io::Result<()> {
    let request = read_head(&mut stream).await?;
    let answer = respond(&request, find);
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // What the client may still send is read, so that closing does not reset what it has not read yet.
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// Up to the empty line, or as much of it as a server for small pages needs.
async fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while request.len() < MOST_REQUEST_BYTES {
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

fn respond(request: &[u8], find: &dyn Fn(&str) -> Option<Page>) -> String {
    let head = String::from_utf8_lossy(request);
    let mut words = head.lines().next().unwrap_or("").split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let is_http = version.is_some_and(|version| version.starts_with("HTTP/1."));
    let (Some(method), Some(target), true) = (method, target, is_http) else {
        return text("400 Bad Request", "this is a web server for small pages\n", true);
    };
    if method != "GET" && method != "HEAD" {
        return text("405 Method Not Allowed", "only GET and HEAD\n", true);
    }
    let path = target.split('?').next().unwrap_or("");
    match find(path) {
        Some(page) => whole("200 OK", page.content_type, &page.body, method == "GET"),
        None => text("404 Not Found", "there are /metrics and /status.json\n", method == "GET"),
    }
}

fn text(status: &str, body: &str, with_body: bool) -> String {
    whole(status, "text/plain; charset=utf-8", body, with_body)
}

fn whole(status: &str, content_type: &str, body: &str, with_body: bool) -> String {
    let length = body.len();
    let body = if with_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(path: &str) -> Option<Page> {
        (path == "/metrics").then(|| Page { content_type: "text/plain", body: "hello\n".into() })
    }

    #[test]
    fn pages_are_found_and_the_rest_is_refused() {
        let answer = respond(b"GET /metrics?x=1 HTTP/1.1\r\nHost: here\r\n\r\n", &find);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhello\n"), "{answer}");
        let answer = respond(b"HEAD /metrics HTTP/1.1\r\n\r\n", &find);
        assert!(answer.contains("Content-Length: 6\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"", "400"),
            (b"\x16\x03\x01\xff\xfe", "400"),
            (b"GET /metrics", "400"),
        ] {
            assert!(respond(request, &find).starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}");
        }
    }

    #[test]
    fn a_client_that_sends_little_by_little_is_answered_and_a_crowd_is_limited() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::task::spawn_local(serve(listener, Rc::new(find)));
            let mut crowd = Vec::new();
            for _ in 0..MOST_CONNECTIONS - 1 {
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
            assert!(answer.ends_with("hello\n"), "{answer}");
            drop(slow);
            let mut nothing = [0];
            assert!(matches!(late.read(&mut nothing).await, Ok(0) | Err(_)), "one more was answered");
        });
    }
}
