//! Random bytes, for names that must differ: a store's id, a process's number.

use std::fs::File;
use std::io::Read;

use crate::{Error, Result};

const SOURCE: &str = "/dev/urandom";

pub fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let read = File::open(SOURCE).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|source| Error::Io { path: SOURCE, source })?;
    Ok(bytes)
}
