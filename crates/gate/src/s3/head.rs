//! Heads of requests and responses: where they end, and where their bodies do. They are never rewritten: the bytes that
//! came are passed on.

use httparse::{EMPTY_HEADER, Header, Status};

use crate::s3::body::Body;
use crate::s3::chunks::Chunks;

/// A head that is longer, or has more lines, is passed on unread, with all that follows it.
const LONGEST_HEAD: usize = 64 << 10;
/// The most bytes read at once: those after a head are not wanted yet.
pub(crate) const LOOKED_AT: usize = 4 << 10;
/// Room that a connection keeps for its next head.
pub(crate) const KEPT: usize = 1 << 10;
const MAX_HEADERS: usize = 256;

/// The result of parsing the beginning of some bytes.
#[derive(Debug, PartialEq)]
pub enum Found<T> {
    /// A head of so many bytes.
    Head(usize, T),
    /// The beginning of one.
    Part,
    /// Something else, left to the recipient to judge.
    Strange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Connect,
    Other,
}

/// A request's head, as long as its bytes are there.
pub struct Request<'a> {
    pub method: Method,
    pub target: &'a str,
    pub body: Body,
    /// Another protocol may follow.
    pub may_change_protocol: bool,
    headers: &'a [Header<'a>],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub body: Body,
}

impl Request<'_> {
    /// Returns the value of a header, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok()
    }
}

impl Response {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether it is 100 Continue or its like: the answer proper is still to come.
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }
}

/// Adds the head's part of these bytes to the beginning of a head, if there is one; returns how many to take. Bytes
/// after a head are not copied: connections that wait keep theirs.
pub(crate) fn gather<T>(head: &mut Vec<u8>, bytes: &[u8], read: impl FnOnce(&[u8]) -> Found<T>) -> (usize, Found<T>) {
    let before = head.len();
    if before > 0 {
        head.extend_from_slice(bytes);
    }
    let found = read(if before > 0 { head } else { bytes });
    let taken = match found {
        Found::Head(length, _) => length - before,
        Found::Part | Found::Strange => bytes.len(),
    };
    if before > 0 {
        head.truncate(before + taken);
    } else {
        head.extend_from_slice(&bytes[..taken]);
    }
    (taken, found)
}

/// Reads a request's head, and gives it to `understand`.
pub fn request<T>(bytes: &[u8], understand: impl FnOnce(&Request<'_>) -> T) -> Found<T> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(Status::Complete(length)) if length <= LONGEST_HEAD => length,
        Ok(Status::Partial) if bytes.len() < LONGEST_HEAD => return Found::Part,
        Ok(_) | Err(_) => return Found::Strange,
    };
    let method = match parsed.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        Some("CONNECT") => Method::Connect,
        _ => Method::Other,
    };
    let Some(body) = request_body(parsed.headers) else { return Found::Strange };
    let may_change_protocol = method == Method::Connect || named(parsed.headers, "upgrade").next().is_some();
    let target = parsed.path.unwrap_or("");
    Found::Head(length, understand(&Request { method, target, body, may_change_protocol, headers: parsed.headers }))
}

/// Reads the head of the response to a request with this method.
pub fn response(bytes: &[u8], to: Method) -> Found<Response> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(Status::Complete(length)) if length <= LONGEST_HEAD => length,
        Ok(Status::Partial) if bytes.len() < LONGEST_HEAD => return Found::Part,
        Ok(_) | Err(_) => return Found::Strange,
    };
    let status = parsed.code.unwrap_or(0);
    match response_body(status, to, parsed.headers) {
        Some(body) => Found::Head(length, Response { status, body }),
        None => Found::Strange,
    }
}

/// RFC 9112, section 6.3. Where readers of the same bytes may disagree, `None`: then nothing is read any more.
fn request_body(headers: &[Header<'_>]) -> Option<Body> {
    let length = content_length(headers)?;
    match (is_chunked(headers), length) {
        (Some(true), None) => Some(Body::Chunked(Chunks::new())),
        (Some(_), _) => None,
        (None, length) => Some(Body::Length(length.unwrap_or(0))),
    }
}

fn response_body(status: u16, to: Method, headers: &[Header<'_>]) -> Option<Body> {
    match (status, to) {
        (101, _) | (200..300, Method::Connect) => return Some(Body::Rest),
        (100..200 | 204 | 304, _) | (_, Method::Head) => return Some(Body::NONE),
        _ => {}
    }
    match is_chunked(headers) {
        Some(true) => Some(Body::Chunked(Chunks::new())),
        Some(false) => Some(Body::Rest),
        None => Some(content_length(headers)?.map_or(Body::Rest, Body::Length)),
    }
}

fn named<'a>(headers: &'a [Header<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
}

/// `Some(None)`: there is none. `None`: they are no numbers, or differ.
fn content_length(headers: &[Header<'_>]) -> Option<Option<u64>> {
    let mut found = None;
    for value in named(headers, "content-length") {
        let digits = value.trim_ascii();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let length: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        if found.is_some_and(|earlier| earlier != length) {
            return None;
        }
        found = Some(length);
    }
    Some(found)
}

/// Whether the last transfer coding is `chunked`; `None` when there is no coding.
fn is_chunked(headers: &[Header<'_>]) -> Option<bool> {
    let last = named(headers, "transfer-encoding").last()?;
    let coding = last.rsplit(|byte| *byte == b',').next().unwrap_or_default();
    Some(coding.trim_ascii().eq_ignore_ascii_case(b"chunked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_body_of(headers: &str) -> Found<Body> {
        request(format!("PUT /b/k HTTP/1.1\r\n{headers}\r\n").as_bytes(), |request| request.body)
    }

    fn body_of(found: Found<Body>) -> Option<Body> {
        match found {
            Found::Head(_, body) => Some(body),
            Found::Part | Found::Strange => None,
        }
    }

    #[test]
    fn a_head_is_gathered_from_pieces_without_what_follows() {
        let whole = b"GET /b/k HTTP/1.1\r\nHost: h\r\n\r\nthe next";
        let length = whole.len() - b"the next".len();
        let read = |bytes: &[u8]| request(bytes, |request| request.method);
        for cut in 0..whole.len() {
            let mut head = Vec::new();
            let (taken, found) = gather(&mut head, &whole[..cut], read);
            if cut >= length {
                assert_eq!((taken, found), (length, Found::Head(length, Method::Get)), "cut at {cut}");
            } else {
                assert_eq!((taken, found), (cut, Found::Part), "cut at {cut}");
                let (taken, found) = gather(&mut head, &whole[cut..], read);
                assert_eq!((taken, found), (length - cut, Found::Head(length, Method::Get)), "cut at {cut}");
            }
            assert_eq!(head, whole[..length], "cut at {cut}");
        }
    }

    #[test]
    fn a_requests_body_ends_where_rfc_9112_says() {
        let chunked = Body::Chunked(Chunks::new());
        for (headers, body) in [
            ("", Some(Body::NONE)),
            ("content-LENGTH:  17 \r\n", Some(Body::Length(17))),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", Some(Body::Length(5))),
            ("Transfer-Encoding: gzip, Chunked\r\n", Some(chunked)),
            ("Content-Length: 5\r\nContent-Length: 6\r\n", None),
            ("Content-Length: 5, 5\r\n", None),
            ("Content-Length: +5\r\n", None),
            ("Content-Length: 99999999999999999999\r\n", None),
            ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", None),
            ("Transfer-Encoding: chunked, gzip\r\n", None),
        ] {
            assert_eq!(body_of(request_body_of(headers)), body, "{headers:?}");
        }
    }

    #[test]
    fn a_responses_body_ends_where_rfc_9112_says() {
        let of = |head: &str, to| match response(head.as_bytes(), to) {
            Found::Head(_, response) => Some(response.body),
            Found::Part | Found::Strange => None,
        };
        let with_length = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
        assert_eq!(of(with_length, Method::Get), Some(Body::Length(9)));
        assert_eq!(of(with_length, Method::Head), Some(Body::NONE));
        assert_eq!(of("HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n", Method::Get), Some(Body::NONE));
        assert_eq!(of("HTTP/1.1 204 No\r\n\r\n", Method::Other), Some(Body::NONE));
        assert_eq!(of("HTTP/1.1 200 OK\r\n\r\n", Method::Get), Some(Body::Rest));
        assert_eq!(of("HTTP/1.1 101 Upgrade\r\n\r\n", Method::Get), Some(Body::Rest));
        assert_eq!(of("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", Method::Get), None);
    }

    #[test]
    fn a_head_arrives_in_parts_and_is_bounded() {
        let whole = b"GET /b/k HTTP/1.1\r\nHost: h\r\n\r\nGET";
        for length in 1..whole.len() - 3 {
            assert_eq!(request(&whole[..length], |_| ()), Found::Part, "{length}");
        }
        assert_eq!(request(whole, |request| request.target.to_owned()), Found::Head(30, "/b/k".to_owned()));
        let endless = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(LONGEST_HEAD));
        assert_eq!(request(endless.as_bytes(), |_| ()), Found::Strange);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(MAX_HEADERS + 1));
        assert_eq!(request(many.as_bytes(), |_| ()), Found::Strange);
        assert_eq!(request(b"\x16\x03\x01\x02\x00", |_| ()), Found::Strange);
    }

    #[test]
    fn who_asks_for_another_protocol_is_noticed() {
        let asks = |text: &str| request(text.as_bytes(), |request| request.may_change_protocol);
        assert_eq!(asks("GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"), Found::Head(38, true));
        assert_eq!(asks("CONNECT a:1 HTTP/1.1\r\n\r\n"), Found::Head(24, true));
        assert_eq!(asks("GET / HTTP/1.1\r\n\r\n"), Found::Head(18, false));
    }
}
