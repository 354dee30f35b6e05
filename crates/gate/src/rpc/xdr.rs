//! Reads XDR (RFC 4506): big-endian words, opaque bytes padded to four. Gives none where the bytes end too soon.

pub struct Xdr<'a> {
    left: &'a [u8],
}

impl<'a> Xdr<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Xdr { left: bytes }
    }

    pub fn word(&mut self) -> Option<u32> {
        let (head, rest) = self.left.split_first_chunk()?;
        self.left = rest;
        Some(u32::from_be_bytes(*head))
    }

    /// Reads bytes of a length that both sides know, and their padding.
    pub fn fixed(&mut self, length: usize) -> Option<&'a [u8]> {
        let padded = length.checked_next_multiple_of(4)?;
        let (head, rest) = self.left.split_at_checked(padded)?;
        self.left = rest;
        Some(&head[..length])
    }

    /// Reads bytes after their length, which may be `limit` at most.
    pub fn opaque(&mut self, limit: usize) -> Option<&'a [u8]> {
        let length = self.word()? as usize;
        if length <= limit { self.fixed(length) } else { None }
    }

    pub fn rest(self) -> &'a [u8] {
        self.left
    }
}
