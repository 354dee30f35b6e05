//! What stands in a command's directory before and after it: its inputs and programs unchanged, its outputs, and nothing
//! else.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Others that an error names.
const MAX_NAMED: usize = 5;

/// The names below a directory, directories too.
pub struct Names(BTreeMap<Vec<u8>, State>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Directory,
    Regular(Stamp),
    /// A link, or another file that has no content of its own.
    Other(Stamp),
}

/// What changes when a file does.
type Stamp = (u64, u64, (i64, i64), (i64, i64));

impl Names {
    pub fn below(directory: &Path) -> Result<Self> {
        let mut names = Names(BTreeMap::new());
        names.add(directory, &mut Vec::new())?;
        Ok(names)
    }

    fn add(&mut self, directory: &Path, prefix: &mut Vec<u8>) -> Result<()> {
        let failed = |error| Error::io(directory, error);
        for entry in fs::read_dir(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let before = prefix.len();
            prefix.extend_from_slice(entry.file_name().as_bytes());
            let found = fs::symlink_metadata(entry.path()).map_err(|error| Error::io(&entry.path(), error))?;
            self.0.insert(prefix.clone(), state(&found));
            if found.is_dir() {
                prefix.push(b'/');
                self.add(&entry.path(), prefix)?;
            }
            prefix.truncate(before);
        }
        Ok(())
    }

    /// Refuses a later state in which one of these files is not what it was.
    pub fn check_unchanged(&self, after: &Names) -> Result<()> {
        let files = self.0.iter().filter(|(_, state)| **state != State::Directory);
        let changed = files.filter(|(name, state)| after.0.get(*name) != Some(state)).map(|(name, _)| name);
        match shown(changed) {
            Some(names) => Err(Error::Command(format!(
                "the command changed {names}, which it was given to read; copy what is to be changed to another name"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses files that were not there before and are no outputs.
    pub fn check_others(&self, before: &Names, outputs: &BTreeSet<&[u8]>) -> Result<()> {
        let new = self.0.iter().filter(|(name, state)| **state != State::Directory && !before.0.contains_key(*name));
        match shown(new.map(|(name, _)| name).filter(|name| !outputs.contains(&name[..]))) {
            Some(names) => Err(Error::Command(format!(
                "the command left {names}, which is no output; name it as one, write it to $TMPDIR, or allow such files \
                 (--ignore-others)"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses a later state of the same files: something is still at work there.
    pub fn check_still(&self, later: &Names) -> Result<()> {
        match shown(self.0.iter().filter(|(name, state)| later.0.get(*name) != Some(state)).map(|(name, _)| name)) {
            Some(names) => Err(Error::Command(format!(
                "{names} changed after the command had ended: something that it started still writes there"
            ))),
            None => Ok(()),
        }
    }

    pub fn is_there(&self, name: &[u8]) -> bool {
        self.0.contains_key(name)
    }

    pub fn is_directory(&self, name: &[u8]) -> bool {
        self.0.get(name) == Some(&State::Directory)
    }

    pub fn is_regular(&self, name: &[u8]) -> bool {
        matches!(self.0.get(name), Some(State::Regular(_)))
    }

    /// Returns the regular files.
    pub fn regular(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter(|(_, state)| matches!(state, State::Regular(_))).map(|(name, _)| &name[..])
    }

    /// Returns the regular files below a directory.
    pub fn regular_below<'a>(&'a self, directory: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.regular().filter(move |name| name.strip_prefix(directory).is_some_and(|rest| rest.starts_with(b"/")))
    }
}

fn state(found: &fs::Metadata) -> State {
    let changed = (found.ctime(), found.ctime_nsec());
    let stamp = (found.ino(), found.size(), (found.mtime(), found.mtime_nsec()), changed);
    match (found.is_dir(), found.is_file()) {
        (true, _) => State::Directory,
        (_, true) => State::Regular(stamp),
        _ => State::Other(stamp),
    }
}

fn shown<'a>(names: impl Iterator<Item = &'a Vec<u8>>) -> Option<String> {
    let names: Vec<_> = names.collect();
    let first: Vec<_> = names.iter().take(MAX_NAMED).map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    match names.len().saturating_sub(MAX_NAMED) {
        0 if names.is_empty() => None,
        0 => Some(first.join(", ")),
        more => Some(format!("{} and {more} more", first.join(", "))),
    }
}

/// Returns where a name stands in a directory.
pub fn place(directory: &Path, name: &[u8]) -> PathBuf {
    directory.join(OsStr::from_bytes(name))
}

/// Makes the directories above a file.
pub fn make_above(path: &Path) -> Result<()> {
    make_directory(path.parent().unwrap_or(Path::new("/")))
}

/// Makes a directory, and those above it.
pub fn make_directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| Error::io(path, error))
}
