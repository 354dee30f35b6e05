//! Frames as they arrive, in whatever pieces the network makes of them.

use format::{FRAME_HEADER_BYTES, FrameHeader};

/// Room offered to one read of the socket (bytes).
const READ_BYTES: usize = 256 << 10;

#[derive(Default)]
pub(super) struct Incoming {
    buffer: Vec<u8>,
    /// `buffer[begin..end]` has arrived and is not taken yet.
    begin: usize,
    end: usize,
}

/// A whole frame, its checksum right.
pub(super) struct ReceivedFrame {
    pub kind: u16,
    pub number: u64,
    pub body: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Incoming {
    pub fn clear(&mut self) {
        (self.begin, self.end) = (0, 0);
    }

    /// Returns the buffer for the next bytes of the socket, large enough for the announced frame.
    pub fn room(&mut self) -> &mut [u8] {
        let missing = self.announced_bytes().map_or(0, |bytes| bytes.saturating_sub(self.end - self.begin));
        self.buffer.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        let wanted = self.end + missing.max(READ_BYTES);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        &mut self.buffer[self.end..]
    }

    pub fn filled(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// Returns the next whole frame, if it has arrived.
    pub fn take(&mut self) -> format::Result<Option<ReceivedFrame>> {
        let held = &self.buffer[self.begin..self.end];
        FrameHeader::check_start(held)?;
        let Some(start) = held.get(..FRAME_HEADER_BYTES) else { return Ok(None) };
        let header = FrameHeader::decode(start)?;
        let body_end = FRAME_HEADER_BYTES + header.body_bytes as usize;
        let frame_end = body_end + header.payload_bytes as usize;
        let Some(frame) = held.get(..frame_end) else { return Ok(None) };
        let (body, payload) = (&frame[FRAME_HEADER_BYTES..body_end], &frame[body_end..]);
        header.check(body, payload)?;
        let arrived =
            ReceivedFrame { kind: header.kind, number: header.request, body: body.to_vec(), payload: payload.to_vec() };
        self.begin += frame_end;
        Ok(Some(arrived))
    }

    /// Returns the length of the frame that has begun to arrive, once its header has.
    fn announced_bytes(&self) -> Option<usize> {
        let start = self.buffer[self.begin..self.end].get(..FRAME_HEADER_BYTES)?;
        let header = FrameHeader::decode(start).ok()?;
        Some(FRAME_HEADER_BYTES + header.body_bytes as usize + header.payload_bytes as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = FrameHeader::new(7, number, b"body", payload).encode().to_vec();
        bytes.extend_from_slice(b"body");
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn frames_arrive_whole_however_they_are_cut() {
        let bytes: Vec<u8> =
            (0..5).flat_map(|number| frame(number, &vec![number as u8; 100_000 * number as usize])).collect();
        for step in [1000, 31, 200_000] {
            let (mut incoming, mut numbers) = (Incoming::default(), Vec::new());
            for piece in bytes.chunks(step) {
                incoming.room()[..piece.len()].copy_from_slice(piece);
                incoming.filled(piece.len());
                while let Some(arrived) = incoming.take().unwrap() {
                    assert!(arrived.payload.iter().all(|byte| *byte == arrived.number as u8));
                    numbers.push(arrived.number);
                }
            }
            assert_eq!(numbers, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed() {
        let mut bytes = frame(1, b"payload");
        *bytes.last_mut().unwrap() ^= 1;
        let mut incoming = Incoming::default();
        incoming.room()[..bytes.len()].copy_from_slice(&bytes);
        incoming.filled(bytes.len());
        assert!(incoming.take().is_err());
    }
}
