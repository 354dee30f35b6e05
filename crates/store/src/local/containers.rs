//! The containers that lie in files, as this store reads them: open descriptors, indexes, where collection
//! moved what, and which may still be referred to. All of it is cached and can be forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use format::{ContainerId, Fingerprint, Run, SegmentAddress, StoreId};

use super::lru::Lru;
use crate::container::{self, ContainerIndex, file_name};
use crate::files::{File, Files};
use crate::guard::lock;
use crate::{Error, Registrar, Result};

/// Indexes asked for a fingerprint before the table is: duplicates come in the order they were stored in.
const RECENT_INDEXES: usize = 4;

pub struct Containers {
    files: Arc<dyn Files>,
    store: StoreId,
    registrar: Arc<dyn Registrar>,
    believe_live_for: Duration,
    cache: Mutex<Cache>,
}

/// Where duplicates of a logical container may be looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referable {
    /// In this container's file.
    In(ContainerId),
    /// The catalog names a file that is not there.
    Missing,
    /// Nowhere: it was condemned, or there is none.
    No,
}

/// Whether a container's index says what the table did.
pub enum Confirmed {
    Yes(Arc<ContainerIndex>),
    No,
    /// The index, or the part that would tell, cannot be read.
    Unreadable,
}

struct Cache {
    indexes: Lru<ContainerId, Arc<ContainerIndex>>,
    descriptors: Lru<ContainerId, Arc<dyn File>>,
    /// Logical containers whose segments lie in another's file.
    moved: HashMap<ContainerId, ContainerId>,
    /// Where duplicates may be looked for, when that was asked, and in which epoch.
    referable: HashMap<ContainerId, (Referable, Instant, u64)>,
    /// Counts how often `referable` was emptied: what was asked before is not entered after.
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

    /// The container's file.
    pub fn file(&self, physical: ContainerId) -> Result<Arc<dyn File>> {
        if let Some(file) = lock(&self.cache).descriptors.get(physical) {
            return Ok(file);
        }
        let file = self.files.open(&file_name(physical))?;
        lock(&self.cache).descriptors.insert(physical, file.clone(), 1);
        Ok(file)
    }

    /// What the container's file holds.
    pub fn index(&self, physical: ContainerId) -> Result<Arc<ContainerIndex>> {
        if let Some(index) = lock(&self.cache).indexes.get(physical) {
            return Ok(index);
        }
        let index = Arc::new(container::read_index(&*self.file(physical)?, self.store, physical)?);
        self.remember(index.clone());
        Ok(index)
    }

    /// Keeps an index that was made or read.
    pub fn remember(&self, index: Arc<ContainerIndex>) {
        let mut cache = lock(&self.cache);
        cache.recent.retain(|other| other.container() != index.container());
        cache.indexes.insert(index.container(), index.clone(), index.memory_bytes());
    }

    /// Lets `action` work on the file and the index that hold the run. Segments move from file to file, and dead ones
    /// stay behind in files that are kept for older sessions: what is not found where it lay last is looked for in
    /// every file the catalog knows of.
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

    /// Whether the index of that file confirms that the segment lies at the place, and for good.
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
            // The hint was of no use.
            _ => Confirmed::No,
        }
    }

    /// The file in which segments of this logical container may be found to refer to; an answer is believed for a
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
            // One look a second for each container that is asked for.
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

    /// No answer of [`Containers::referable`] from before is believed any more.
    pub fn forget_referable(&self) {
        let mut cache = lock(&self.cache);
        cache.referable.clear();
        cache.emptied += 1;
    }

    /// The indexes that were hit last.
    pub fn recent(&self) -> Vec<Arc<ContainerIndex>> {
        lock(&self.cache).recent.clone()
    }

    /// This index was hit: it will be asked first.
    pub fn hit(&self, index: Arc<ContainerIndex>) {
        let mut cache = lock(&self.cache);
        cache.indexes.get(index.container());
        bring_forward(&mut cache.recent, index);
    }

    /// Nothing remembered of this container, logical or physical, is used again.
    pub fn forget(&self, container: ContainerId) {
        let mut cache = lock(&self.cache);
        cache.moved.retain(|logical, physical| *logical != container && *physical != container);
        cache.referable.remove(&container);
        cache.indexes.remove(container);
        cache.descriptors.remove(container);
        cache.recent.retain(|index| index.container() != container);
    }

    /// Lets go of files that others removed, so that the disk gets their room back.
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

    /// The file to look in first: where the number's segments were found last, or else its own.
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

    /// The index, read on if the file has grown, and where in it the run is.
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

    /// A segment that is not in an index with damaged parts, of a file that was longer once, or of one that nobody closed
    /// and nobody writes any more, was most likely there: only durable segments are referred to.
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
                Ok(false) => corrupt(end, "the file, which its writer never closed, can be read up to here"),
                Err(error) => error,
            },
            Err(error) => error,
        }
    }

    /// The fingerprint of a segment that cannot be read, where the index of its part can.
    pub fn unreadable_fingerprint(&self, address: SegmentAddress) -> Option<Fingerprint> {
        let index = self.index(self.likely_file(address.container)).ok()?;
        index.unreadable_fingerprint(address)
    }
}

/// Puts the index first, and lets go of what was hit too long ago.
pub fn bring_forward(recent: &mut Vec<Arc<ContainerIndex>>, index: Arc<ContainerIndex>) {
    recent.retain(|other| other.container() != index.container());
    recent.insert(0, index);
    recent.truncate(RECENT_INDEXES);
}
