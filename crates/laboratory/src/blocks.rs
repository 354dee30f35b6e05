//! Draws blocks from files and folders: evenly, and of each file at least one.

use std::io;
use std::path::{Path, PathBuf};

use segment::BLOCK_BYTES;

/// Shorter files say little of how codecs do (bytes).
const MIN_BYTES: u64 = 4096;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<F> {
    pub file: F,
    pub offset: u64,
    pub bytes: usize,
}

/// Blocks of files, whatever these are to who reads them.
#[derive(Clone, Debug)]
pub struct Blocks<F> {
    files: Vec<(F, u64)>,
}

impl<F> Default for Blocks<F> {
    fn default() -> Self {
        Blocks { files: Vec::new() }
    }
}

impl<F: From<PathBuf>> Blocks<F> {
    /// Finds the regular files below a local path, or the one there; symbolic links within are not followed.
    pub fn add(&mut self, path: &Path) -> io::Result<()> {
        let kind = std::fs::metadata(path)?;
        if !kind.is_dir() {
            self.add_file(path.to_owned().into(), kind.len());
            return Ok(());
        }
        let mut entries = std::fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.add(&entry.path())?;
            } else if kind.is_file() {
                self.add_file(entry.path().into(), entry.metadata()?.len());
            }
        }
        Ok(())
    }
}

impl<F: Clone> Blocks<F> {
    /// Returns about `wanted` of the blocks, of each file in proportion to its length and one at least, in order.
    pub fn draw(&self, wanted: usize) -> Vec<Block<F>> {
        let total: u64 = self.files.iter().map(|(_, bytes)| bytes).sum();
        let of_file = |(file, bytes): &(F, u64)| {
            let whole = bytes.div_ceil(BLOCK_BYTES as u64);
            let count = (wanted as u64 * bytes / total.max(1)).clamp(1, whole);
            let block = |number: u64| {
                let offset = (number * whole / count + whole / count / 2) * BLOCK_BYTES as u64;
                Block { file: file.clone(), offset, bytes: (bytes - offset).min(BLOCK_BYTES as u64) as usize }
            };
            (0..count).map(block).collect::<Vec<_>>()
        };
        self.files.iter().flat_map(of_file).collect()
    }
}

impl<F> Blocks<F> {
    /// Adds a file of so many bytes, unless it is too short to say much.
    pub fn add_file(&mut self, file: F, bytes: u64) {
        if bytes >= MIN_BYTES {
            self.files.push((file, bytes));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn blocks_are_drawn_evenly_and_of_each_file() {
        let folder = tempfile::tempdir().unwrap();
        let blocks = BLOCK_BYTES as u64;
        for (name, bytes) in [("long", blocks * 20 + 5), ("short", 5000), ("tiny", 10)] {
            File::create(folder.path().join(name)).unwrap().set_len(bytes).unwrap();
        }
        let mut found = Blocks::<PathBuf>::default();
        found.add(folder.path()).unwrap();
        for wanted in [1, 5, 21, 1000] {
            let drawn = found.draw(wanted);
            assert!(drawn.iter().any(|block| block.file.ends_with("short")), "{drawn:?}");
            let long: Vec<_> = drawn.iter().filter(|block| block.file.ends_with("long")).collect();
            assert!((1..=21).contains(&long.len()) && long.len() <= wanted, "{wanted}: {}", long.len());
            assert!(long.windows(2).all(|pair| pair[0].offset < pair[1].offset));
            let is_within = |block: &Block<PathBuf>| {
                let bytes = block.file.metadata().unwrap().len();
                block.bytes > 0 && block.offset + block.bytes as u64 <= bytes
            };
            assert!(drawn.iter().all(is_within));
        }
        assert_eq!(found.draw(1000).len(), 22);
    }
}
