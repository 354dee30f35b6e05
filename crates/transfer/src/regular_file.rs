//! Files that users name for this process to read: configuration, certificates, keys, secrets. Links are followed,
//! since the name is the user's own; pipes and devices are refused: opening or reading one might never end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A longer file is neither configuration nor a certificate (bytes).
pub(crate) const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Opens a regular file, without waiting for the other end of a pipe.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Reads a whole regular file of a reasonable length.
pub fn read_regular(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_regular(path)?.take(MAX_TEXT_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_TEXT_BYTES {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is longer than {MAX_TEXT_BYTES} bytes"))),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_devices_and_endless_files_are_refused_at_once() {
        let folder = std::env::temp_dir().join(format!("thalweg-regular-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (pipe, file, link, long) =
            (folder.join("pipe"), folder.join("file"), folder.join("link"), folder.join("long"));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        std::fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        File::create(&long).unwrap().set_len(1 << 40).unwrap();
        for refused in [&pipe, Path::new("/dev/zero"), &folder, &long] {
            assert!(read_regular(refused).is_err(), "{}", refused.display());
        }
        assert_eq!(read_regular(&file).unwrap() + &read_regular(&link).unwrap(), "texttext");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
