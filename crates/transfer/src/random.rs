//! Unguessable numbers, for what must differ: a process, a store, a key.

use std::fs::File;
use std::io::Read;

use format::ErrorCode;

use crate::{Error, Result};

/// Returns an unguessable number by which a process's nodes know it.
pub fn random_number() -> Result<u64> {
    random_bytes().map(u64::from_le_bytes)
}

/// Returns unguessable bytes.
pub fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|error| Error::Refused(ErrorCode::SystemError, format!("/dev/urandom: {error}")))
}
