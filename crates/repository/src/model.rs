//! A store's own model for the choice of codecs: a file beside its settings, which `thalweg train` writes.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use format::MAX_MODEL_BYTES;

use store::files::{OpenMode, Permissions, open_ordinary};

use crate::engines::read_settings;
use crate::{Error, Result};

/// In a store's directory.
pub const MODEL_FILE: &str = "compression.model";

/// Gives the store at `path` a model, in place of the one it has; processes that open it from now on use it, and
/// nodes that have it open soon.
pub fn write_model(path: &Path, bytes: &[u8]) -> Result<()> {
    let settings = read_settings(path)?;
    let file = path.join(MODEL_FILE);
    // Two that train at once do not write into each other's; in containers their processes may have the same number.
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let draft = path.join(format!("{MODEL_FILE}.{}-{begun}.new", std::process::id()));
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

/// The store's own model as this process has it.
#[derive(Default)]
pub(crate) struct StoreModel {
    /// The store's directory, where its model may be replaced; none where a node sent the model.
    directory: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Of the file that was read last, whether or not it was of use; not of one that could not be read.
    stamp: Option<Stamp>,
    /// The file's bytes; none where the built-in model serves.
    bytes: Option<Arc<[u8]>>,
    /// What was said last of one that could not be read.
    refused: Option<String>,
}

/// What another file under the name, or other content, differs in: number, length, and seconds and nanoseconds of the
/// last change.
type Stamp = (u64, u64, i64, i64);

/// What became of a store's model since it was read last.
#[derive(Debug, PartialEq, Eq)]
pub enum ModelChange {
    None,
    /// Another one is in use.
    Replaced,
    /// The built-in one is in use.
    Removed,
    /// The file is of no use, and the model read before stays in use. Why, and what to do.
    Refused(String),
}

impl StoreModel {
    /// Chooses by the model of the store at `directory`, where it has one. Where that is of no use, the built-in one
    /// serves, and what is returned says why.
    pub fn open(directory: &Path) -> (Self, Option<String>) {
        let model = StoreModel { directory: Some(directory.to_owned()), state: Mutex::default() };
        let refused = match model.reload() {
            ModelChange::Refused(why) => Some(why),
            _ => None,
        };
        (model, refused)
    }

    /// Chooses by a model that a node sent; one that is of no use here changes nothing.
    pub fn sent(bytes: Option<&[u8]>) -> Self {
        let bytes = bytes.filter(|bytes| segment::use_model(bytes).is_ok());
        let state = State { bytes: bytes.map(Arc::from), ..State::default() };
        StoreModel { directory: None, state: Mutex::new(state) }
    }

    pub fn bytes(&self) -> Option<Arc<[u8]>> {
        self.state().bytes.clone()
    }

    /// Reads the file if it is another one than at the last time. One thread at a time may call it.
    pub fn reload(&self) -> ModelChange {
        let Some(directory) = &self.directory else { return ModelChange::None };
        let file = directory.join(MODEL_FILE);
        // Before the file is read: one that takes its place meanwhile is read the next time.
        let stamp = match stamp(directory, &file) {
            Ok(stamp) if stamp != self.state().stamp => stamp,
            // A directory that cannot be reached says nothing of its model.
            _ => return ModelChange::None,
        };
        let read = read(&file);
        let mut state = self.state();
        // What could not be read is tried again.
        if read.is_ok() {
            (state.stamp, state.refused) = (stamp, None);
        }
        match state.take(read) {
            Ok(change) => change,
            Err(why) => {
                let why = refusal(directory, &why, state.bytes.is_some());
                state.refuse(why)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What was said before is not said again.
    fn refuse(&mut self, why: String) -> ModelChange {
        if self.refused.as_ref() == Some(&why) {
            return ModelChange::None;
        }
        self.refused = Some(why.clone());
        ModelChange::Refused(why)
    }

    /// Lets this process choose by what was read. The error says why it is of no use.
    fn take(&mut self, read: io::Result<Option<Vec<u8>>>) -> std::result::Result<ModelChange, String> {
        match read.map_err(|error| error.to_string())? {
            Some(bytes) if self.bytes.as_deref() == Some(&bytes[..]) => Ok(ModelChange::None),
            Some(bytes) => {
                segment::use_model(&bytes).map_err(|error| error.to_string())?;
                self.bytes = Some(bytes.into());
                Ok(ModelChange::Replaced)
            }
            None if self.bytes.take().is_none() => Ok(ModelChange::None),
            None => {
                segment::use_built_in_model();
                Ok(ModelChange::Removed)
            }
        }
    }
}

/// None where there is no such file in the directory.
fn stamp(directory: &Path, file: &Path) -> io::Result<Option<Stamp>> {
    std::fs::metadata(directory)?;
    match std::fs::symlink_metadata(file) {
        Ok(found) => Ok(Some((found.ino(), found.len(), found.ctime(), found.ctime_nsec()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// None where there is no such file.
fn read(file: &Path) -> io::Result<Option<Vec<u8>>> {
    let opened = match open_ordinary(file, OpenOptions::new().read(true)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    opened.take(MAX_MODEL_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

fn refusal(directory: &Path, why: &str, has_earlier: bool) -> String {
    let serving = if has_earlier { "the model read before" } else { "the built-in model" };
    format!(
        "{}: {why}; codecs are chosen by {serving}; `thalweg train DATA --into {}` makes a new one",
        directory.join(MODEL_FILE).display(),
        directory.display()
    )
}
