//! Content of a far store, fetched before it is asked for: several stretches of a file at once, a few files at once.
//!
//! What is fetched waits, decoded, among the blocks that are kept a while ([`crate::blocks`]). Reading is as ever: it finds
//! them there, or fetches what is missing, and it alone meets the errors.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::Builder;

use catalog::FileEntry;
use format::{EntryKind, Run};

use crate::read::{FileReader, Piece, side_by_side};
use crate::tree::entries_in;
use crate::{Repository, Result};

/// Fetched at once by one thread, over a connection of its own (bytes of content): long enough for TCP to become fast, and
/// that few blocks lie in two of them.
const STRETCH_BYTES: u64 = 4 << 20;
/// Fetched ahead of all readers of long ranges together (bytes), but a stretch by each: half of what is kept decoded.
const AHEAD_BYTES: u64 = 32 << 20;

/// Over which little is fetched that nothing else is fetched beside: each connection begins slowly.
const CONNECTIONS_OF_FEW: usize = 4;

/// Segments of a joined run at most: as many of 8 KiB are a stretch.
const MAX_SEGMENTS: u32 = (STRETCH_BYTES / (8 << 10)) as u32;
/// Runs whose segments are longer than this are not fetched ahead (bytes): one would be fetched for several stretches.
const MAX_SEGMENT_BYTES: u64 = 256 << 10;

/// Counts a reader while it lives.
struct Counted<'a>(&'a AtomicU64);

impl<'a> Counted<'a> {
    fn begin(readers: &'a AtomicU64) -> Self {
        readers.fetch_add(1, Ordering::Relaxed);
        Counted(readers)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns what each of so many readers may have fetched ahead of what it has read.
fn share_bytes(readers: &AtomicU64) -> u64 {
    (AHEAD_BYTES / readers.load(Ordering::Relaxed).max(1)).max(STRETCH_BYTES)
}

impl Repository {
    /// Returns whether answers of the store are long under way.
    pub fn is_far(&self) -> bool {
        self.round_trip() >= store::FAR
    }

    /// Fetches the content of small files that are read soon, 4 MiB at most, if the store is far: neighbours share blocks, and
    /// one answer brings what each would ask for by itself. Ends early once it is not `wanted` any more.
    pub fn fetch_ahead<'a>(&self, files: impl Iterator<Item = &'a FileEntry>, is_wanted: impl Fn() -> bool + Sync) {
        if !self.is_far() {
            return;
        }
        let (mut runs, mut bytes) = (Vec::new(), 0);
        for head in files.filter_map(|file| file.head.as_ref()) {
            if head.record.size > STRETCH_BYTES - bytes {
                continue;
            }
            bytes += head.record.size;
            let whole = 0..head.record.size;
            // Whoever reads the file meets the error.
            let _ = self.runs_of_stretch(&self.version_reader(&head.record), &whole, &whole, &mut runs);
        }
        self.fetch_runs(runs, CONNECTIONS_OF_FEW, is_wanted);
    }

    /// Fetches runs over so many connections, each of which brings one run after another without waiting in between. Blocks
    /// that were put over several connections at once lie in the order in which they came.
    fn fetch_runs(&self, mut runs: Vec<Run>, connections: usize, is_wanted: impl Fn() -> bool + Sync) {
        runs.sort_unstable_by_key(|run| (run.container, run.first));
        runs.dedup();
        let runs = joined(runs);
        let shares: Vec<_> = runs.chunks(runs.len().div_ceil(connections).max(1)).collect();
        side_by_side(&shares, |share| self.cache.fetch(&*self.store, self.settings.fingerprint, share, &is_wanted));
    }

    /// Adds the runs that bring a stretch of what is read, in order. One that began before the stretch came with what is
    /// before; of a long one, and of one that is not read to its ends, only the segments are taken that are read.
    fn runs_of_stretch(
        &self,
        reader: &FileReader,
        stretch: &Range<u64>,
        read: &Range<u64>,
        runs: &mut Vec<Run>,
    ) -> Result<()> {
        entries_in(self, reader.root, stretch.clone(), &mut |offset, entry| {
            let EntryKind::Data { run, skip, digest } = entry.kind else { return Ok(()) };
            let part_in = |range: &Range<u64>| range.start.saturating_sub(offset)..entry.length.min(range.end - offset);
            let skip = u64::from(skip);
            let bytes = skip.saturating_add(entry.length);
            if bytes / u64::from(run.count.max(1)) > MAX_SEGMENT_BYTES {
                return Ok(());
            }
            let is_short = bytes <= STRETCH_BYTES && run.count <= MAX_SEGMENTS;
            if is_short && offset < stretch.start && stretch.start > read.start {
                return Ok(());
            }
            let part = part_in(if is_short { read } else { stretch });
            runs.extend(match is_short && part == (0..entry.length) {
                true => Some(run),
                false => self.part_of_run(run, &digest, skip + part.start..skip + part.end)?,
            });
            Ok(())
        })
    }

    /// Returns the segments that hold these bytes of a run.
    fn part_of_run(&self, run: Run, digest: &[u8; 32], wanted: Range<u64>) -> Result<Option<Run>> {
        let segments = self.checked_run(run, digest)?;
        let held = segments.holding(&wanted);
        Ok(held.map(|(entries, first, _)| Run { first: run.first + first as u32, count: entries.len() as u32, ..run }))
    }
}

/// Joins runs that follow each other, up to what travels at once.
fn joined(runs: Vec<Run>) -> Vec<Run> {
    let mut joined: Vec<Run> = Vec::new();
    for run in runs {
        match joined.last_mut() {
            Some(last)
                if last.container == run.container
                    && last.first + last.count == run.first
                    && last.count + run.count <= MAX_SEGMENTS =>
            {
                last.count += run.count;
            }
            _ => joined.push(run),
        }
    }
    joined
}

impl FileReader<'_> {
    /// As [`FileReader::pieces`], with up to as many threads fetching what comes next as stretches fit ahead.
    pub(crate) fn pieces_ahead(&self, range: Range<u64>, mut take: impl FnMut(Piece) -> Result<()>) -> Result<()> {
        let count = (range.end - range.start).div_ceil(STRETCH_BYTES);
        let start = |number: u64| range.end.min(range.start.saturating_add(number.saturating_mul(STRETCH_BYTES)));
        let stretch = |number| start(number)..start(number + 1);
        if count == 1 {
            self.fetch(&range, &range, CONNECTIONS_OF_FEW, || true);
            return self.pieces_in_order(range, &mut take);
        }
        // The pages that lead to all of them, once.
        entries_in(self.repository, self.root, range.start..range.start + 1, &mut |_, _| Ok(()))?;
        let _counted = Counted::begin(&self.repository.readers_ahead);
        let progress = Progress::new(count);
        std::thread::scope(|scope| {
            let _ending = Ending(&progress);
            let fetch = || {
                while let Some(fetching) = progress.next(&self.repository.readers_ahead) {
                    self.fetch(&stretch(fetching.number), &range, 1, || !progress.has_ended());
                }
            };
            let threads = count.min(AHEAD_BYTES / STRETCH_BYTES);
            let begun = (0..threads).filter(|_| Builder::new().spawn_scoped(scope, fetch).is_ok()).count();
            if begun == 0 {
                return self.pieces_in_order(range.clone(), &mut take);
            }
            let mut number = 0;
            while number < count {
                progress.wait_until_fetched(number);
                let next = self.end_of_gap(start(number), &range)?.max(number + 1);
                progress.skip_to(next);
                self.pieces_in_order(start(number)..start(next), &mut take)?;
                number = next;
            }
            Ok(())
        })
    }

    /// Returns the number of stretches of the range before the end of the hole or the zeros that are at `from`: nothing of
    /// these is fetched, and they may be longer than all data there is. 0 where data are.
    fn end_of_gap(&self, from: u64, range: &Range<u64>) -> Result<u64> {
        let mut end = range.start;
        entries_in(self.repository, self.root, from..from + 1, &mut |offset, entry| {
            if let EntryKind::Hole | EntryKind::Zero = entry.kind {
                end = range.end.min(offset.saturating_add(entry.length));
            }
            Ok(())
        })?;
        Ok((end - range.start) / STRETCH_BYTES)
    }

    /// Whoever reads meets the error.
    fn fetch(&self, stretch: &Range<u64>, read: &Range<u64>, connections: usize, is_wanted: impl Fn() -> bool + Sync) {
        let mut runs = Vec::new();
        let _ = self.repository.runs_of_stretch(self, stretch, read, &mut runs);
        self.repository.fetch_runs(runs, connections, is_wanted);
    }
}

/// Which stretches of a range were fetched, and which is read.
struct Progress {
    count: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The first that nobody fetches yet.
    next: u64,
    /// Fetched, and not read yet.
    fetched: BTreeSet<u64>,
    reading: u64,
    has_ended: bool,
}

impl Progress {
    fn new(count: u64) -> Self {
        Progress { count, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic holds it")
    }

    fn has_ended(&self) -> bool {
        self.state().has_ended
    }

    /// Returns the next to fetch, once that is not too far ahead.
    fn next(&self, readers: &AtomicU64) -> Option<Fetching<'_>> {
        let is_too_far = |state: &mut State| {
            let ahead_bytes = (state.next - state.reading) * STRETCH_BYTES;
            !state.has_ended && state.next < self.count && ahead_bytes >= share_bytes(readers)
        };
        let mut state = self.changed.wait_while(self.state(), is_too_far).expect("no panic holds it");
        let number = state.next;
        state.next += 1;
        let is_there = !state.has_ended && number < self.count;
        // One that ends takes the lock.
        drop(state);
        is_there.then(|| Fetching { progress: self, number })
    }

    /// From now on it is the one that is read.
    fn wait_until_fetched(&self, number: u64) {
        let mut state = self.state();
        state.reading = number;
        self.changed.notify_all();
        let is_missing = |state: &mut State| !state.has_ended && !state.fetched.contains(&number);
        self.changed.wait_while(state, is_missing).expect("no panic holds it").fetched.remove(&number);
    }

    /// Leaves out the stretches before one: nothing is there to be fetched.
    fn skip_to(&self, number: u64) {
        let mut state = self.state();
        state.next = state.next.max(number);
    }
}

/// A stretch that is being fetched; its reader waits no longer than it lives.
struct Fetching<'a> {
    progress: &'a Progress,
    number: u64,
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        if let Ok(mut state) = self.progress.state.lock() {
            state.fetched.insert(self.number);
            // With one that panics the others end; the reader fetches by itself what is left, and then meets the panic.
            state.has_ended |= std::thread::panicking();
        }
        self.progress.changed.notify_all();
    }
}

/// Lets the threads go, whatever way the reading ends.
struct Ending<'a>(&'a Progress);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if let Ok(mut state) = self.0.state.lock() {
            state.has_ended = true;
        }
        self.0.changed.notify_all();
    }
}
