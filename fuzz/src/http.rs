//! Streams of HTTP messages: where heads end, and where bodies do, however the bytes arrive.

use gate::s3::body::Body;
use gate::s3::chunks::Chunks;
use gate::s3::head::{Found, Method, request, response};

pub fn http_framing(bytes: &[u8]) {
    let piece = 1 + bytes.first().map_or(0, |first| usize::from(*first));
    match request(bytes, |request| request.body) {
        Found::Head(length, body) => {
            assert!(length <= bytes.len(), "a head longer than its bytes");
            body_ends_once(body, &bytes[length..], piece);
        }
        Found::Part | Found::Strange => {}
    }
    for to in [Method::Get, Method::Head, Method::Connect] {
        if let Found::Head(length, response) = response(bytes, to) {
            assert!(length <= bytes.len(), "a head longer than its bytes");
            body_ends_once(response.body, &bytes[length..], piece);
        }
    }
    body_ends_once(Body::Chunked(Chunks::new()), bytes, piece);
}

/// Where a body ends does not depend on how it is cut.
fn body_ends_once(body: Body, bytes: &[u8], piece: usize) {
    let (mut whole, mut cut) = (body, body);
    let length = whole.advance(bytes);
    let mut at = 0;
    for piece in bytes.chunks(piece) {
        let taken = cut.advance(piece);
        at += taken;
        if taken < piece.len() {
            break;
        }
    }
    assert_eq!((length, whole), (at, cut), "the end of a body depends on how the stream is cut");
    assert!(length == bytes.len() || whole.is_over(), "bytes left over before the end");
}
