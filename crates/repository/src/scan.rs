//! The journal and the containers as the store's files show them, without a catalog: the source of a rebuild of the
//! catalog, and of verification's comparison. Damage costs what lies in it, and is named.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use catalog::{ContainerRecord, ContainerState, IssuedNumbers, MemoryCatalog, SkippedRecord};
use format::{BlockKind, Change, ContainerId, FingerprintKind, JournalRecord};
use store::{LocalStore, StoredBlock};

use crate::verify::Damage;
use crate::{Error, Result};

/// The limit on missing sequences reported one by one: a forged mark may be very far ahead.
const MAX_GAPS: usize = 100_000;
/// Ranges of them that a message names.
const MAX_RANGES: usize = 8;

/// Formats sorted numbers as a message has them: `3, 7 to 9`.
pub(crate) fn ranges(sequences: &[u64]) -> String {
    let named = |run: &[u64]| match run {
        [one] => one.to_string(),
        run => format!("{} to {}", run[0], run[run.len() - 1]),
    };
    let mut named: Vec<String> = sequences.chunk_by(|left, right| left + 1 == *right).map(named).collect();
    if named.len() > MAX_RANGES {
        named.truncate(MAX_RANGES);
        named.push("…".into());
    }
    named.join(", ")
}

/// The content found in the container files.
#[derive(Default)]
pub(crate) struct Scan {
    /// By sequence.
    pub records: BTreeMap<u64, JournalRecord>,
    /// Every number that a file bears in its name or for its segments, also those of files that cannot be read.
    pub containers: BTreeMap<ContainerId, ContainerRecord>,
    /// By number, the other files with segments of it, and how many each has.
    holders: BTreeMap<ContainerId, BTreeMap<ContainerId, u64>>,
    /// Files that could be read.
    pub readable: u64,
    pub damages: Vec<Damage>,
    /// Files with a block of the journal that cannot be read.
    pub unreadable: BTreeSet<ContainerId>,
    /// Sequences of records that only a catalog's outbox has.
    pub unkept: BTreeSet<u64>,
    /// Sequence and checksum of records that do not count: they make no sense, or another has their sequence.
    pub passed_over: Vec<(u64, u64)>,
}

impl Scan {
    /// Reads the journal of every container file; files that collection writes meanwhile are read as well.
    pub fn of(local: &LocalStore, fingerprint: FingerprintKind) -> Result<Self> {
        let mut scan = Scan::default();
        let mut seen = BTreeSet::new();
        loop {
            let new: Vec<_> = local.containers_on_disk()?.into_iter().filter(|number| seen.insert(*number)).collect();
            if new.is_empty() {
                scan.place_moved();
                return Ok(scan);
            }
            for physical in new {
                match physical.0 < catalog::CONTAINER_LIMIT {
                    true => scan.read_container(local, fingerprint, physical)?,
                    false => scan.note(physical, 0, "no catalog gives its number, and it is passed over".into()),
                }
            }
        }
    }

    fn read_container(
        &mut self,
        local: &LocalStore,
        fingerprint: FingerprintKind,
        physical: ContainerId,
    ) -> Result<()> {
        let salvaged = local.visit_readable(physical, BlockKind::Journal, &mut |offset, read| match read {
            Ok(placed) => self.read_block(fingerprint, physical, offset, &placed),
            Err(error) => {
                self.unreadable.insert(physical);
                self.note(physical, offset, format!("records of the journal are lost: {}", cause(error)));
            }
        });
        match salvaged {
            Ok(salvaged) => {
                let index = salvaged.index;
                let damages = salvaged.header_damage.iter().chain(index.damages());
                self.damages.extend(damages.map(|damage| Damage::Container {
                    container: physical,
                    offset: damage.offset,
                    why: damage.why.clone(),
                    lost_segments: damage.lost_segments,
                    healed_segments: 0,
                }));
                for (address, _) in index.addresses().filter(|(address, _)| address.container != physical) {
                    *self.holders.entry(address.container).or_default().entry(physical).or_default() += 1;
                }
                // Verification takes a container with segments for one that had its footer.
                let (stored_bytes, segments) =
                    if index.is_sealed() { (index.end_offset(), index.segments().len() as u64) } else { (0, 0) };
                self.readable += 1;
                self.register(physical, stored_bytes, segments);
            }
            // Collection deleted it since: its segments lie in a newer file.
            Err(store::Error::NotFound { .. }) => {}
            Err(store::Error::Corrupt { offset, why, .. }) => {
                self.note(physical, offset, why);
                self.register(physical, 0, 0);
            }
            Err(other) => return Err(other.into()),
        }
        Ok(())
    }

    fn read_block(&mut self, fingerprint: FingerprintKind, container: ContainerId, offset: u64, placed: &StoredBlock) {
        let raw = match segment::decode_verified(&placed.block, fingerprint) {
            Ok(raw) => raw,
            Err(error) => {
                self.unreadable.insert(container);
                return self.note(container, offset, format!("records of the journal are lost: {error}"));
            }
        };
        for (_, bytes) in segment::segments(&placed.block, &raw) {
            let record = JournalRecord::decode(bytes);
            let why = match &record {
                Ok(record) => catalog::impossible(record),
                Err(error) => Some(error.to_string()),
            };
            match (record, why) {
                (Ok(record), None) => self.add(record),
                (record, why) => {
                    self.passed_over.extend(record.map(|record| (record.sequence, JournalRecord::checksum_of(bytes))));
                    let why = why.unwrap_or_default();
                    self.note(container, offset, format!("a record of the journal makes no sense: {why}"));
                }
            }
        }
    }

    /// Adds a record. Two of one sequence come of two catalogs that went on apart: the first one counts, and the
    /// other's effects are named.
    fn add(&mut self, record: JournalRecord) {
        match self.records.entry(record.sequence) {
            Entry::Vacant(free) => drop(free.insert(record)),
            Entry::Occupied(taken) if *taken.get() == record => {}
            Entry::Occupied(_) => {
                self.passed_over.push((record.sequence, JournalRecord::checksum_of(&record.encode())));
                let why = format!("transaction {} is in the journal twice, and this change is lost", record.sequence);
                let lost = |change: &Change| Damage::Catalog { path: Some(change.path().clone()), why: why.clone() };
                self.damages.extend(record.changes.iter().map(lost));
            }
        }
    }

    fn note(&mut self, container: ContainerId, offset: u64, why: String) {
        self.damages.push(Damage::Container { container, offset, why, lost_segments: 0, healed_segments: 0 });
    }

    fn register(&mut self, physical: ContainerId, stored_bytes: u64, segments: u64) {
        let own = ContainerRecord { id: physical, state: ContainerState::Live, physical, stored_bytes, segments };
        self.containers.insert(physical, own);
    }

    /// A number whose own file is still there lies in that file; otherwise in the one that has most of its segments, the
    /// newest of equals. A newer file may have fewer: of a collection that was killed before the catalog knew of it, or
    /// refused since a new version needed more.
    fn place_moved(&mut self) {
        for (number, holders) in &self.holders {
            let fullest = holders.iter().max_by_key(|(file, segments)| (**segments, **file));
            if let (false, Some((file, _))) = (self.containers.contains_key(number), fullest) {
                self.containers.insert(*number, without_segments(*number, *file));
            }
        }
    }

    /// Believes a sound catalog about numbers without a file of their own, where the file it names has their segments: it
    /// may have replaced a fuller file that is damaged.
    pub fn believe(&mut self, records: &[ContainerRecord]) {
        for ContainerRecord { id, physical, .. } in records.iter().filter(|record| record.is_referable()) {
            let is_there = self.holders.get(id).is_some_and(|holders| holders.contains_key(physical));
            if let (true, Some(record)) = (is_there, self.containers.get_mut(id))
                && record.physical != *id
            {
                record.physical = *physical;
            }
        }
    }

    /// Whether a record of this sequence is there, even one that does not count.
    pub fn has(&self, sequence: u64) -> bool {
        self.records.contains_key(&sequence) || self.passed_over.iter().any(|(passed, _)| *passed == sequence)
    }

    /// Whether this record is there, by its sequence and checksum.
    pub fn keeps(&self, (sequence, checksum): (u64, u64)) -> bool {
        let of = |record: &JournalRecord| JournalRecord::checksum_of(&record.encode());
        self.records.get(&sequence).is_some_and(|record| of(record) == checksum)
            || self.passed_over.contains(&(sequence, checksum))
    }

    /// Returns the sequences in a range of which there is no record: catalogs leave no gap.
    pub fn gaps(&self, after: u64, last: u64) -> Vec<u64> {
        let present = self.records.keys().chain(self.passed_over.iter().map(|(sequence, _)| sequence));
        let present: BTreeSet<u64> = present.copied().filter(|sequence| (after..=last).contains(sequence)).collect();
        let (mut gaps, mut next) = (Vec::new(), after.saturating_add(1));
        for sequence in present.into_iter().chain([last.saturating_add(1)]).filter(|sequence| *sequence > after) {
            gaps.extend((next..sequence).take(MAX_GAPS - gaps.len()));
            next = sequence.saturating_add(1);
        }
        gaps
    }

    /// Adds what a catalog has committed and no container keeps yet.
    pub fn add_outbox(&mut self, records: Vec<JournalRecord>) {
        for record in records.into_iter().filter(|record| catalog::impossible(record).is_none()) {
            if !self.records.contains_key(&record.sequence) {
                self.unkept.insert(record.sequence);
            }
            self.add(record);
        }
    }

    /// Returns the names and versions that the records up to `sequence` make, and the records that make none.
    pub fn replayed(&self, sequence: u64) -> Result<(MemoryCatalog, Vec<SkippedRecord>)> {
        let records: Vec<_> = self.records.range(..=sequence).map(|(_, record)| record.clone()).collect();
        let replayed = MemoryCatalog::new();
        let left_out = catalog::LocalCatalog::replay(&replayed, &[], &records, &IssuedNumbers::default())?;
        Ok((replayed, left_out))
    }
}

/// Returns the record of a container whose own file is not there. Verification looks for no file of a container without
/// segments.
pub(crate) fn without_segments(id: ContainerId, physical: ContainerId) -> ContainerRecord {
    ContainerRecord { id, state: ContainerState::Live, physical, stored_bytes: 0, segments: 0 }
}

/// Returns the reason alone: the place is reported beside it.
fn cause(error: store::Error) -> String {
    match error {
        store::Error::Corrupt { why, .. } => why,
        other => Error::from(other).to_string(),
    }
}
