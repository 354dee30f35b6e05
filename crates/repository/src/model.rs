//! A store's own model for the choice of codecs: a file beside its settings, which `thalweg train` writes.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use format::MAX_MODEL_BYTES;

use store::files::{OpenMode, Permissions, open_ordinary};

use crate::engines::read_settings;
use crate::{Error, Result};

/// In a store's directory.
pub const MODEL_FILE: &str = "compression.model";

/// Gives the store at `path` a model, in place of the one it has; processes that open it from now on use it.
pub fn write_model(path: &Path, bytes: &[u8]) -> Result<()> {
    let settings = read_settings(path)?;
    let file = path.join(MODEL_FILE);
    // Of this process: two that train at once do not write into each other's.
    let draft = path.join(format!("{MODEL_FILE}.{}.new", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut to = Permissions::of(path, &settings).create_file(&draft, OpenMode::Emptied)?;
        to.write_all(bytes)?;
        to.sync_all()?;
        std::fs::rename(&draft, &file)?;
        File::open(path)?.sync_all()
    };
    write().map_err(|source| {
        // What went wrong is said; that the draft stays too would not help.
        let _ = std::fs::remove_file(&draft);
        Error::io(file.display(), source)
    })
}

/// Lets this process choose by the store's model, where it has one, and returns its bytes. The error says why it is of no use: then
/// the built-in one serves.
pub(crate) fn use_model_of(path: &Path) -> std::result::Result<Option<Vec<u8>>, String> {
    let file = path.join(MODEL_FILE);
    let read = open_ordinary(&file, OpenOptions::new().read(true)).and_then(|file| {
        let mut bytes = Vec::new();
        file.take(MAX_MODEL_BYTES as u64 + 1).read_to_end(&mut bytes).map(|_| bytes)
    });
    let refused = match read {
        Ok(bytes) => match segment::use_model(&bytes) {
            Ok(()) => return Ok(Some(bytes)),
            Err(error) => error.to_string(),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => error.to_string(),
    };
    Err(format!(
        "{}: {refused}; codecs are chosen by the built-in model; `thalweg train DATA --into {}` makes a new one",
        file.display(),
        path.display()
    ))
}
