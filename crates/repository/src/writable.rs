//! Whether a store can be written at all, checked before anything is tried: SQLite's error for a read-only directory is
//! "unable to open database file".

use std::path::{Path, PathBuf};

use format::Settings;
use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;

use crate::engines::{catalog_file, state_folder};
use crate::{Error, Result};

/// Refuses a store that this process may only read. Other errors are reported where they occur.
pub(crate) fn check_writable(path: &Path, settings: &Settings) -> Result<()> {
    let state = state_folder(path, settings);
    let folders = [path.to_owned(), path.join(store::CONTAINERS_FOLDER), state.clone()];
    let add = |known: &mut Vec<PathBuf>, address: PathBuf| {
        if !known.contains(&address) {
            known.push(address);
        }
    };
    let mut addresses = Vec::new();
    folders.into_iter().chain([catalog_file(path, settings)]).for_each(|address| add(&mut addresses, address));
    addresses.iter().try_for_each(|address| check_address(address))
}

fn check_address(address: &Path) -> Result<()> {
    let why = match rustix::fs::accessat(CWD, address, Access::WRITE_OK, AtFlags::EACCESS) {
        Err(Errno::ROFS) => "is on a read-only file system",
        Err(Errno::ACCESS | Errno::PERM) => "may not be written to by this user",
        _ => return Ok(()),
    };
    let why = format!("{why}; the store can be read (ls, get, stat, verify), and nothing in it changed");
    Err(Error::Refused { path: address.display().to_string(), why })
}
