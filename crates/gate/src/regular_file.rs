//! Files that users name for this process to read: configuration, certificates, keys. Links are followed, since
//! the name is the user's own; pipes and devices are refused, since one would be waited for, or read without end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// More is neither configuration nor a certificate.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Opens a regular file, without waiting for the other end of a pipe.
fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Reads all of a regular file of a reasonable length.
pub(crate) fn read_regular(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_regular(path)?.take(MAX_TEXT_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_TEXT_BYTES {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is longer than {MAX_TEXT_BYTES} bytes"))),
        false => Ok(text),
    }
}
