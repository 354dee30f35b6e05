//! Reads the containers on disk, one by one, for verifying, collecting and rebuilding.

use std::collections::BTreeMap;
use std::sync::Arc;

use format::{BlockKind, CONTAINER_HEADER_BYTES, ContainerHeader, ContainerId, Label, Run, TableEntry};

use super::LocalStore;
use crate::container::{self, ContainerIndex, Damage, file_name, number_of, read_blocks};
use crate::{Error, Result, SegmentStore, StoredBlock};

/// The result of reading all of a container's file.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Each has the offset in the file and the cause; segments of a part whose index is lost count only when the footer
    /// has their number.
    pub damages: Vec<Damage>,
    /// The segments of each block that does not match its checksum, by the block's offset in the file.
    pub lost: BTreeMap<u64, Vec<Run>>,
    /// Segments whose blocks match their checksums.
    pub readable_segments: u64,
    /// Length of the file.
    pub stored_bytes: u64,
    /// This many bytes, from the beginning, are parts; what follows is torn, or nothing.
    pub understood_bytes: u64,
    /// Whether it has its footer.
    pub sealed: bool,
}

/// The readable part of a container that may be damaged.
pub struct ReadableParts {
    pub index: ContainerIndex,
    /// Damage of the container's own header, which only [`LocalStore::visit_readable`] skips.
    pub header_damage: Option<Damage>,
}

impl LocalStore {
    /// Returns the numbers of all container files, sorted. Files with other names are skipped.
    pub fn containers_on_disk(&self) -> Result<Vec<ContainerId>> {
        let names = self.shared.files.list(container::FOLDER)?;
        let mut numbers: Vec<ContainerId> = names.iter().filter_map(|name| number_of(name)).collect();
        numbers.sort();
        Ok(numbers)
    }

    /// Returns the length of the container's file (bytes).
    pub fn file_bytes(&self, physical: ContainerId) -> Result<u64> {
        self.shared.files.open(&file_name(physical))?.length()
    }

    /// Returns the header of a file that bears this number and is another container's, or another store's.
    pub fn foreign_header(&self, physical: ContainerId) -> Result<Option<ContainerHeader>> {
        let file = self.shared.files.open(&file_name(physical))?;
        container::foreign_header(&*file, self.shared.store, physical)
    }

    /// Reads the container's index from its file again; a container of this process without what is not yet written.
    /// `Corrupt` when not even its header can be read.
    pub fn index(&self, physical: ContainerId) -> Result<Arc<ContainerIndex>> {
        let file = self.shared.files.open(&file_name(physical))?;
        Ok(Arc::new(container::read_index(&*file, self.shared.store, physical)?))
    }

    /// Passes each block of a container, or those of one kind, to the visitor, payload checked, in the order of the
    /// file. Ends at the first error, its own or the visitor's.
    pub fn visit_blocks(
        &self,
        physical: ContainerId,
        kind: Option<BlockKind>,
        visit: &mut dyn FnMut(StoredBlock) -> Result<()>,
    ) -> Result<()> {
        let file = self.shared.files.open(&file_name(physical))?;
        let index = container::read_index(&*file, self.shared.store, physical)?;
        for spot in index.blocks().iter().filter(|spot| kind.is_none_or(|kind| spot.header.kind == kind)) {
            read_blocks(&*file, vec![index.describe(spot)])?.into_iter().try_for_each(&mut *visit)?;
        }
        Ok(())
    }

    /// Passes each block of one kind and its offset in the file to the visitor; an unreadable one ends nothing, nor
    /// does a damaged header of the container. Returns what was readable. A file that ends within its header holds
    /// nothing, and is reported so: its writer died before its first part.
    pub fn visit_readable(
        &self,
        physical: ContainerId,
        kind: BlockKind,
        visit: &mut dyn FnMut(u64, Result<StoredBlock>),
    ) -> Result<ReadableParts> {
        let file = self.shared.files.open(&file_name(physical))?;
        if file.length()? < CONTAINER_HEADER_BYTES as u64 {
            let index = ContainerIndex::new(physical, CONTAINER_HEADER_BYTES as u64);
            return Ok(ReadableParts { index, header_damage: None });
        }
        let (index, header_damage) = match container::read_index(&*file, self.shared.store, physical) {
            Ok(index) => (index, None),
            Err(Error::Corrupt { path, offset, why }) => match container::read_index_past_header(&*file, physical)? {
                Some(index) => (index, Some(Damage { offset, why, lost_segments: 0 })),
                None => return Err(Error::Corrupt { path, offset, why }),
            },
            Err(error) => return Err(error),
        };
        for spot in index.blocks().iter().filter(|spot| spot.header.kind == kind) {
            let read = read_blocks(&*file, vec![index.describe(spot)]);
            visit(spot.file_offset, read.map(|mut blocks| blocks.remove(0)));
        }
        Ok(ReadableParts { index, header_damage })
    }

    /// Passes the last `limit` blocks of one kind to the visitor, newest first, as far as they can be read. A file that
    /// ends within its header, or is missing, has none.
    pub fn visit_newest(
        &self,
        physical: ContainerId,
        kind: BlockKind,
        limit: usize,
        visit: &mut dyn FnMut(StoredBlock),
    ) -> Result<()> {
        let file = match self.shared.files.open(&file_name(physical)) {
            Err(Error::NotFound { .. }) => return Ok(()),
            opened => opened?,
        };
        if file.length()? < CONTAINER_HEADER_BYTES as u64 {
            return Ok(());
        }
        let index = container::read_outline(&*file, self.shared.store, physical)?;
        let newest = index.blocks().iter().rev().filter(|spot| spot.header.kind == kind).take(limit);
        for spot in newest {
            match read_blocks(&*file, vec![index.describe(spot)]) {
                Ok(blocks) => blocks.into_iter().for_each(&mut *visit),
                Err(Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads all of a container and compares every checksum. Damage is in the report; an error is the disk's.
    pub fn check(&self, physical: ContainerId) -> Result<Report> {
        let file = match self.shared.files.open(&file_name(physical)) {
            Err(Error::Corrupt { offset, why, .. }) => {
                let damages = vec![Damage { offset, why, lost_segments: 0 }];
                return Ok(Report { damages, ..Report::default() });
            }
            opened => opened?,
        };
        let mut report = Report { stored_bytes: file.length()?, ..Report::default() };
        let index = match container::read_index(&*file, self.shared.store, physical) {
            Ok(index) => index,
            Err(Error::Corrupt { offset, why, .. }) => {
                report.damages.push(Damage { offset, why, lost_segments: 0 });
                return Ok(report);
            }
            Err(error) => return Err(error),
        };
        report.sealed = index.is_sealed();
        report.damages.extend_from_slice(index.damages());
        report.understood_bytes = index.end_offset();
        for spot in index.blocks() {
            let plan = index.describe(spot);
            let run = |label: &Label| Run { container: label.container, first: label.first, count: label.count };
            let runs: Vec<Run> = plan.labels.iter().map(run).collect();
            match read_blocks(&*file, vec![plan]) {
                Ok(_) => report.readable_segments += spot.header.segments as u64,
                Err(Error::Corrupt { offset, why, .. }) => {
                    report.damages.push(Damage { offset, why, lost_segments: spot.header.segments as u64 });
                    report.lost.insert(offset, runs);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(report)
    }

    /// Rebuilds the table from the containers. Unreadable ones are left out.
    pub fn rebuild_table(&self) -> Result<()> {
        self.make_durable()?;
        let containers = self.containers_on_disk()?;
        let entries = containers.into_iter().flat_map(|physical| match self.durable_index(physical) {
            Ok(index) => {
                let entry =
                    |(address, segment): (_, &format::SegmentEntry)| Ok(TableEntry::new(&segment.fingerprint, address));
                index.addresses().map(entry).collect::<Vec<_>>()
            }
            Err(Error::Corrupt { .. } | Error::NotFound { .. } | Error::Format(_)) => Vec::new(),
            Err(error) => vec![Err(error)],
        });
        self.shared.table.rebuild(entries)
    }

    /// Deletes the container's file and returns the length it had; none is no error. Nothing may refer to it any more.
    /// A file whose header names another store or another container stays, with an error.
    pub fn remove_file(&self, physical: ContainerId) -> Result<u64> {
        let name = file_name(physical);
        let bytes = match self.shared.files.open(&name).and_then(|file| file.length()) {
            // A directory or link in the file's place is removed like the file.
            Err(Error::NotFound { .. } | Error::Corrupt { .. }) => 0,
            length => length?,
        };
        self.check_bears(physical, &name)?;
        self.shared.files.remove(&name)?;
        self.forget_container(physical);
        Ok(bytes)
    }

    /// Refuses a file of another store, and another container's, which may be its only one. A file whose header cannot be
    /// read is what is left of ours.
    fn check_bears(&self, physical: ContainerId, name: &str) -> Result<()> {
        let refuse = |why: String| Err(Error::Io { path: name.to_owned(), source: std::io::Error::other(why) });
        let read = self.shared.files.open(name).and_then(|file| file.read(0, CONTAINER_HEADER_BYTES));
        match read.ok().and_then(|bytes| ContainerHeader::decode(&bytes).ok()) {
            Some(header) if header.store != self.shared.store => {
                refuse(format!("it is of another store ({}), and was not deleted", header.store))
            }
            Some(header) if header.container != physical => refuse(format!(
                "it is container {}, and was not deleted: move it to {}, or away if that is there",
                header.container,
                file_name(header.container)
            )),
            _ => Ok(()),
        }
    }

    /// Returns the index of what survives power loss: the writer of an unsealed container may not have synced it yet.
    fn durable_index(&self, physical: ContainerId) -> Result<Arc<ContainerIndex>> {
        let index = self.index(physical)?;
        if !index.is_sealed() {
            self.shared.files.open(&file_name(physical))?.sync()?;
            self.shared.files.sync_folder(&file_name(physical))?;
        }
        Ok(index)
    }
}
