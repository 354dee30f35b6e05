//! Frames: header, checksum, and the body as a request or a reply.

use format::{FRAME_HEADER_BYTES, FrameHeader};
use transfer::message::{Reply, Request};

pub fn frame(bytes: &[u8]) {
    let Ok(header) = FrameHeader::decode(bytes) else { return };
    assert_eq!(FrameHeader::decode(&header.encode()), Ok(header));
    let rest = &bytes[FRAME_HEADER_BYTES..];
    // A body that is cut short or damaged is decoded all the same: the checksum is not what protects the decoder.
    let (body, payload) = rest.split_at(rest.len().min(header.body_bytes as usize));
    let _ = header.check(body, payload);
    if let Ok(request) = Request::decode(header.kind, body) {
        assert_eq!(Request::decode(request.kind(), &request.encode()), Ok(request));
    }
    if let Ok(reply) = Reply::decode(header.kind, body) {
        assert_eq!(Reply::decode(reply.kind(), &reply.encode()), Ok(reply));
    }
}
