//! A tree as plain data, for comparing: everything `put` keeps, read by other means than its own.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Node {
    pub mode: u32,
    pub owner: (u32, u32),
    /// Seconds and nanoseconds.
    pub modified: (i64, i64),
    pub content: Content,
    pub extended: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The first name of the same file, in order of names.
    pub same_as: Option<PathBuf>,
}

#[derive(PartialEq, Eq, Clone)]
pub enum Content {
    /// With the ranges that are data, not holes.
    File(Vec<u8>, Vec<(u64, u64)>),
    Directory,
    Symlink(PathBuf),
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Content::File(bytes, data) => write!(f, "{} bytes (data {data:?})", bytes.len()),
            Content::Directory => f.write_str("directory"),
            Content::Symlink(target) => write!(f, "-> {target:?}"),
        }
    }
}

pub type Tree = BTreeMap<PathBuf, Node>;

pub fn snapshot(root: &Path) -> Tree {
    let mut tree = Tree::new();
    visit(root, PathBuf::new(), &mut tree);
    let mut first: HashMap<(u64, u64), PathBuf> = HashMap::new();
    for (path, node) in &mut tree {
        let found = root.join(path).symlink_metadata().expect("it was there");
        if found.nlink() > 1 && !found.is_dir() {
            let known = first.entry((found.dev(), found.ino())).or_insert_with(|| path.clone());
            node.same_as = Some(known.clone());
        }
    }
    tree
}

fn visit(root: &Path, path: PathBuf, tree: &mut Tree) {
    let full = if path.as_os_str().is_empty() { root.to_owned() } else { root.join(&path) };
    let found = full.symlink_metadata().unwrap_or_else(|error| panic!("{full:?}: {error}"));
    let content = if found.is_dir() {
        for entry in full.read_dir().expect("a directory can be read").map(Result::unwrap) {
            visit(root, path.join(entry.file_name()), tree);
        }
        Content::Directory
    } else if found.is_symlink() {
        Content::Symlink(full.read_link().unwrap())
    } else if found.is_file() {
        Content::File(fs::read(&full).unwrap(), data_ranges(&full, found.len()))
    } else {
        return;
    };
    let extended = xattr::list(&full).unwrap().map(|name| {
        let value = xattr::get(&full, &name).unwrap().unwrap_or_default();
        (name.into_encoded_bytes(), value)
    });
    let node = Node {
        mode: found.mode() & 0o7777,
        owner: (found.uid(), found.gid()),
        modified: (found.mtime(), found.mtime_nsec()),
        content,
        extended: extended.collect(),
        same_as: None,
    };
    tree.insert(path, node);
}

fn data_ranges(path: &Path, size: u64) -> Vec<(u64, u64)> {
    let mut file = fs::File::open(path).unwrap();
    let seek = |file: &fs::File, offset: u64, whence| {
        // SAFETY: a plain call on a descriptor that is open.
        unsafe { libc::lseek(file.as_raw_fd(), offset as i64, whence) }
    };
    let mut ranges = Vec::new();
    let mut offset = 0;
    while offset < size {
        let start = seek(&file, offset, libc::SEEK_DATA);
        if start < 0 {
            break;
        }
        let end = seek(&file, start as u64, libc::SEEK_HOLE);
        ranges.push((start as u64, end as u64));
        offset = end as u64;
    }
    file.seek(SeekFrom::Start(0)).unwrap();
    ranges
}

#[track_caller]
pub fn assert_same(expected: &Tree, found: &Tree) {
    for (path, node) in expected {
        match found.get(path) {
            Some(other) => assert_eq!(node, other, "{path:?} differs"),
            None => panic!("{path:?} is missing"),
        }
    }
    for path in found.keys() {
        assert!(expected.contains_key(path), "{path:?} is too much");
    }
}
