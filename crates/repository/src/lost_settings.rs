//! A store whose `store.toml` is lost: it is not taken for a directory without a store, and the error names the file's
//! settings, as far as the containers show them.

use std::fs::OpenOptions;
use std::io::Read;
use std::path::Path;

use format::{CONTAINER_HEADER_BYTES, ContainerHeader};
use store::files::open_ordinary;

use crate::Error;

/// Returns the error that says so, where containers of a store lie in the directory. `what` became of the file.
pub(crate) fn lost_settings(path: &Path, what: &str) -> Option<Error> {
    let header = first_header(path)?;
    let why = format!(
        "store.toml {what}, without which nothing opens, and containers of a store lie here; copy it back from a \
         backup. Without one, make a new store elsewhere with the choices this one was made with (`thalweg init --help`; \
         --fingerprint {}), write id = \"{}\" into its store.toml, and copy that file here",
        header.fingerprint, header.store
    );
    Some(Error::Refused { path: path.display().to_string(), why })
}

/// Of the first container that can be read.
fn first_header(path: &Path) -> Option<ContainerHeader> {
    let folders = std::fs::read_dir(path.join(store::CONTAINERS_FOLDER)).ok()?;
    let files = folders.flatten().filter_map(|folder| std::fs::read_dir(folder.path()).ok()).flatten().flatten();
    files.into_iter().find_map(|file| {
        let mut bytes = [0; CONTAINER_HEADER_BYTES];
        let mut opened = open_ordinary(&file.path(), OpenOptions::new().read(true)).ok()?;
        opened.read_exact(&mut bytes).ok()?;
        ContainerHeader::decode(&bytes).ok()
    })
}
