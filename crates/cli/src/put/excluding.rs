//! The exclusions of a put: names by patterns, caches, other file systems.

use std::os::fd::AsFd;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::path::Arg;

use crate::name_patterns::{NamePattern, PatternFile};

/// A directory that has a regular file of this name, with [`CACHE_SIGNATURE`] at its beginning, is a cache
/// (<https://bford.info/cachedir/>).
pub const CACHE_TAG: &str = "CACHEDIR.TAG";
const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
const OPEN_TAG: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

#[derive(Clone, Debug, Default)]
pub struct Exclusions {
    pub patterns: Vec<NamePattern>,
    pub files: Vec<PatternFile>,
    /// Of a cache only the directory and its tag are put.
    pub caches: bool,
    /// Of a directory on another file system than its source, only the directory is put.
    pub one_file_system: bool,
}

impl Exclusions {
    /// Whether any pattern is about this path below a source.
    pub fn has_pattern_for(&self, path: &[u8], is_directory: bool) -> bool {
        if path.is_empty() || (self.patterns.is_empty() && self.files.is_empty()) {
            return false;
        }
        let path = String::from_utf8_lossy(path);
        let by_option = self.patterns.iter().any(|pattern| pattern.matches(&path, is_directory));
        by_option || self.files.iter().any(|file| file.matches(&path, is_directory))
    }
}

/// Whether a file, from this directory on, tags its directory as a cache. One that cannot be read tags nothing.
pub fn is_cache_tag(directory: impl AsFd, tag: impl Arg) -> bool {
    let read = || {
        let file = rustix::fs::openat(directory, tag, OPEN_TAG, Mode::empty())?;
        let mut begin = [0; CACHE_SIGNATURE.len()];
        let is_file = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) == FileType::RegularFile;
        let read = if is_file { rustix::io::pread(&file, &mut begin, 0)? } else { 0 };
        rustix::io::Result::Ok(&begin[..read] == CACHE_SIGNATURE)
    };
    read().unwrap_or(false)
}
