//! Where the paths below a directory lie among all paths in byte order.
//!
//! Below `a` is everything from `a/` up to, not including, `a0` (`0` is the byte after `/`); siblings such as
//! `a-b` sort in between `a` and `a/`, so a directory does not stand next to what it holds.

use format::StorePath;

/// Longest path (bytes), as [`StorePath`] has it.
pub(crate) const MAX_PATH_BYTES: usize = 4096;

/// Returns the bounds of all paths below `path`, itself not included: from the first on, before the second.
pub(crate) fn bounds(path: &StorePath) -> (Vec<u8>, Vec<u8>) {
    if path.is_root() {
        return (vec![0], vec![0xff; MAX_PATH_BYTES + 1]);
    }
    ([path.as_bytes(), b"/"].concat(), end(path.as_bytes()))
}

/// Returns the first possible path after all those below `path`.
pub(crate) fn end(path: &[u8]) -> Vec<u8> {
    [path, b"0"].concat()
}

/// Returns the first possible path after `path`.
pub(crate) fn successor(path: &StorePath) -> Vec<u8> {
    [path.as_bytes(), b"\0"].concat()
}

/// Returns where the name directly below `directory` ends in `path`, if `path` lies deeper than that.
pub(crate) fn child_end(directory: &StorePath, path: &[u8]) -> Option<usize> {
    let start = if directory.is_root() { 0 } else { directory.as_bytes().len() + 1 };
    path.get(start..)?.iter().position(|byte| *byte == b'/').map(|slash| start + slash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_exactly_what_lies_below() {
        let directory = StorePath::new(b"a/b").unwrap();
        let (from, to) = bounds(&directory);
        for text in ["a", "a/b", "a/b-c", "a/b.c", "a/b/c", "a/b/c/d", "a/b0", "a/bc", "b"] {
            let path = StorePath::new(text.as_bytes()).unwrap();
            let below = path.is_within(&directory) && path != directory;
            let found = from.as_slice() <= path.as_bytes() && path.as_bytes() < to.as_slice();
            assert_eq!(found, below, "{text}");
        }
    }

    #[test]
    fn deeper_paths_name_the_child_they_lie_in() {
        let directory = StorePath::new(b"a").unwrap();
        assert_eq!(child_end(&directory, b"a/b"), None);
        assert_eq!(child_end(&directory, b"a/b/c/d"), Some(3));
        assert_eq!(child_end(&StorePath::root(), b"a/b"), Some(1));
    }
}
