//! Random bytes, for names that must differ: a store's id, a process's number.

use std::fs::File;
use std::io::Read;

use anyhow::Context;

pub fn random_bytes<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.context("/dev/urandom")?;
    Ok(bytes)
}
