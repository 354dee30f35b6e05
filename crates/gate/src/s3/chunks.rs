//! The framing of chunked bodies (RFC 9112, section 7.1), followed without changing a byte.

/// A line that says how long a chunk is, with its extensions, or a trailer's line is not longer.
const LONGEST_LINE: u32 = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    state: State,
    /// Of the chunk that is being announced or read.
    left: u64,
    /// Bytes of the line that is being read.
    line: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the digits of a chunk's size.
    Size,
    /// After them, up to the line's end.
    Extension,
    Data,
    /// The CR LF behind a chunk's data.
    DataEnd,
    /// At the beginning of a trailer's line; `line` is 1 after its CR.
    Trailer,
    /// Within one.
    TrailerLine,
    Over,
}

impl Default for Chunks {
    fn default() -> Self {
        Chunks::new()
    }
}

impl Chunks {
    /// Before its first byte.
    pub fn new() -> Self {
        Chunks { state: State::Size, left: 0, line: 0 }
    }

    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Returns how many of these bytes belong to the body, or `None` when it is no chunked body.
    pub fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Over {
            if self.state == State::Data {
                let taken = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - at);
                self.left -= taken as u64;
                at += taken;
                if self.left == 0 {
                    self.enter(State::DataEnd);
                }
            } else {
                self.read(bytes[at])?;
                at += 1;
            }
        }
        Some(at)
    }

    fn enter(&mut self, state: State) {
        (self.state, self.line) = (state, 0);
    }

    /// One byte of framing.
    fn read(&mut self, byte: u8) -> Option<()> {
        let first = self.line == 0;
        self.line += 1;
        if self.line > LONGEST_LINE {
            return None;
        }
        match (self.state, byte) {
            (State::Size, b'\n') if !first => self.begin_chunk(),
            (State::Size, b';' | b'\r' | b' ' | b'\t') if !first => self.state = State::Extension,
            (State::Size, digit) => {
                let digit = char::from(digit).to_digit(16)?;
                self.left = self.left.checked_mul(16)?.checked_add(u64::from(digit))?;
            }
            (State::Extension, b'\n') => self.begin_chunk(),
            (State::Extension, _) => {}
            (State::DataEnd, b'\r') if first => {}
            (State::DataEnd, b'\n') => self.enter(State::Size),
            (State::Trailer, b'\n') => self.enter(State::Over),
            (State::Trailer, b'\r') if first => {}
            (State::Trailer, _) if first => self.state = State::TrailerLine,
            (State::TrailerLine, b'\n') => self.enter(State::Trailer),
            (State::TrailerLine, _) => {}
            (State::DataEnd | State::Trailer | State::Data | State::Over, _) => return None,
        }
        Some(())
    }

    fn begin_chunk(&mut self) {
        self.enter(if self.left == 0 { State::Trailer } else { State::Data });
    }
}

#[cfg(test)]
mod tests {
    use super::Chunks;

    /// Feeds it in pieces of this size; how many bytes it took, and whether it is over.
    fn fed(bytes: &[u8], piece: usize) -> Option<(usize, bool)> {
        let (mut chunks, mut taken) = (Chunks::new(), 0);
        for piece in bytes.chunks(piece) {
            let more = chunks.advance(piece)?;
            taken += more;
            if more < piece.len() {
                break;
            }
        }
        Some((taken, chunks.is_over()))
    }

    #[test]
    fn a_body_ends_where_it_says_however_it_arrives() {
        let bodies: [&[u8]; 5] = [
            b"0\r\n\r\n",
            b"5\r\nhello\r\n0\r\n\r\n",
            b"5;chunk-signature=0123\r\nhello\r\n00;x\r\nx-amz-checksum-crc32: AAAA==\r\nb: c\r\n\r\n",
            b"A \r\n0123456789\r\n1\r\n\n\r\n0\r\n\r\n",
            b"3\nabc\n0\n\n",
        ];
        for body in bodies {
            let next = [body, b"GET / HTTP/1.1\r\n"].concat();
            for piece in 1..next.len() {
                assert_eq!(fed(&next, piece), Some((body.len(), true)), "{body:?} by {piece}");
            }
        }
    }

    #[test]
    fn what_is_no_chunked_body_is_noticed() {
        let bodies: [&[u8]; 6] = [b"x\r\n", b"\r\n", b"-1\r\n", b"ffffffffffffffffff\r\n", b"1\r\nab\r\n", b"0\r\n\rx"];
        for body in bodies {
            assert_eq!(fed(body, 1), None, "{body:?}");
            assert_eq!(fed(body, 64), None, "{body:?}");
        }
    }

    #[test]
    fn lines_are_bounded() {
        let mut endless = b"1;".to_vec();
        endless.resize(64 << 10, b'x');
        assert_eq!(fed(&endless, 1000), None);
    }

    #[test]
    fn a_cut_body_is_not_over() {
        assert_eq!(fed(b"5\r\nhel", 100), Some((6, false)));
        assert_eq!(fed(b"5\r\nhello\r\n0\r\n", 100), Some((13, false)));
    }
}
