//! A file's path inside a store: bytes, normalised, never leaving the store.

use std::fmt;

use crate::{Error, Result};

/// `a/b/c`: no leading or doubled slash, no `.` or `..`, no NUL. The root is the empty path.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StorePath(Vec<u8>);

/// Longest path (bytes), as Linux has it.
const MAX_PATH_BYTES: usize = 4096;
/// How much of an invalid path a message about it shows (bytes): it may have come from a client.
const SHOWN_BYTES: usize = 256;

impl StorePath {
    /// Normalises a path as a user wrote it; `..` and NUL are refused.
    pub fn new(written: &[u8]) -> Result<Self> {
        let refuse = |why: &str| Err(Error::Corrupt { what: "path", why: format!("{} {why}", shown(written)) });
        if written.contains(&0) {
            return refuse("holds a NUL byte");
        }
        let mut path = Vec::with_capacity(written.len());
        for name in written.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => continue,
                b".." => return refuse("has a part `..`, which a path in a store may not have"),
                _ if path.is_empty() => path.extend_from_slice(name),
                _ => {
                    path.push(b'/');
                    path.extend_from_slice(name);
                }
            }
        }
        if path.len() > MAX_PATH_BYTES {
            return refuse("is longer than 4096 bytes");
        }
        Ok(StorePath(path))
    }

    pub fn root() -> Self {
        Self::default()
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the path of `name` below this one; `name` may itself have several parts.
    pub fn join(&self, name: &[u8]) -> Result<Self> {
        let mut path = self.0.clone();
        path.push(b'/');
        path.extend_from_slice(name);
        Self::new(&path)
    }

    pub fn name(&self) -> &[u8] {
        self.0.rsplit(|byte| *byte == b'/').next().unwrap_or(b"")
    }

    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let cut = self.0.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        Some(StorePath(self.0[..cut].to_vec()))
    }

    /// Returns whether `self` is `ancestor` or lies below it.
    pub fn is_within(&self, ancestor: &StorePath) -> bool {
        ancestor.is_root()
            || self.0 == ancestor.0
            || (self.0.starts_with(&ancestor.0) && self.0.get(ancestor.0.len()) == Some(&b'/'))
    }

    /// Returns the rest of `self` below `ancestor`, without a leading slash.
    pub fn below(&self, ancestor: &StorePath) -> Option<&[u8]> {
        if !self.is_within(ancestor) {
            return None;
        }
        let cut = if ancestor.is_root() || self.0 == ancestor.0 { ancestor.0.len() } else { ancestor.0.len() + 1 };
        Some(&self.0[cut..])
    }
}

/// Returns the text to show of a path; only its beginning, where it is longer than any path could be.
fn shown(written: &[u8]) -> String {
    let beginning = &written[..written.len().min(SHOWN_BYTES)];
    let rest = if beginning.len() < written.len() { " …" } else { "" };
    format!("{:?}{rest}", String::from_utf8_lossy(beginning))
}

impl fmt::Display for StorePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for StorePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> StorePath {
        StorePath::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn paths_are_normalised() {
        assert_eq!(path("//a/./b//c/"), path("a/b/c"));
        assert!(path("/").is_root());
        assert_eq!(path("a/b").name(), b"b");
        assert_eq!(path("a/b").parent(), Some(path("a")));
        assert_eq!(path("a").parent(), Some(StorePath::root()));
    }

    #[test]
    fn paths_that_leave_the_store_are_refused() {
        for text in ["..", "a/../b", "a/..", "a\0b"] {
            assert!(StorePath::new(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_refusal_shows_the_beginning_of_a_long_text() {
        let error = StorePath::new(&[b'\x1b'; 10 << 20]).unwrap_err().to_string();
        assert!(error.len() < 4096 && error.contains("longer than 4096 bytes"), "{} bytes", error.len());
    }

    #[test]
    fn ancestors_end_at_a_slash() {
        assert!(path("a/b").is_within(&path("a")));
        assert!(!path("ab").is_within(&path("a")));
        assert_eq!(path("a/b/c").below(&path("a")), Some(&b"b/c"[..]));
        assert_eq!(path("a").below(&StorePath::root()), Some(&b"a"[..]));
    }
}
