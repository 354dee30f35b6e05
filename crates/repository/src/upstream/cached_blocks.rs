//! Blocks of the far store that the near one has: those that came from there, and those that were sent there. Each lies in
//! a near container like any other block; here is written which it is, for as long as the process lives.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use format::{BlockKind, ContainerId, FingerprintKind, Label, Run, SegmentAddress};
use store::{ClaimOwner, SegmentStore, StoredBlock};

use super::in_flight::gaps;

/// Some 150 MB, for a TB in blocks of 256 KiB. Beyond, all is forgotten and fetched again.
const MAX_BLOCKS: usize = 1 << 20;

/// A far block in the near store.
struct CachedBlock {
    near: Run,
    /// Its segments' far numbers.
    labels: Vec<Label>,
}

/// By far container and first ordinal of each label: how many, and the block.
type ByLabel = BTreeMap<(ContainerId, u32), (u32, Arc<CachedBlock>)>;

pub(super) struct CachedBlocks {
    near: Arc<dyn SegmentStore>,
    fingerprint: FingerprintKind,
    claim_owner: ClaimOwner,
    labels: Mutex<ByLabel>,
    /// There is no room for blocks that come.
    is_full: AtomicBool,
}

impl CachedBlocks {
    /// `claim_owner` must be its own; it claims nothing.
    pub fn new(near: Arc<dyn SegmentStore>, fingerprint: FingerprintKind, claim_owner: ClaimOwner) -> Self {
        CachedBlocks { near, fingerprint, claim_owner, labels: Mutex::default(), is_full: AtomicBool::new(false) }
    }

    /// Returns the block with the far segment, if it is here still.
    pub fn get(&self, far: SegmentAddress) -> Option<StoredBlock> {
        let cached = self.find(far)?;
        let mut found = self.near.get(cached.near).unwrap_or_default();
        // Collection may have taken the block, or left a part of it.
        let is_it = |placed: &StoredBlock| placed.addresses().eq(cached.near.addresses());
        match found.pop().filter(|placed| found.is_empty() && is_it(placed)) {
            Some(placed) => Some(StoredBlock { labels: cached.labels.clone(), block: placed.block }),
            None => {
                self.forget(&cached);
                None
            }
        }
    }

    /// Returns the parts of the run that are not here.
    pub fn missing_parts(&self, run: Run) -> Vec<Run> {
        let labels = self.labels();
        let end = run.first.saturating_add(run.count);
        let before = labels.range(..=(run.container, run.first)).next_back();
        let others =
            labels.range((run.container, run.first.saturating_add(1))..(run.container, end.max(run.first + 1)));
        let here = before.into_iter().chain(others).filter(|((container, _), _)| *container == run.container);
        let here: Vec<_> = here.map(|((_, first), (count, _))| Run { first: *first, count: *count, ..run }).collect();
        gaps(run, &here)
    }

    /// Keeps a block that came, if it is what it says: other clients are answered with its segments from now on.
    pub fn keep(&self, placed: &StoredBlock) {
        // Another store's journal must never be taken for this one's.
        let is_journal = placed.block.header.kind == BlockKind::Journal;
        if is_journal || self.is_full() || segment::decode_verified(&placed.block, self.fingerprint).is_err() {
            return;
        }
        // Without room here it is only fetched again.
        if let Ok(near) = self.near.put(self.claim_owner, &placed.block) {
            self.note(near, placed.labels.clone());
        }
    }

    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Whether blocks that come are kept from now on.
    pub fn keep_blocks(&self, has_room: bool) {
        self.is_full.store(!has_room, Ordering::Relaxed);
    }

    /// Notes that a block of the near store is this one of the far store.
    pub fn note(&self, near: Run, labels: Vec<Label>) {
        let cached = Arc::new(CachedBlock { near, labels });
        let mut by_label = self.labels();
        if by_label.len() >= MAX_BLOCKS {
            by_label.clear();
        }
        for label in &cached.labels {
            by_label.insert((label.container, label.first), (label.count, cached.clone()));
        }
    }

    fn find(&self, far: SegmentAddress) -> Option<Arc<CachedBlock>> {
        let labels = self.labels();
        let ((container, first), (count, cached)) = labels.range(..=(far.container, far.ordinal)).next_back()?;
        (*container == far.container && far.ordinal - first < *count).then(|| cached.clone())
    }

    fn forget(&self, cached: &Arc<CachedBlock>) {
        let mut labels = self.labels();
        for label in &cached.labels {
            let key = (label.container, label.first);
            if labels.get(&key).is_some_and(|(_, found)| Arc::ptr_eq(found, cached)) {
                labels.remove(&key);
            }
        }
    }

    fn labels(&self) -> MutexGuard<'_, ByLabel> {
        self.labels.lock().expect("no panic holds it")
    }
}
