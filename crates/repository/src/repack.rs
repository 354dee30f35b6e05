//! Re-encoding for the archive: the blocks of sealed containers by another codec, beside readers and writers.
//!
//! A container with blocks that shrink is written again with all its segments, at the addresses they always had, and the
//! catalog finds them in the new file from then on; the old one goes when no session is left that may read it. A file is
//! read and written whole before anything changes, so that a killed run leaves a file that nothing needs, which collection
//! removes. Blocks that bear the wanted codec, and those that are stored as they are and a fast codec finds incompressible, are
//! not encoded again: that is all a run knows of the ones before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::LocalCatalog;
use format::{BlockHeader, BlockKind, CodecChoice, CodecId, ContainerId};
use store::{ContainerIndex, LocalStore, StoredBlock};

use crate::collect::{ContainerFile, as_store_error, has_lost_its_end, live_files};
use crate::read::side_by_side;
use crate::{Error, Repository, Result};

/// A file is written again when it becomes shorter by this share (percent): less is not worth the copy.
const MIN_GAIN_PERCENT: u64 = 1;
/// Blocks are encoded by several threads when so many bytes, decoded, or so many blocks were read.
const DECODED_AT_ONCE: usize = 16 << 20;
const BLOCKS_AT_ONCE: usize = 64;
/// The codec that says whether a block is compressible at all.
const FAST: CodecChoice = CodecChoice::Zstd(1);

/// The result of re-encoding a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepackReport {
    /// Container files that were looked at.
    pub containers: u64,
    /// Those among them that were written again.
    pub rewritten: u64,
    /// Those that cannot be read whole, and were left as they are.
    pub damaged: u64,
    /// Lengths of all files that were looked at, before and after.
    pub before_bytes: u64,
    pub after_bytes: u64,
    /// Old files that wait until older sessions end, and their lengths.
    pub waiting: u64,
    pub waiting_bytes: u64,
}

impl RepackReport {
    /// Returns the bytes by which the container files are shorter, or will be once none of the old ones waits.
    pub fn saved_bytes(&self) -> u64 {
        self.before_bytes - self.after_bytes
    }
}

/// A run over all containers.
pub struct Repack<'a> {
    repository: &'a Repository,
    local: &'a LocalStore,
    catalog: &'a dyn LocalCatalog,
    codec: CodecChoice,
    /// The files to look at, with their lengths.
    files: Vec<(ContainerFile, u64)>,
    /// Old files that were not deleted yet: the new file of each, and its own length.
    left: BTreeMap<ContainerId, (ContainerId, u64)>,
    report: RepackReport,
}

impl<'a> Repack<'a> {
    /// Lists the containers of a store, which must be on this machine.
    pub fn begin(repository: &'a Repository, codec: CodecChoice) -> Result<Self> {
        let (local, catalog) = (repository.local_store("repack")?, repository.local_catalog()?);
        let mut files = Vec::new();
        for file in live_files(repository)? {
            match local.file_bytes(file.physical) {
                Ok(bytes) => files.push((file, bytes)),
                // It never got its first byte, or is for `verify` to name.
                Err(error) if error.is_damage() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let (left, report) = (BTreeMap::new(), RepackReport::default());
        Ok(Repack { repository, local, catalog, codec, files, left, report })
    }

    /// Returns the length of all files to look at.
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Looks at all files. `advance` is called with the bytes that were read or passed over, and may wait.
    pub fn run(mut self, advance: &mut dyn FnMut(u64)) -> Result<RepackReport> {
        for (file, bytes) in std::mem::take(&mut self.files) {
            // What this process learned before must hold back neither its own deletions nor those of others.
            self.repository.lease.refresh_now()?;
            let mut read_bytes = 0;
            let mut count = |bytes| {
                read_bytes += bytes;
                advance(bytes);
            };
            match self.look_at(&file, bytes, &mut count) {
                Err(error) if crate::repair::is_damage(&error) => self.report.damaged += 1,
                done => done?,
            }
            advance(bytes.saturating_sub(read_bytes));
            self.delete_left()?;
        }
        self.report.waiting = self.left.len() as u64;
        self.report.waiting_bytes = self.left.values().map(|(_, bytes)| bytes).sum();
        Ok(self.report)
    }

    fn look_at(&mut self, file: &ContainerFile, bytes: u64, advance: &mut dyn FnMut(u64)) -> Result<()> {
        let index = match self.local.index(file.physical) {
            // Collected since the files were listed.
            Err(store::Error::NotFound { .. }) => return Ok(()),
            index => index?,
        };
        if !holds_any(&index, file) {
            // What a killed run left.
            return Ok(());
        }
        self.report.containers += 1;
        self.report.before_bytes += bytes;
        self.report.after_bytes += bytes;
        if !self.is_whole(file, &index, bytes)? {
            self.report.damaged += 1;
            return Ok(());
        }
        if !index.blocks().iter().any(|spot| self.is_worth_trying(&spot.header)) {
            return Ok(());
        }
        let (blocks, saved) = self.encoded_anew(file.physical, advance)?;
        if saved * 100 < bytes * MIN_GAIN_PERCENT || saved == 0 {
            return Ok(());
        }
        self.replace(file, bytes, blocks)
    }

    /// Whether all that the file ever held can be read, as far as is known.
    fn is_whole(&self, file: &ContainerFile, index: &ContainerIndex, bytes: u64) -> Result<bool> {
        let is_understood = index.damages().is_empty() && (index.is_sealed() || index.end_offset() == bytes);
        if !is_understood || has_lost_its_end(self.repository, index)? {
            return Ok(false);
        }
        let lost = self.catalog.lost()?;
        Ok(!lost.iter().any(|lost| file.logical.contains(&lost.address.container)))
    }

    fn is_worth_trying(&self, header: &BlockHeader) -> bool {
        header.kind == BlockKind::Data && !segment::is_encoded_by(header, self.codec)
    }

    /// Returns all blocks of the file, those that shrink by the wanted codec, and the bytes that saves.
    fn encoded_anew(&self, physical: ContainerId, advance: &mut dyn FnMut(u64)) -> Result<(Vec<StoredBlock>, u64)> {
        let (mut encoded, mut waiting, mut saved) = (Vec::new(), Vec::new(), 0);
        let mut encode = |waiting: &mut Vec<StoredBlock>| -> Result<()> {
            let read: u64 = waiting.iter().map(|placed| placed.block.payload.len() as u64).sum();
            let shorter = self.encoded(waiting);
            for (placed, shorter) in waiting.drain(..).zip(shorter) {
                let stored = placed.block.payload.len();
                let kept = shorter?.unwrap_or(placed);
                saved += stored - kept.block.payload.len();
                encoded.push(kept);
            }
            advance(read);
            Ok(())
        };
        self.local.visit_blocks(physical, None, &mut |placed| {
            waiting.push(placed);
            let decoded: usize = waiting.iter().map(|placed| placed.block.header.raw_bytes as usize).sum();
            match decoded >= DECODED_AT_ONCE || waiting.len() >= BLOCKS_AT_ONCE {
                true => encode(&mut waiting).map_err(|error| as_damage(physical, error)),
                false => Ok(()),
            }
        })?;
        encode(&mut waiting)?;
        Ok((encoded, saved as u64))
    }

    /// Returns a shorter block for each that has one.
    fn encoded(&self, blocks: &[StoredBlock]) -> Vec<Result<Option<StoredBlock>>> {
        side_by_side(blocks, |placed| {
            if !self.is_worth_trying(&placed.block.header) {
                return Ok(None);
            }
            let raw = segment::decode_verified(&placed.block, self.repository.settings.fingerprint)?;
            if is_incompressible(placed, &raw)? {
                return Ok(None);
            }
            let block = segment::encode_anew(&placed.block, &raw, self.codec)?;
            let is_shorter = block.payload.len() < placed.block.payload.len();
            Ok(is_shorter.then(|| StoredBlock { labels: placed.labels.clone(), block }))
        })
    }

    /// Writes a file of these blocks, which hold all segments of the old one, and has them found there. So the snapshot
    /// may be taken now: whatever was committed until now is in the new file too.
    fn replace(&mut self, file: &ContainerFile, bytes: u64, blocks: Vec<StoredBlock>) -> Result<()> {
        let (physical, facts) = self.local.write_rewritten(blocks.into_iter().map(Ok))?;
        let moves: Vec<_> = file.logical.iter().map(|logical| (*logical, physical)).collect();
        let moved = match self.catalog.relocate(self.catalog.snapshot()?, &moves) {
            // A collection that ran meanwhile took the new file for one that nothing needs.
            Err(catalog::Error::NotLive { .. }) => Vec::new(),
            moved => moved?,
        };
        if !moved.is_empty() {
            self.report.rewritten += 1;
            self.report.after_bytes = self.report.after_bytes - bytes + facts.stored_bytes.min(bytes);
            self.left.insert(file.physical, (physical, bytes));
        }
        Ok(())
    }

    /// Deletes old files that no session can need any more.
    fn delete_left(&mut self) -> Result<()> {
        if self.left.is_empty() {
            return Ok(());
        }
        self.repository.lease.refresh_now()?;
        for old in self.catalog.deletable()? {
            let Some((new, _)) = self.left.get(&old) else { continue };
            if self.replaces(*new, old)? {
                self.local.remove_file(old)?;
                self.catalog.deleted(&[old])?;
            }
            self.left.remove(&old);
        }
        Ok(())
    }

    /// Whether the new file has every segment of the old one: looked up in the files themselves, as the last check. One
    /// that another run or a collection has replaced or deleted in turn is left to collection.
    fn replaces(&self, new: ContainerId, old: ContainerId) -> Result<bool> {
        match (self.known_index(new)?, self.known_index(old)?) {
            (Some(new), Some(old)) => Ok(old.addresses().all(|(address, segment)| {
                new.segment_at(address).is_some_and(|at| new.segments()[at as usize].fingerprint == segment.fingerprint)
            })),
            _ => Ok(false),
        }
    }

    fn known_index(&self, physical: ContainerId) -> Result<Option<Arc<ContainerIndex>>> {
        match self.local.index(physical) {
            Ok(index) => Ok(Some(index)),
            Err(error) if error.is_damage() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns an error for a visitor of the container's blocks, which says where what cannot be decoded lies.
fn as_damage(physical: ContainerId, error: Error) -> store::Error {
    match error {
        Error::Segment(error) => {
            let path = store::container_file_name(physical);
            store::Error::Corrupt { path, offset: 0, why: error.to_string() }
        }
        other => as_store_error(other),
    }
}

/// Whether a fast codec saves next to nothing of a block that is stored as it is. A slow one would hardly save more, and
/// would be tried again in each run.
fn is_incompressible(placed: &StoredBlock, raw: &[u8]) -> Result<bool> {
    if placed.block.header.codec != CodecId::None {
        return Ok(false);
    }
    let fast = segment::encode_anew(&placed.block, raw, FAST)?;
    Ok((raw.len() - fast.payload.len()) as u64 * 100 < raw.len() as u64 * MIN_GAIN_PERCENT)
}

/// Whether a segment of the containers that the catalog has in this file is there.
fn holds_any(index: &ContainerIndex, file: &ContainerFile) -> bool {
    index.addresses().any(|(address, _)| file.logical.contains(&address.container))
}
