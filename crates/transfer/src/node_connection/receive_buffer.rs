//! Frames as they arrive, in whatever pieces the network makes of them.

use format::{FRAME_HEADER_BYTES, FrameHeader};

use crate::connection::Frame;

/// Room offered to one read of the socket (bytes).
const READ_BYTES: usize = 64 << 10;
/// An announcement is not trusted: memory for it is taken in such steps, as its bytes arrive.
const STEP_BYTES: usize = 1 << 20;
/// A buffer that a long body made larger than this is not kept (bytes).
const MAX_KEPT_BYTES: usize = 4 << 20;

#[derive(Default)]
pub(super) struct ReceiveBuffer {
    buffer: Vec<u8>,
    /// `buffer[begin..end]` has arrived and is not taken yet.
    begin: usize,
    end: usize,
    /// A frame whose payload goes where it is to stay.
    partial: Option<PartialFrame>,
}

struct PartialFrame {
    header: FrameHeader,
    body: Vec<u8>,
    /// The first `held` bytes of it have arrived.
    payload: Vec<u8>,
    held: usize,
}

impl ReceiveBuffer {
    /// Returns the room for the next bytes of the socket.
    pub fn room(&mut self) -> &mut [u8] {
        if let Some(partial) = &mut self.partial {
            return partial.room();
        }
        if self.begin == self.end && self.buffer.len() > MAX_KEPT_BYTES {
            (self.buffer, self.begin, self.end) = (Vec::new(), 0, 0);
        }
        let announced = announced_bytes(&self.buffer[self.begin..self.end]);
        let missing = announced.map_or(0, |bytes| bytes.saturating_sub(self.end - self.begin));
        self.buffer.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        let wanted = self.end + missing.clamp(READ_BYTES, STEP_BYTES);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// Notes that so many bytes were laid into the room.
    pub fn filled(&mut self, bytes: usize) {
        match &mut self.partial {
            Some(partial) => partial.held += bytes,
            None => self.end += bytes,
        }
    }

    /// Returns the next whole frame, its checksum right, if it has arrived.
    pub fn take(&mut self) -> format::Result<Option<Frame>> {
        if let Some(partial) = self.partial.take_if(|partial| partial.is_whole()) {
            return partial.finish().map(Some);
        }
        if self.partial.is_some() {
            return Ok(None);
        }
        let held = &self.buffer[self.begin..self.end];
        FrameHeader::check_start(held)?;
        let Some(start) = held.get(..FRAME_HEADER_BYTES) else { return Ok(None) };
        let header = FrameHeader::decode(start)?;
        let body_end = FRAME_HEADER_BYTES + header.body_bytes as usize;
        let Some(body) = held.get(FRAME_HEADER_BYTES..body_end) else { return Ok(None) };
        let payload = &held[body_end..];
        let payload = &payload[..payload.len().min(header.payload_bytes as usize)];
        let frame_end = body_end + payload.len();
        let partial = PartialFrame::begin(header, body.to_vec(), payload);
        self.begin += frame_end;
        if partial.is_whole() {
            return partial.finish().map(Some);
        }
        self.partial = Some(partial);
        Ok(None)
    }
}

/// Returns the length of header and body that have begun to arrive, once the header has.
fn announced_bytes(held: &[u8]) -> Option<usize> {
    let header = FrameHeader::decode(held.get(..FRAME_HEADER_BYTES)?).ok()?;
    Some(FRAME_HEADER_BYTES + header.body_bytes as usize)
}

impl PartialFrame {
    fn begin(header: FrameHeader, body: Vec<u8>, arrived: &[u8]) -> Self {
        let mut payload = Vec::with_capacity((header.payload_bytes as usize).min(STEP_BYTES).max(arrived.len()));
        payload.extend_from_slice(arrived);
        PartialFrame { header, body, payload, held: arrived.len() }
    }

    fn is_whole(&self) -> bool {
        self.held == self.header.payload_bytes as usize
    }

    fn room(&mut self) -> &mut [u8] {
        let whole = self.header.payload_bytes as usize;
        let wanted = whole.min(self.held + STEP_BYTES);
        if self.payload.capacity() < wanted {
            self.payload.reserve_exact(wanted.max(whole.min(2 * self.payload.capacity())) - self.payload.len());
        }
        if self.payload.len() < wanted {
            self.payload.resize(wanted, 0);
        }
        &mut self.payload[self.held..]
    }

    fn finish(self) -> format::Result<Frame> {
        let PartialFrame { header, body, payload, .. } = self;
        header.check(&body, &payload)?;
        Ok(Frame { header, body, payload })
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

    /// Lays the bytes into the rooms that are offered; returns the frames that came out.
    fn receive(buffer: &mut ReceiveBuffer, mut bytes: &[u8]) -> Vec<Frame> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let room = buffer.room();
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            buffer.filled(count);
            bytes = &bytes[count..];
            while let Some(frame) = buffer.take().unwrap() {
                frames.push(frame);
            }
        }
        frames
    }

    #[test]
    fn frames_arrive_whole_however_they_are_cut() {
        let payloads: Vec<Vec<u8>> = [0, 100_000, 3, 2_000_000, 300_000].map(|bytes| vec![bytes as u8; bytes]).into();
        let bytes: Vec<u8> = (0..5).flat_map(|number| frame(number as u64, &payloads[number])).collect();
        for step in [1000, 31, 200_000, 1 << 30] {
            let mut buffer = ReceiveBuffer::default();
            let frames: Vec<Frame> = bytes.chunks(step).flat_map(|piece| receive(&mut buffer, piece)).collect();
            assert_eq!(frames.iter().map(|frame| frame.header.request).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
            assert!(frames.iter().map(|frame| &frame.payload).eq(&payloads), "in steps of {step}");
        }
    }

    #[test]
    fn the_room_that_a_long_body_took_is_given_back() {
        let body = vec![5; 3 * MAX_KEPT_BYTES];
        let long = [&FrameHeader::new(7, 1, &body, b"").encode()[..], &body].concat();
        let mut buffer = ReceiveBuffer::default();
        for _ in 0..2 {
            let frames = receive(&mut buffer, &long);
            assert!(frames.len() == 1 && frames[0].body == body);
            assert!(buffer.room().len() <= STEP_BYTES);
            assert_eq!(receive(&mut buffer, &frame(2, b"payload")).len(), 1);
        }
    }

    #[test]
    fn an_announced_payload_takes_memory_as_it_arrives() {
        let header = FrameHeader { payload_bytes: 80 << 20, ..FrameHeader::new(7, 1, b"body", b"") };
        let mut buffer = ReceiveBuffer::default();
        receive(&mut buffer, &[&header.encode()[..], b"body", &[1; 1000]].concat());
        let room = buffer.room().len();
        assert!(room <= STEP_BYTES, "{room} bytes of room for 80 MiB of which 1000 have come");
    }

    #[test]
    fn a_flipped_bit_is_noticed() {
        for payload in [&b"payload"[..], &[1; 300_000]] {
            let mut bytes = frame(1, payload);
            *bytes.last_mut().unwrap() ^= 1;
            let mut buffer = ReceiveBuffer::default();
            receive(&mut buffer, &bytes[..bytes.len() - 1]);
            buffer.room()[0] = bytes[bytes.len() - 1];
            buffer.filled(1);
            assert!(buffer.take().is_err());
        }
    }
}
