//! A cursor over bytes read from outside, and its counterpart for writing.
//!
//! Every layout of this crate is written through these two, so that bounds are checked in one place.

use crate::{Error, Result};

/// Reads little-endian fields from a slice; runs out with [`Error::Truncated`].
pub struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Makes a reader; `what` names the layout in errors.
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Reader { rest: bytes, what }
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        if count > self.rest.len() {
            return Err(Error::Truncated { what: self.what, needed: count, found: self.rest.len() });
        }
        let (head, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(head)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("take returned N bytes"))
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub fn bool(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => self.refuse(format!("{other} is neither 0 nor 1")),
        }
    }

    /// Reads a u32 length, then that many bytes.
    pub fn blob(&mut self) -> Result<&'a [u8]> {
        let count = self.u32()? as usize;
        self.take(count)
    }

    pub fn text(&mut self) -> Result<String> {
        let bytes = self.blob()?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => self.refuse("text is not UTF-8"),
        }
    }

    /// Reads a u32 count, then that many items; `item_bytes` is the least an item takes, so that a forged count cannot
    /// allocate more memory than the bytes at hand justify.
    pub fn list<T>(&mut self, item_bytes: usize, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.u32()? as usize;
        let needed = count.saturating_mul(item_bytes.max(1));
        if needed > self.rest.len() {
            return Err(Error::Truncated { what: self.what, needed, found: self.rest.len() });
        }
        (0..count).map(|_| item(self)).collect()
    }

    pub fn option<T>(&mut self, item: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.bool()? { item(self).map(Some) } else { Ok(None) }
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Checks that everything was read.
    pub fn end(self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        self.refuse(format!("{} bytes left over", self.rest.len()))
    }

    pub fn refuse<T>(&self, why: impl Into<String>) -> Result<T> {
        crate::corrupt(self.what, why)
    }
}

/// Appends little-endian fields to a buffer.
#[derive(Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.put(&[value])
    }

    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.u8(value as u8)
    }

    pub fn blob(&mut self, bytes: &[u8]) -> &mut Self {
        self.count(bytes.len()).put(bytes)
    }

    pub fn text(&mut self, text: &str) -> &mut Self {
        self.blob(text.as_bytes())
    }

    pub fn list<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) -> &mut Self {
        self.count(items.len());
        items.iter().for_each(|value| item(self, value));
        self
    }

    pub fn option<T>(&mut self, value: Option<&T>, item: impl FnOnce(&mut Self, &T)) -> &mut Self {
        self.bool(value.is_some());
        if let Some(value) = value {
            item(self, value);
        }
        self
    }

    fn count(&mut self, count: usize) -> &mut Self {
        self.u32(u32::try_from(count).expect("a list or blob of ours is below 4 Gi"))
    }

    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Returns what was written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}
