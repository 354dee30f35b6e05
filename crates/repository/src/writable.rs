//! Whether a store can be written at all, asked before anything is tried: what SQLite says of a read-only directory is
//! "unable to open database file".

use std::path::{Path, PathBuf};

use format::Settings;
use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;

use crate::engines::{catalog_file, state_folder};
use crate::{Error, Result};

/// Refuses a store that this process may only read. Other troubles are met, and told, where they lie.
pub(crate) fn check_writable(path: &Path, settings: &Settings) -> Result<()> {
    let state = state_folder(path, settings);
    let folders = [path.to_owned(), path.join(store::CONTAINERS_FOLDER), state.clone()];
    let add = |known: &mut Vec<PathBuf>, place: PathBuf| {
        if !known.contains(&place) {
            known.push(place);
        }
    };
    let mut places = Vec::new();
    folders.into_iter().chain([catalog_file(path, settings)]).for_each(|place| add(&mut places, place));
    places.iter().try_for_each(|place| check_place(place))
}

fn check_place(place: &Path) -> Result<()> {
    let why = match rustix::fs::accessat(CWD, place, Access::WRITE_OK, AtFlags::EACCESS) {
        Err(Errno::ROFS) => "is on a read-only file system",
        Err(Errno::ACCESS | Errno::PERM) => "may not be written to by this user",
        _ => return Ok(()),
    };
    let why = format!("{why}; the store can be read (ls, get, stat, verify), and nothing in it changed");
    Err(Error::Refused { path: place.display().to_string(), why })
}
