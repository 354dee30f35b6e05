//! The containers on disk, as this store reads them: open descriptors, indexes, what collection moved where, and which
//! may still be referred to. All of it is a cache.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use format::{ContainerId, Fingerprint, Run, SegmentAddress, StoreId};

use crate::container::{self, ContainerIndex, file_name};
use crate::files::{File, Files};
use crate::guard::lock;
use crate::lru::Lru;
use crate::{Error, Registrar, Result};

/// Ends the sentence about a segment that lies behind all that can be read of a file without a footer or a live writer.
pub const UNCLOSED_END: &str = "the file, which its writer never closed, can be read up to here";

/// Indexes searched for a fingerprint before the table is: duplicates come in the order they were stored in.
const RECENT_INDEXES: usize = 4;

pub struct Containers {
    files: Arc<dyn Files>,
    store: StoreId,
    registrar: Arc<dyn Registrar>,
    believe_live_for: Duration,
    cache: Mutex<Cache>,
}

/// Where to search for duplicates of a logical container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referable {
    /// In this container's file.
    In(ContainerId),
    /// The catalog names a file that is not there.
    Missing,
    /// Nowhere: it was condemned, or does not exist.
    No,
}

/// Whether a container's index confirms the table's hint.
pub enum Confirmed {
    Yes(Arc<ContainerIndex>),
    No,
    /// The index, or the part that would confirm it, cannot be read.
    Unreadable,
}

struct Cache {
    indexes: Lru<ContainerId, Arc<ContainerIndex>>,
    descriptors: Lru<ContainerId, Arc<dyn File>>,
    /// Logical containers whose segments lie in another's file.
    moved: HashMap<ContainerId, ContainerId>,
    /// Where to search for duplicates, when the catalog said so, and in which epoch.
    referable: HashMap<ContainerId, (Referable, Instant, u64)>,
    /// Counts how often `referable` was emptied: an answer from before is not entered after.
    emptied: u64,
    /// Most recent first.
    recent: Vec<Arc<ContainerIndex>>,
}

impl Containers {
    pub fn new(
        files: Arc<dyn Files>,
        store: StoreId,
        registrar: Arc<dyn Registrar>,
        believe_live_for: Duration,
        index_cache_bytes: usize,
        open_files: usize,
    ) -> Self {
        let cache = Cache {
            indexes: Lru::new(index_cache_bytes),
            descriptors: Lru::new(open_files),
            moved: HashMap::new(),
            referable: HashMap::new(),
            emptied: 0,
            recent: Vec::new(),
        };
        Containers { files, store, registrar, believe_live_for, cache: Mutex::new(cache) }
    }

    /// Returns the container's file.
    pub fn file(&self, physical: ContainerId) -> Result<Arc<dyn File>> {
        if let Some(file) = lock(&self.cache).descriptors.get(physical) {
            return Ok(file);
        }
        let file = self.files.open(&file_name(physical))?;
        lock(&self.cache).descriptors.insert(physical, file.clone(), 1);
        Ok(file)
    }

    /// Returns the index of the container's file.
    pub fn index(&self, physical: ContainerId) -> Result<Arc<ContainerIndex>> {
        if let Some(index) = lock(&self.cache).indexes.get(physical) {
            return Ok(index);
        }
        let index = Arc::new(container::read_index(&*self.file(physical)?, self.store, physical)?);
        self.remember(index.clone());
        Ok(index)
    }

    /// Caches an index that was made or read.
    pub fn remember(&self, index: Arc<ContainerIndex>) {
        let mut cache = lock(&self.cache);
        cache.recent.retain(|other| other.container() != index.container());
        cache.indexes.insert(index.container(), index.clone(), index.memory_bytes());
    }

    /// Runs `action` on the file and the index that hold the run. Segments move from file to file, and dead ones stay
    /// behind in files that are kept for older sessions: a segment that is not found where it lay last is searched for
    /// in every file the catalog knows of.
    pub fn with_run<T>(
        &self,
        run: Run,
        action: impl Fn(&dyn File, &ContainerIndex, &[std::ops::Range<u32>]) -> Result<T>,
    ) -> Result<T> {
        let attempt = |physical: ContainerId| {
            let (index, ranges) = self.index_with(physical, run)?;
            action(&*self.file(physical)?, &index, &ranges)
        };
        let likely = self.likely_file(run.container);
        let first = match attempt(likely) {
            Err(error @ (Error::NotFound { .. } | Error::Corrupt { .. })) => error,
            done => return done,
        };
        let stale = matches!(first, Error::NotFound { .. });
        if stale {
            self.forget_address(run.container);
        }
        for physical in self.registrar.locate(run.container)?.into_iter().filter(|file| stale || *file != likely) {
            match attempt(physical) {
                Ok(done) => {
                    self.moved_to(run.container, physical);
                    return Ok(done);
                }
                Err(Error::NotFound { .. } | Error::Corrupt { .. }) => self.forget(physical),
                Err(other) => return Err(other),
            }
        }
        Err(first)
    }

    /// Returns whether the index of that file confirms that the segment lies at the address, durably.
    pub fn confirm(&self, physical: ContainerId, address: SegmentAddress, fingerprint: &Fingerprint) -> Confirmed {
        if self.index(physical).is_err() {
            return Confirmed::Unreadable;
        }
        match self.index_with(physical, Run::single(address)) {
            Ok((index, ranges)) if index.segments()[ranges[0].start as usize].fingerprint == *fingerprint => {
                index.known_durable(ranges[0].start);
                Confirmed::Yes(index)
            }
            Err(Error::Corrupt { .. }) => Confirmed::Unreadable,
            // The hint was wrong.
            _ => Confirmed::No,
        }
    }

    /// Returns the file in which segments of this logical container may be found to refer to; an answer is cached for a
    /// moment, within one epoch.
    pub fn referable(&self, logical: ContainerId) -> Result<Referable> {
        let epoch = self.registrar.epoch();
        let (emptied, asked_at) = {
            let cache = lock(&self.cache);
            match cache.referable.get(&logical) {
                Some((physical, at, asked_in)) if at.elapsed() < self.believe_live_for && *asked_in == epoch => {
                    return Ok(*physical);
                }
                _ => (cache.emptied, Instant::now()),
            }
        };
        let physical = match self.registrar.referable(logical)? {
            None => Referable::No,
            // At most one check a second for each container requested.
            Some(physical) => match self.files.exists(&file_name(physical)) {
                Ok(false) => {
                    self.forget(physical);
                    Referable::Missing
                }
                _ => Referable::In(physical),
            },
        };
        let mut cache = lock(&self.cache);
        if cache.emptied == emptied {
            cache.referable.insert(logical, (physical, asked_at, epoch));
        }
        Ok(physical)
    }

    /// Drops all cached answers of [`Containers::referable`].
    pub fn forget_referable(&self) {
        let mut cache = lock(&self.cache);
        cache.referable.clear();
        cache.emptied += 1;
    }

    /// Returns the indexes that were hit last.
    pub fn recent(&self) -> Vec<Arc<ContainerIndex>> {
        lock(&self.cache).recent.clone()
    }

    /// Notes a hit: this index is searched first from now on.
    pub fn hit(&self, index: Arc<ContainerIndex>) {
        let mut cache = lock(&self.cache);
        cache.indexes.get(index.container());
        bring_forward(&mut cache.recent, index);
    }

    /// Drops everything cached of this container, logical or physical.
    pub fn forget(&self, container: ContainerId) {
        let mut cache = lock(&self.cache);
        cache.moved.retain(|logical, physical| *logical != container && *physical != container);
        cache.referable.remove(&container);
        cache.indexes.remove(container);
        cache.descriptors.remove(container);
        cache.recent.retain(|index| index.container() != container);
    }

    /// Closes files that others removed, so that the disk regains their room.
    pub fn drop_removed(&self) {
        let open = lock(&self.cache).descriptors.keys();
        for container in open {
            if let Ok(false) = self.files.exists(&file_name(container)) {
                self.forget(container);
            }
        }
        let mut cache = lock(&self.cache);
        let believe_live_for = self.believe_live_for;
        cache.referable.retain(|_, (_, asked_at, _)| asked_at.elapsed() < believe_live_for);
    }

    /// Returns the file to search first: where the number's segments were found last, or else its own.
    fn likely_file(&self, logical: ContainerId) -> ContainerId {
        lock(&self.cache).moved.get(&logical).copied().unwrap_or(logical)
    }

    fn moved_to(&self, logical: ContainerId, physical: ContainerId) {
        let mut cache = lock(&self.cache);
        match physical == logical {
            true => cache.moved.remove(&logical),
            false => cache.moved.insert(logical, physical),
        };
    }

    fn forget_address(&self, logical: ContainerId) {
        let moved_to = lock(&self.cache).moved.get(&logical).copied();
        self.forget(moved_to.unwrap_or(logical));
        self.forget(logical);
    }

    /// Returns the index, read on if the file has grown, and where in it the run is.
    fn index_with(&self, physical: ContainerId, run: Run) -> Result<(Arc<ContainerIndex>, Vec<std::ops::Range<u32>>)> {
        let mut index = self.index(physical)?;
        let mut found = index.ranges_of(run);
        if found.is_err()
            && let Some(grown) = container::refresh_index(&*self.file(physical)?, &index)?
        {
            index = Arc::new(grown);
            self.remember(index.clone());
            found = index.ranges_of(run);
        }
        match found {
            Ok(ranges) => Ok((index, ranges)),
            Err(address) => Err(self.missing(&index, address)),
        }
    }

    /// Returns the error for a missing segment. In an index with damaged parts, of a file that was longer once, or of
    /// one that has no footer and no live writer, it was most likely there: only durable segments are referred to.
    fn missing(&self, index: &ContainerIndex, address: SegmentAddress) -> Error {
        let corrupt = |offset: u64, why: &str| Error::Corrupt {
            path: file_name(index.container()),
            offset,
            why: format!("segment {address} cannot be found: {why}"),
        };
        if let Some(damage) = index.damages().first() {
            return corrupt(damage.offset, &damage.why);
        }
        let not_found = || Error::NotFound { what: format!("segment {address}") };
        if index.is_sealed() {
            return not_found();
        }
        let end = index.end_offset();
        match self.registrar.sealed_bytes(index.container()) {
            Ok(bytes) if end < bytes => {
                corrupt(end, &format!("the file can be read up to here, and had {bytes} bytes"))
            }
            Ok(_) => match self.registrar.is_growing(index.container()) {
                Ok(true) => not_found(),
                Ok(false) => corrupt(end, UNCLOSED_END),
                Err(error) => error,
            },
            Err(error) => error,
        }
    }

    /// Returns the fingerprint of an unreadable segment, where the index of its part can be read.
    pub fn unreadable_fingerprint(&self, address: SegmentAddress) -> Option<Fingerprint> {
        let index = self.index(self.likely_file(address.container)).ok()?;
        index.unreadable_fingerprint(address)
    }
}

/// Puts the index first, and drops those hit too long ago.
pub fn bring_forward(recent: &mut Vec<Arc<ContainerIndex>>, index: Arc<ContainerIndex>) {
    recent.retain(|other| other.container() != index.container());
    recent.insert(0, index);
    recent.truncate(RECENT_INDEXES);
}
