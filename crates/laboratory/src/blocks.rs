//! Draws blocks from files and folders: evenly, and of each file at least one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use segment::BLOCK_BYTES;

/// Shorter files say little of how codecs do (bytes).
const MIN_BYTES: u64 = 4096;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub path: PathBuf,
    pub offset: u64,
    pub bytes: usize,
}

impl Block {
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut raw = vec![0; self.bytes];
        File::open(&self.path)?.read_exact_at(&mut raw, self.offset)?;
        Ok(raw)
    }
}

/// Blocks of files.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    files: Vec<(PathBuf, u64)>,
}

impl Blocks {
    /// Finds the regular files below a path, or the one there; symbolic links within are not followed.
    pub fn add(&mut self, path: &Path) -> io::Result<()> {
        let kind = std::fs::metadata(path)?;
        if !kind.is_dir() {
            return self.add_file(path, kind.len());
        }
        let mut entries = std::fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.add(&entry.path())?;
            } else if kind.is_file() {
                self.add_file(&entry.path(), entry.metadata()?.len())?;
            }
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path, bytes: u64) -> io::Result<()> {
        if bytes >= MIN_BYTES {
            self.files.push((path.to_owned(), bytes));
        }
        Ok(())
    }

    /// Returns about `wanted` of the blocks, of each file in proportion to its length and one at least, in order.
    pub fn draw(&self, wanted: usize) -> Vec<Block> {
        let total: u64 = self.files.iter().map(|(_, bytes)| bytes).sum();
        let of_file = |(path, bytes): &(PathBuf, u64)| {
            let whole = bytes.div_ceil(BLOCK_BYTES as u64);
            let count = (wanted as u64 * bytes / total.max(1)).clamp(1, whole);
            let block = |number: u64| {
                let offset = (number * whole / count + whole / count / 2) * BLOCK_BYTES as u64;
                Block { path: path.clone(), offset, bytes: (bytes - offset).min(BLOCK_BYTES as u64) as usize }
            };
            (0..count).map(block).collect::<Vec<_>>()
        };
        self.files.iter().flat_map(of_file).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_drawn_evenly_and_of_each_file() {
        let folder = tempfile::tempdir().unwrap();
        let blocks = BLOCK_BYTES as u64;
        for (name, bytes) in [("long", blocks * 20 + 5), ("short", 5000), ("tiny", 10)] {
            File::create(folder.path().join(name)).unwrap().set_len(bytes).unwrap();
        }
        let mut found = Blocks::default();
        found.add(folder.path()).unwrap();
        for wanted in [1, 5, 21, 1000] {
            let drawn = found.draw(wanted);
            assert!(drawn.iter().any(|block| block.path.ends_with("short")), "{drawn:?}");
            let long: Vec<&Block> = drawn.iter().filter(|block| block.path.ends_with("long")).collect();
            assert!((1..=21).contains(&long.len()) && long.len() <= wanted, "{wanted}: {}", long.len());
            assert!(long.windows(2).all(|pair| pair[0].offset < pair[1].offset));
            assert!(drawn.iter().all(|block| block.read().is_ok() && block.bytes > 0));
        }
        assert_eq!(found.draw(1000).len(), 22);
    }
}
