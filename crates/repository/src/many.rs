//! Many questions at once: look-ups and ranges of files, on a few threads.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use catalog::FileEntry;
use format::{StorePath, VersionRecord};

use crate::{FileReader, Repository, Result};

/// More than a few only wait for each other: for cores near a store, for connections far from it.
const THREADS: usize = 8;
/// A long range is read in such pieces (bytes): some blocks each, so that few are decoded for two.
const PIECE_BYTES: usize = 4 << 20;

impl Repository {
    /// Returns the entry of each name.
    pub fn entries(&self, paths: &[StorePath]) -> Vec<Result<Option<FileEntry>>> {
        side_by_side(paths, |path| Ok(self.catalog.entry(path)?))
    }

    /// Returns the bytes of each range, cut at its version's end.
    pub fn read_many(&self, wanted: &[(&VersionRecord, Range<u64>)]) -> Vec<Result<Vec<u8>>> {
        side_by_side(wanted, |(version, range)| {
            let end = range.end.min(version.size);
            let mut bytes = vec![0; end.saturating_sub(range.start) as usize];
            let count = self.reader(&version.root, version.size).read_at(range.start, &mut bytes)?;
            bytes.truncate(count);
            Ok(bytes)
        })
    }
}

impl FileReader<'_> {
    /// As `read_at`, on several threads where the range is long.
    pub fn read_at_side_by_side(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let starts = (offset..).step_by(PIECE_BYTES);
        let pieces: Vec<_> = starts.zip(into.chunks_mut(PIECE_BYTES).map(Mutex::new)).collect();
        let read = side_by_side(&pieces, |(start, piece)| {
            self.read_at(*start, &mut piece.lock().expect("each piece is one thread's"))
        });
        read.into_iter().sum()
    }
}

/// Does the work for each item, on up to [`THREADS`] threads; results in the order of the items.
fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let share = || {
        let mut done = Vec::new();
        while let Some((at, item)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, items.get(at)?)))
        {
            done.push((at, work(item)));
        }
        done
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..THREADS.min(items.len())).map(|_| scope.spawn(share)).collect();
        let mut done = share();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..1000).collect();
        assert_eq!(side_by_side(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert!(side_by_side(&[0; 0], |item: &i32| *item).is_empty());
    }
}
