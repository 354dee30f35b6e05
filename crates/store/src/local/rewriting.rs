//! Containers written by collection: blocks of other containers, under the numbers they always had.

use format::{CONTAINER_HEADER_BYTES, ContainerId};

use super::writing::explain_existing;
use super::{LocalStore, Shared};
use crate::container::{ContainerIndex, PartBuilder, file_name, footer};
use crate::files::File;
use crate::{Result, SealedContainer, StoredBlock};

impl LocalStore {
    /// Writes a new container of the given blocks under their labels, seals it, and reports it to the catalog. It is
    /// durable when this returns; after an error its file is gone.
    pub fn write_rewritten(
        &self,
        blocks: impl IntoIterator<Item = Result<StoredBlock>>,
    ) -> Result<(ContainerId, SealedContainer)> {
        let shared = &*self.shared;
        let physical = shared.registrar.open()?;
        let name = file_name(physical);
        let file = shared.files.create(&name).map_err(explain_existing)?;
        let written = shared.fill(physical, &*file, blocks).and_then(|facts| {
            shared.files.sync_folder(&name)?;
            shared.check_presence(Some((&name, &*file)))?;
            shared.registrar.sealed(physical, facts).map(|()| facts)
        });
        if written.is_err() {
            // Best effort: the file refers to nothing new, and the error to report came first.
            let _ = shared.files.remove(&name);
        }
        written.map(|facts| (physical, facts))
    }
}

impl Shared {
    fn fill(
        &self,
        physical: ContainerId,
        file: &dyn File,
        blocks: impl IntoIterator<Item = Result<StoredBlock>>,
    ) -> Result<SealedContainer> {
        file.write_at(0, &[&self.container_header(physical)])?;
        let mut index = ContainerIndex::new(physical, CONTAINER_HEADER_BYTES as u64);
        let mut part = PartBuilder::default();
        for placed in blocks {
            let placed = placed?;
            placed.block.check()?;
            part.append(&placed.labels, &placed.block);
            if part.data_bytes() >= self.options.part_bytes {
                write_part(file, &mut index, std::mem::take(&mut part))?;
            }
        }
        if !part.is_empty() {
            write_part(file, &mut index, part)?;
        }
        // A footer asserts that what is before it is durable.
        file.sync()?;
        let offset = index.end_offset();
        let footer = footer(physical, index.next_part(), offset, index.parts());
        file.write_at(offset, &[&footer])?;
        file.sync()?;
        let segments = index.segments().len() as u64;
        Ok(SealedContainer { stored_bytes: offset + footer.len() as u64, segments })
    }
}

fn write_part(file: &dyn File, index: &mut ContainerIndex, part: PartBuilder) -> Result<()> {
    let part = part.finish(index.container(), index.next_part());
    let offset = index.end_offset();
    file.write_at(offset, &[&part.head, &part.data])?;
    index.add_part(offset, part.index);
    Ok(())
}
