//! Record marking (RFC 5531, section 11): how calls and replies lie one after the other in a TCP stream.
//!
//! A record is a row of fragments, each with a marker of four bytes: 31 bits of length, and a highest bit that says
//! whether it is the record's last. Bytes are read and never changed: they are forwarded as they came, markers
//! included. Only a stream in which no boundary can be found any more is refused.

use std::borrow::Cow;
use std::fmt;

pub const MARKER_BYTES: usize = 4;
/// The longest record passed on, markers included (bytes): a transfer of 64 MiB, the largest that NFS servers offer,
/// with room for its call. Another protocol mostly shows as a longer one.
pub const MAX_RECORD_BYTES: usize = (64 << 20) + (64 << 10);
/// The most fragments in one record; libraries cut a record where their buffer ends, not more often.
pub const MAX_FRAGMENTS: usize = 1024;

const LAST: u32 = 1 << 31;

/// Bytes in which no record can be found: the connection cannot be followed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

const TOO_LONG: Malformed = Malformed("a record above 64 MiB: is this the protocol that the listener names?");
const TOO_MANY: Malformed = Malformed("a record of more than 1024 fragments");

/// The length of a record, as far as the bytes at hand show it (bytes, markers included).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Whole(usize),
    /// This many bytes are needed to decide; always more than were given.
    MoreThan(usize),
}

/// Decodes one marker: the fragment's length in bytes, and whether it is the record's last.
pub fn marker(bytes: [u8; MARKER_BYTES]) -> (usize, bool) {
    let word = u32::from_be_bytes(bytes);
    ((word & !LAST) as usize, word & LAST != 0)
}

/// Returns how long the record at the front of `bytes` is.
pub fn extent(bytes: &[u8]) -> Result<Extent, Malformed> {
    let mut at = 0;
    for _ in 0..MAX_FRAGMENTS {
        let Some(head) = bytes.get(at..at + MARKER_BYTES) else { return Ok(Extent::MoreThan(at + MARKER_BYTES)) };
        let (length, last) = marker(head.try_into().expect("four bytes"));
        at += MARKER_BYTES + length;
        if at > MAX_RECORD_BYTES {
            return Err(TOO_LONG);
        }
        if last {
            return Ok(Extent::Whole(at));
        }
    }
    Err(TOO_MANY)
}

/// Returns the message in a record, or as much of it as `bytes` hold: its fragments without their markers. Copies only
/// when there are several fragments, and then no more than `limit` bytes.
pub fn message(bytes: &[u8], limit: usize) -> Cow<'_, [u8]> {
    let Some((head, rest)) = bytes.split_at_checked(MARKER_BYTES) else { return Cow::Borrowed(&[]) };
    let (length, last) = marker(head.try_into().expect("four bytes"));
    if last || rest.len() <= length {
        return Cow::Borrowed(&rest[..length.min(rest.len())]);
    }
    let mut joined = Vec::new();
    let mut left = bytes;
    while let Some((head, rest)) = left.split_at_checked(MARKER_BYTES) {
        let (length, last) = marker(head.try_into().expect("four bytes"));
        let fragment = &rest[..length.min(rest.len())];
        joined.extend_from_slice(&fragment[..fragment.len().min(limit - joined.len())]);
        if last || joined.len() == limit {
            break;
        }
        left = &rest[fragment.len()..];
    }
    Cow::Owned(joined)
}

/// A record that has passed: enough of it to know the call it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The transaction id; none when the record is too short to hold one.
    pub xid: Option<u32>,
    /// Whether it is a reply; a server also calls its clients over the same connection (GlusterFS).
    pub is_reply: bool,
    /// Length in bytes, markers included.
    pub bytes: usize,
}

const HEAD_BYTES: usize = 8;
const REPLY: u32 = 1;

/// Finds the ends of records in a stream that passes by in pieces of any size, keeping nothing but the first bytes.
#[derive(Default)]
pub struct Passing {
    marker: [u8; MARKER_BYTES],
    marker_bytes: usize,
    /// Left of the fragment (bytes).
    left: usize,
    in_fragment: bool,
    last: bool,
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    bytes: usize,
    fragments: usize,
}

impl Passing {
    /// Whether the next byte begins a record.
    pub fn at_boundary(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the rest of the record that is passing, where its last fragment has begun (bytes).
    pub fn left_bytes(&self) -> Option<usize> {
        (self.in_fragment && self.last).then_some(self.left)
    }

    /// Returns the bytes that surely belong to the record that is passing.
    pub fn needed_bytes(&self) -> usize {
        match (self.in_fragment, self.last) {
            (true, true) => self.left,
            (true, false) => self.left + MARKER_BYTES,
            (false, _) => MARKER_BYTES - self.marker_bytes,
        }
    }

    /// Whether the record surely ends with the next so many bytes.
    pub fn is_last(&self, bytes: usize) -> bool {
        self.left_bytes() == Some(bytes)
    }

    /// Follows the next bytes of the stream; `ended` is called for every record that ends in them.
    pub fn follow(&mut self, mut bytes: &[u8], mut ended: impl FnMut(Passed)) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            let taken = if self.in_fragment { self.follow_fragment(bytes) } else { self.follow_marker(bytes)? };
            bytes = &bytes[taken..];
            self.bytes += taken;
            if self.in_fragment && self.left == 0 {
                self.in_fragment = false;
                if self.last {
                    ended(self.passed());
                    *self = Passing::default();
                }
            }
        }
        Ok(())
    }

    fn follow_marker(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let taken = bytes.len().min(MARKER_BYTES - self.marker_bytes);
        self.marker[self.marker_bytes..][..taken].copy_from_slice(&bytes[..taken]);
        self.marker_bytes += taken;
        if self.marker_bytes == MARKER_BYTES {
            (self.left, self.last) = marker(self.marker);
            (self.in_fragment, self.marker_bytes) = (true, 0);
            self.fragments += 1;
            if self.bytes + taken + self.left > MAX_RECORD_BYTES {
                return Err(TOO_LONG);
            }
            if self.fragments > MAX_FRAGMENTS {
                return Err(TOO_MANY);
            }
        }
        Ok(taken)
    }

    fn follow_fragment(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.left);
        let kept = taken.min(HEAD_BYTES - self.head_bytes);
        self.head[self.head_bytes..][..kept].copy_from_slice(&bytes[..kept]);
        self.head_bytes += kept;
        self.left -= taken;
        taken
    }

    fn passed(&self) -> Passed {
        let word = |at: usize| u32::from_be_bytes(self.head[at..at + 4].try_into().expect("four bytes"));
        Passed {
            xid: (self.head_bytes >= 4).then(|| word(0)),
            is_reply: self.head_bytes == HEAD_BYTES && word(4) == REPLY,
            bytes: self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(fragments: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (at, fragment) in fragments.iter().enumerate() {
            let last = if at + 1 == fragments.len() { LAST } else { 0 };
            bytes.extend_from_slice(&(fragment.len() as u32 | last).to_be_bytes());
            bytes.extend_from_slice(fragment);
        }
        bytes
    }

    fn queue() -> Vec<u8> {
        [
            record(&[&[0, 0, 0, 7, 0, 0, 0, 1, 9, 9]]),
            record(&[&[0, 0], &[], &[1, 0, 0, 0, 0], &[0, 5]]),
            record(&[&[]]),
            record(&[&[1, 2, 3, 4, 0, 0, 0]]),
        ]
        .concat()
    }

    fn passed(xid: Option<u32>, is_reply: bool, bytes: usize) -> Passed {
        Passed { xid, is_reply, bytes }
    }

    #[test]
    fn records_are_found_however_the_stream_is_cut() {
        let queue = queue();
        let expected = [
            passed(Some(7), true, 14),
            passed(Some(0x100), false, 25),
            passed(None, false, 4),
            passed(Some(0x01020304), false, 11),
        ];
        for piece in 1..=queue.len() {
            let (mut passing, mut found) = (Passing::default(), Vec::new());
            for bytes in queue.chunks(piece) {
                passing.follow(bytes, |record| found.push(record)).unwrap();
            }
            assert_eq!(found, expected, "pieces of {piece}");
            assert!(passing.at_boundary());
        }
    }

    #[test]
    fn the_extent_of_a_record_asks_only_for_what_surely_belongs_to_it() {
        let whole = record(&[&[1; 5], &[2; 3], &[]]);
        let mut had = 0;
        while let Extent::MoreThan(needed) = extent(&whole[..had]).unwrap() {
            assert!(needed > had && needed <= whole.len());
            had = needed;
        }
        assert_eq!(extent(&[&whole[..], &[9; 20]].concat()), Ok(Extent::Whole(whole.len())));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let mut passing = Passing::default();
        assert_eq!(extent(b"GET / HTTP/1.1\r\n"), Err(TOO_LONG));
        assert_eq!(passing.follow(b"GET / HTTP/1.1\r\n", |_| ()), Err(TOO_LONG));
        let empty = [0; 4 * (MAX_FRAGMENTS + 1)];
        assert_eq!(extent(&empty), Err(TOO_MANY));
        assert_eq!(Passing::default().follow(&empty, |_| ()), Err(TOO_MANY));
        let growing: Vec<u8> = (0..70).flat_map(|_| [&[0, 0x10, 0, 0][..], &[0; 1 << 20]].concat()).collect();
        assert_eq!(extent(&growing), Err(TOO_LONG));
        assert_eq!(Passing::default().follow(&growing, |_| ()), Err(TOO_LONG));
    }

    #[test]
    fn a_message_is_its_fragments_without_markers() {
        assert_eq!(&*message(&record(&[b"one"]), 100), b"one");
        assert!(matches!(message(&record(&[b"one"]), 100), Cow::Borrowed(_)));
        let three = record(&[b"on", b"", b"e and", b" two"]);
        assert_eq!(&*message(&three, 100), b"one and two");
        assert_eq!(&*message(&three, 4), b"one ");
        for cut in 0..three.len() {
            assert!(b"one and two".starts_with(&message(&three[..cut], 100)));
        }
    }
}
