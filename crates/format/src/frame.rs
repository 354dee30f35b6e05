//! The frame around every message between client and node.
//!
//! A fixed header, then a body of structured fields, then a payload of bulk bytes. Requests and replies
//! share the request number; a reply may come in any order.

use crate::{Error, Reader, Result, Writer, checksum, corrupt};

pub const FRAME_HEADER_BYTES: usize = 32;
pub const FRAME_MAGIC: [u8; 4] = *b"TWGF";
/// The protocol version, which both ends must share: it goes up with every change to this header or to any message.
pub const PROTOCOL: u8 = 17;
/// How much of a foreign peer's first words an error quotes (bytes).
const SAYING_BYTES: usize = 24;
/// Limits a receiver may rely on before it allocates.
pub const MAX_BODY_BYTES: u32 = 64 << 20;
pub const MAX_PAYLOAD_BYTES: u32 = 80 << 20;
/// All of the header but the checksum itself.
const CHECKED_HEADER_BYTES: usize = FRAME_HEADER_BYTES - 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The message's kind: see the table in `docs/format.md`. Replies have the highest bit set.
    pub kind: u16,
    pub request: u64,
    pub body_bytes: u32,
    pub payload_bytes: u32,
    /// Over the header's bytes before this field, the body and the payload: see [`FrameHeader::sum`].
    pub checksum: u64,
}

impl FrameHeader {
    pub fn new(kind: u16, request: u64, body: &[u8], payload: &[u8]) -> Self {
        Self::of_pieces(kind, request, body, &[payload])
    }

    /// As `new`, for a payload in several pieces.
    pub fn of_pieces(kind: u16, request: u64, body: &[u8], payload: &[&[u8]]) -> Self {
        let payload_bytes = payload.iter().map(|piece| piece.len()).sum::<usize>() as u32;
        let mut header = FrameHeader { kind, request, body_bytes: body.len() as u32, payload_bytes, checksum: 0 };
        header.checksum = header.sum(body, payload);
        header
    }

    /// Checks that these are the body and payload that were sent under this very header.
    pub fn check(&self, body: &[u8], payload: &[u8]) -> Result<()> {
        if self.sum(body, &[payload]) != self.checksum {
            return corrupt("frame", "the checksum does not match: the connection damaged it");
        }
        Ok(())
    }

    /// Returns the checksums of header, body and payload, each rotated differently so that swapping two is noticed.
    fn sum(&self, body: &[u8], payload: &[&[u8]]) -> u64 {
        let header = checksum(&self.encode()[..CHECKED_HEADER_BYTES]);
        header.rotate_left(2) ^ checksum(body) ^ crate::checksum_of_pieces(payload).rotate_left(1)
    }

    pub fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut to = Writer::new();
        to.put(&FRAME_MAGIC).u8(PROTOCOL).u8(0).u16(self.kind).u64(self.request);
        to.u32(self.body_bytes).u32(self.payload_bytes).u64(self.checksum);
        to.finish().try_into().expect("the layout has its stated size")
    }

    /// Checks that a frame may begin with these bytes, of which there may be any number: a peer of another release, or
    /// of another protocol, is recognised by its first bytes, whatever it sends next.
    pub fn check_start(start: &[u8]) -> Result<()> {
        let magic = &start[..start.len().min(FRAME_MAGIC.len())];
        if *magic != FRAME_MAGIC[..magic.len()] {
            let says = start[..start.len().min(SAYING_BYTES)].escape_ascii().to_string();
            return Err(Error::Stranger { says });
        }
        match start.get(FRAME_MAGIC.len()) {
            Some(found) if *found != PROTOCOL => Err(Error::OtherProtocol { found: *found }),
            _ => Ok(()),
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        Self::check_start(bytes)?;
        let mut from = Reader::new("frame header", bytes);
        let (_magic, _protocol, _reserved) = (from.array::<4>()?, from.u8()?, from.u8()?);
        let header = FrameHeader {
            kind: from.u16()?,
            request: from.u64()?,
            body_bytes: from.u32()?,
            payload_bytes: from.u32()?,
            checksum: from.u64()?,
        };
        if header.body_bytes > MAX_BODY_BYTES || header.payload_bytes > MAX_PAYLOAD_BYTES {
            return corrupt(
                "frame header",
                format!("{} + {} bytes is above the limit", header.body_bytes, header.payload_bytes),
            );
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_and_limits_hold() {
        let header = FrameHeader::new(5, 77, b"body", b"payload");
        assert_eq!(FrameHeader::decode(&header.encode()).unwrap(), header);
        let mut large = header;
        large.payload_bytes = u32::MAX;
        assert!(FrameHeader::decode(&large.encode()).is_err());
    }

    #[test]
    fn the_first_bytes_tell_who_speaks() {
        let whole = FrameHeader::new(5, 77, b"", b"").encode();
        (0..=whole.len()).for_each(|end| FrameHeader::check_start(&whole[..end]).unwrap());
        for found in (0..=u8::MAX).filter(|found| *found != PROTOCOL) {
            let mut other = whole;
            other[4] = found;
            assert!(FrameHeader::check_start(&other[..4]).is_ok());
            let error = FrameHeader::check_start(&other[..5]).unwrap_err();
            let older = if found < PROTOCOL { "the peer is the older" } else { "this program is the older" };
            assert!(error == Error::OtherProtocol { found } && error.to_string().contains(older), "{error}");
            assert_eq!(FrameHeader::decode(&other), Err(error));
        }
        let error = FrameHeader::check_start(b"HTTP/1.1 400 Bad Request\r\n").unwrap_err();
        assert!(error.to_string().contains("\"HTTP/1.1 400 Bad Request\""), "{error}");
        assert!(FrameHeader::check_start(b"T").is_ok() && FrameHeader::check_start(b"TH").is_err());
    }

    #[test]
    fn the_checksum_covers_header_body_and_payload() {
        let header = FrameHeader::of_pieces(5, 77, b"body", &[b"pay", b"load"]);
        assert_eq!(header, FrameHeader::new(5, 77, b"body", b"payload"));
        assert!(header.check(b"body", b"payload").is_ok());
        assert!(header.check(b"payload", b"body").is_err());
        assert!(FrameHeader { kind: 6, ..header }.check(b"body", b"payload").is_err());
        assert!(FrameHeader { request: 78, ..header }.check(b"body", b"payload").is_err());
    }
}
