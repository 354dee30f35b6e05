//! Copies of segments whose fingerprints are lost with their container, and that no table names: a manifest holds a digest
//! over the fingerprints of each run, so that equal content of another version is known for what it is.

use std::collections::{HashMap, HashSet};

use catalog::Version;
use format::{EntryKind, LostSegment, Run, SegmentAddress, SegmentEntry, run_digest};

use crate::mismatch::UNKNOWN;
use crate::repair::{each_version, is_damage};
use crate::tree::{UnreadablePage, all_entries};
use crate::{Repository, Result};

/// No manifest of ours has a longer run, and a damaged one may say anything.
pub(crate) const MAX_RUN_SEGMENTS: u32 = 8192;

/// A run with lost segments, and the digest over its fingerprints.
type Wanted = (Run, [u8; 32]);

/// Lets what other versions have at the same offset stand in for runs that cannot be read, where their digests say that it
/// is the same.
pub(crate) fn heal_from_equal_content(repository: &Repository) -> Result<()> {
    let lost = repository.local_catalog()?.lost()?.into_iter();
    let lost = lost.filter(|lost| lost.copy.is_none() && lost.fingerprint == UNKNOWN).map(|lost| lost.address);
    let lost: HashSet<SegmentAddress> = lost.collect();
    if lost.is_empty() {
        return Ok(());
    }
    let mut wanted = HashMap::<u64, HashSet<Wanted>>::new();
    each_version(repository, &mut |_, version| {
        visit_runs(repository, version, &mut |start, run, digest| {
            if run.count <= MAX_RUN_SEGMENTS && run.addresses().any(|address| lost.contains(&address)) {
                wanted.entry(start).or_default().insert((run, digest));
            }
            Ok(())
        })
    })?;
    let mut copies = HashMap::new();
    each_version(repository, &mut |_, version| {
        let mut search = Search { repository, wanted: &wanted, under_way: Vec::new(), end: 0, copies: &mut copies };
        visit_runs(repository, version, &mut |start, run, _| search.run(start, run))
    })?;
    copies.retain(|address, _| lost.contains(address));
    let pair = |(address, (fingerprint, copy))| (LostSegment { address, fingerprint, copy: None }, copy);
    repository.local_store("repair")?.heal(&copies.into_iter().map(pair).collect::<Vec<_>>());
    Ok(())
}

/// The runs of a version with the offsets at which their first segments begin, past pages that cannot be read.
fn visit_runs(
    repository: &Repository,
    version: &Version,
    visit: &mut dyn FnMut(u64, Run, [u8; 32]) -> Result<()>,
) -> Result<()> {
    let visited =
        all_entries(repository, &version.record.root, &mut |offset, entry| match entry.map(|entry| entry.kind) {
            Ok(EntryKind::Data { run, skip, digest }) => match offset.checked_sub(u64::from(skip)) {
                Some(start) => visit(start, run, digest),
                None => Ok(()),
            },
            Err(UnreadablePage { error, .. }) if !is_damage(&error) => Err(error),
            _ => Ok(()),
        });
    match visited {
        Err(error) if is_damage(&error) => Ok(()),
        visited => visited,
    }
}

/// Compares the segments of one version, in their order, with what is wanted.
struct Search<'a> {
    repository: &'a Repository,
    wanted: &'a HashMap<u64, HashSet<Wanted>>,
    under_way: Vec<Candidate>,
    /// Where the last segment ended.
    end: u64,
    /// The fingerprint of each lost segment, and its copy.
    copies: &'a mut HashMap<SegmentAddress, (format::Fingerprint, SegmentAddress)>,
}

struct Candidate {
    wanted: Wanted,
    found: Vec<(SegmentEntry, SegmentAddress)>,
}

impl Search<'_> {
    fn run(&mut self, start: u64, run: Run) -> Result<()> {
        let entries = match self.repository.store.entries(run) {
            Err(error) if error.is_damage() => return Ok(()),
            entries => entries?,
        };
        let mut offset = start;
        for (entry, address) in entries.into_iter().zip(run.addresses()) {
            self.segment(offset, entry, address)?;
            offset += u64::from(entry.bytes);
        }
        Ok(())
    }

    fn segment(&mut self, offset: u64, entry: SegmentEntry, address: SegmentAddress) -> Result<()> {
        if offset != self.end {
            self.under_way.clear();
        }
        self.end = offset + u64::from(entry.bytes);
        let begun = self.wanted.get(&offset).into_iter().flatten();
        self.under_way.extend(begun.map(|wanted| Candidate { wanted: *wanted, found: Vec::new() }));
        self.under_way.iter_mut().for_each(|candidate| candidate.found.push((entry, address)));
        let is_full = |candidate: &mut Candidate| candidate.found.len() == candidate.wanted.0.count as usize;
        let full: Vec<Candidate> = self.under_way.extract_if(.., is_full).collect();
        full.into_iter().try_for_each(|candidate| self.take(candidate))
    }

    fn take(&mut self, Candidate { wanted: (run, digest), found }: Candidate) -> Result<()> {
        if run_digest(found.iter().map(|(entry, _)| &entry.fingerprint)) != digest {
            return Ok(());
        }
        for (address, (entry, copy)) in run.addresses().zip(found) {
            match self.repository.segments(Run::single(copy)) {
                Ok(_) if address != copy => drop(self.copies.insert(address, (entry.fingerprint, copy))),
                Err(error) if !is_damage(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}
