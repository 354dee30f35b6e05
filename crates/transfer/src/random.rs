//! Numbers that no two processes share.

use std::fs::File;
use std::io::Read;

use crate::{Error, Result};

/// A number for a process by which its nodes know it: nobody can guess it.
pub fn random_number() -> Result<u64> {
    random_bytes().map(u64::from_le_bytes)
}

/// Bytes that nobody can guess.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|error| Error::Refused(format!("/dev/urandom: {error}")))
}
