//! Numbers that no two processes share.

use std::fs::File;
use std::io::Read;

use crate::{Error, Result};

pub(crate) fn random_number() -> Result<u64> {
    let mut bytes = [0; 8];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.map(|()| u64::from_le_bytes(bytes)).map_err(|error| Error::Refused(format!("/dev/urandom: {error}")))
}
