//! What goes where: the arguments of `put`, made into pairs of a local path and a path in the store.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use format::StorePath;

use crate::failure::misuse;
use crate::place::Place;
use crate::shown;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub from: PathBuf,
    pub target: StorePath,
}

/// With a slash behind the place, or several sources, each keeps its own name below it; otherwise the place is
/// the one source's new name. A source without a name (`.`, `/`) gives its content.
pub fn plan(sources: &[OsString], to: &Place) -> anyhow::Result<Vec<Source>> {
    let into = to.into || sources.len() > 1;
    sources.iter().map(|source| place_one(Path::new(source), to, into)).collect()
}

fn place_one(from: &Path, to: &Place, into: bool) -> anyhow::Result<Source> {
    if from.as_os_str() == "-" {
        if into {
            let slash = if to.path.is_root() { "" } else { "/" };
            misuse!("{to}: standard input needs a name of its own there, as in {to}{slash}NAME");
        }
        return Ok(Source { from: from.to_owned(), target: to.path.clone() });
    }
    let found = from.symlink_metadata().with_context(|| shown::local(from))?;
    let target = match own_name(from) {
        Some(name) if into => to.path.join(name)?,
        _ => to.path.clone(),
    };
    if target.is_root() && !found.is_dir() {
        misuse!("{}: needs a name in the store", shown::local(from));
    }
    Ok(Source { from: from.to_owned(), target })
}

/// The last part of a path as written; none for `.`, `..` and `/`.
fn own_name(path: &Path) -> Option<&[u8]> {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/')? + 1;
    let name = bytes[..end].rsplit(|byte| *byte == b'/').next()?;
    (name != b"." && name != b"..").then_some(name)
}

/// Bytes of all files below the sources, for the time left; none when `done` comes first.
pub fn total_bytes(sources: &[Source], done: &AtomicBool) -> Option<u64> {
    let mut total = 0;
    let mut pending: Vec<PathBuf> = sources.iter().map(|source| source.from.clone()).collect();
    while let Some(path) = pending.pop() {
        if done.load(Ordering::Relaxed) {
            return None;
        }
        // What cannot be looked at is the walk's to report.
        let Ok(found) = path.symlink_metadata() else { continue };
        if found.is_file() {
            total += found.len();
        } else if found.is_dir() {
            let entries = path.read_dir().into_iter().flatten().flatten();
            pending.extend(entries.map(|entry| entry.path()));
        }
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(source: &str, to: &str) -> Option<StorePath> {
        let to = Place::parse(to.as_ref()).unwrap();
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
        assert_eq!(target("/no/such/file", "st::a"), None);
    }
}
