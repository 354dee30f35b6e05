//! The arguments of `put`, made into pairs of a local path and a path in the store.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use format::StorePath;

use rustix::fs::CWD;

use super::excluding::{CACHE_TAG, Exclusions, is_cache_tag};
use crate::failure::misuse;
use crate::location::Location;
use crate::shown;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub from: PathBuf,
    pub target: StorePath,
}

impl Source {
    pub fn is_there(&self) -> bool {
        is_there(&self.from)
    }

    pub fn is_tree(&self) -> bool {
        self.from.symlink_metadata().is_ok_and(|found| found.is_dir())
    }
}

/// With a slash behind the place, or several sources, each keeps its own name below it; otherwise the place is
/// the one source's new name. A source without a name (`.`, `/`) gives its content.
pub fn plan(sources: &[OsString], to: &Location) -> anyhow::Result<Vec<Source>> {
    let into = to.into || sources.len() > 1;
    let planned = sources.iter().map(|source| place_one(Path::new(source), to, into));
    let planned: Vec<Source> = planned.collect::<anyhow::Result<_>>()?;
    without_clashes(planned, to)
}

/// Also true of a path whose error is reported later, when it is read.
fn is_there(from: &Path) -> bool {
    from.as_os_str() == "-" || from.symlink_metadata().is_ok()
}

/// Refuses what two sources would put under one name; one that was named twice is put once.
fn without_clashes(sources: Vec<Source>, to: &Location) -> anyhow::Result<Vec<Source>> {
    let mut kept: Vec<Source> = Vec::new();
    let mut by_target = HashMap::<StorePath, PathBuf>::new();
    for source in sources {
        match by_target.get(&source.target) {
            Some(other) if is_same(other, &source.from) => continue,
            Some(other) => clash(other, &source, to)?,
            None => drop(by_target.insert(source.target.clone(), source.from.clone())),
        }
        kept.push(source);
    }
    // Directories whose content goes where others put a name of their own.
    for source in &kept {
        let above = kept.iter().filter(|above| above.target != source.target && source.target.is_within(&above.target));
        for above in above {
            let below = source.target.below(&above.target).unwrap_or_default();
            let twin = above.from.join(OsStr::from_bytes(below));
            if is_there(&twin) && !is_same(&twin, &source.from) {
                clash(&twin, source, to)?;
            }
        }
    }
    Ok(kept)
}

fn clash(other: &Path, source: &Source, to: &Location) -> anyhow::Result<()> {
    let (other, from, target) = (shown::local(other), shown::local(&source.from), shown::path(&source.target));
    misuse!(SameTarget: "{other} and {from} would both be {}::{target}; nothing was put; put them to places of their own, one after the \
         other",
        to.store
    )
}

fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.symlink_metadata().ok().map(|found| (found.dev(), found.ino()));
    identity(one).is_some() && identity(one) == identity(other)
}

fn place_one(from: &Path, to: &Location, into: bool) -> anyhow::Result<Source> {
    if from.as_os_str() == "-" {
        if into {
            let slash = if to.path.is_root() { "" } else { "/" };
            misuse!("{to}: standard input needs a name of its own there, as in {to}{slash}NAME");
        }
        return Ok(Source { from: from.to_owned(), target: to.path.clone() });
    }
    // A missing one is reported beside the others, which are put.
    let is_directory = from.symlink_metadata().is_ok_and(|found| found.is_dir());
    let target = match own_name(from) {
        Some(name) if into => to.path.join(name)?,
        _ => to.path.clone(),
    };
    if target.is_root() && !is_directory && is_there(from) {
        misuse!("{}: needs a name in the store", shown::local(from));
    }
    Ok(Source { from: from.to_owned(), target })
}

/// Returns the last part of a path as written; none for `.`, `..` and `/`.
fn own_name(path: &Path) -> Option<&[u8]> {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/')? + 1;
    let name = bytes[..end].rsplit(|byte| *byte == b'/').next()?;
    (name != b"." && name != b"..").then_some(name)
}

/// Returns the bytes of all files below the sources, for the time left; none when `done` comes first.
pub fn total_bytes(sources: &[Source], exclusions: &Exclusions, done: &AtomicBool) -> Option<u64> {
    let mut total = 0;
    let mut pending: Vec<(&Source, PathBuf)> = sources.iter().map(|source| (source, source.from.clone())).collect();
    while let Some((source, path)) = pending.pop() {
        if done.load(Ordering::Relaxed) {
            return None;
        }
        // Errors are the walk's to report.
        let Ok(found) = path.symlink_metadata() else { continue };
        let below = path.strip_prefix(&source.from).unwrap_or(Path::new(""));
        if exclusions.has_pattern_for(below.as_os_str().as_bytes(), found.is_dir()) {
            continue;
        }
        if found.is_file() {
            total += found.len();
        } else if found.is_dir() && !is_passed_over(exclusions, &source.from, &path, &found) {
            let entries = path.read_dir().into_iter().flatten().flatten();
            pending.extend(entries.map(|entry| (source, entry.path())));
        }
    }
    Some(total)
}

/// Whether what lies in the directory is.
fn is_passed_over(exclusions: &Exclusions, source: &Path, directory: &Path, found: &Metadata) -> bool {
    let is_of_source = || source.metadata().is_ok_and(|source| source.dev() == found.dev());
    (exclusions.caches && is_cache_tag(CWD, directory.join(CACHE_TAG)))
        || (exclusions.one_file_system && !is_of_source())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(source: &str, to: &str) -> Option<StorePath> {
        let to = Location::parse(to.as_ref()).unwrap();
        plan(&[source.into()], &to).ok().map(|sources| sources[0].target.clone())
    }

    fn path(text: &str) -> Option<StorePath> {
        Some(StorePath::new(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_slash_means_into() {
        assert_eq!(target("/usr", "st::a/"), path("a/usr"));
        assert_eq!(target("/usr/", "st::"), path("usr"));
        assert_eq!(target("/usr", "st::a"), path("a"));
    }

    #[test]
    fn sources_without_a_name_give_their_content() {
        assert_eq!(target(".", "st::a/"), path("a"));
        assert_eq!(target("/usr/..", "st::a/"), path("a"));
        assert_eq!(target("/", "st::"), path(""));
    }

    #[test]
    fn a_file_and_standard_input_need_a_name() {
        assert_eq!(target("-", "st::a/"), None);
        assert_eq!(target("-", "st::a"), path("a"));
        assert_eq!(target("/dev/null", "st::"), path("null"));
        assert_eq!(target("/no/such/file", "st::a"), path("a"), "the error comes when it is read");
    }
}
