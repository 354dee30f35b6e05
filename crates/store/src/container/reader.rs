//! Reading containers: by the footer where there is one, else by walking forward from part to part.
//!
//! Without a footer the last parts may be torn: their blocks' checksums are compared, and the container ends before the
//! first part after which nothing whole follows. A damaged part in the middle is reported and skipped.

use std::io::IoSliceMut;

use format::{
    CONTAINER_HEADER_BYTES, ContainerHeader, ContainerId, PART_ENTRY_BYTES, PART_HEADER_BYTES, PartEntry, PartHeader,
    Reader, StoreId, checksum,
};

use super::index::{BlockPlan, ContainerIndex, PartIndex};
use super::read_ahead::ReadAhead;
use crate::files::File;
use crate::{Error, Result, StoredBlock};

/// At most this much is read from the file in one call (bytes).
const READ_BYTES: usize = 8 << 20;

/// Reads and checks the container's whole index from its file.
pub fn read_index(file: &dyn File, store: StoreId, container: ContainerId) -> Result<ContainerIndex> {
    let length = check_header(file, store, container)?;
    read_parts(file, container, length, Blocks::Compared)
}

/// As `read_index`, without reading the blocks of a file that has no footer: the last part may be torn.
pub fn read_outline(file: &dyn File, store: StoreId, container: ContainerId) -> Result<ContainerIndex> {
    let length = check_header(file, store, container)?;
    read_parts(&ReadAhead::new(file, length), container, length, Blocks::Believed)
}

/// Whether the blocks of a file without a footer are read and compared with their checksums.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocks {
    Compared,
    Believed,
}

/// Returns the header of a file that is another container's, or another store's: it was copied there. None where the
/// header is the container's own, or cannot be read.
pub fn foreign_header(file: &dyn File, store: StoreId, container: ContainerId) -> Result<Option<ContainerHeader>> {
    if file.length()? < CONTAINER_HEADER_BYTES as u64 {
        return Ok(None);
    }
    let header = ContainerHeader::decode(&file.read(0, CONTAINER_HEADER_BYTES)?).ok();
    Ok(header.filter(|header| header.store != store || header.container != container))
}

/// Returns the length of the file.
fn check_header(file: &dyn File, store: StoreId, container: ContainerId) -> Result<u64> {
    let length = file.length()?;
    if length < CONTAINER_HEADER_BYTES as u64 {
        return damaged(file, 0, "the file is shorter than a container's header");
    }
    let header =
        ContainerHeader::decode(&file.read(0, CONTAINER_HEADER_BYTES)?).map_err(|why| located(file, 0, why))?;
    if header.store != store || header.container != container {
        let why = format!("this is container {} of store {}", header.container, header.store);
        return damaged(file, 0, why);
    }
    Ok(length)
}

/// Returns the index of a container whose own header is damaged, from its parts; none when its header can be read, or
/// it has none. Each part has the container's number and a checksum, so that no part of another container is taken for
/// this one's.
pub fn read_index_past_header(file: &dyn File, container: ContainerId) -> Result<Option<ContainerIndex>> {
    let length = file.length()?;
    if length < CONTAINER_HEADER_BYTES as u64 || ContainerHeader::decode(&file.read(0, CONTAINER_HEADER_BYTES)?).is_ok()
    {
        return Ok(None);
    }
    read_parts(file, container, length, Blocks::Compared).map(Some)
}

fn read_parts(file: &dyn File, container: ContainerId, length: u64, blocks: Blocks) -> Result<ContainerIndex> {
    let mut index = ContainerIndex::new(container, CONTAINER_HEADER_BYTES as u64);
    match find_footer(file, container, length)? {
        Some(parts) => read_listed(file, &mut index, &parts, length)?,
        None => walk(file, &mut index, length, blocks)?,
    }
    Ok(index)
}

/// Returns the same index with what was added to the file since; none if that is nothing.
pub fn refresh_index(file: &dyn File, index: &ContainerIndex) -> Result<Option<ContainerIndex>> {
    let length = file.length()?;
    if index.is_sealed() || length <= index.end_offset() {
        return Ok(None);
    }
    let mut grown = index.copy();
    walk(file, &mut grown, length, Blocks::Compared)?;
    Ok((grown.end_offset() > index.end_offset()).then_some(grown))
}

/// Returns the parts the footer lists; none when the file does not end in a footer.
fn find_footer(file: &dyn File, container: ContainerId, length: u64) -> Result<Option<Vec<PartEntry>>> {
    let first = (CONTAINER_HEADER_BYTES + PART_HEADER_BYTES + PART_ENTRY_BYTES) as u64;
    if length < first {
        return Ok(None);
    }
    let last = file.read(length - PART_ENTRY_BYTES as u64, PART_ENTRY_BYTES)?;
    let itself = PartEntry::read(&mut Reader::new("part list", &last)).map_err(|why| located(file, length, why))?;
    let fits =
        itself.offset >= CONTAINER_HEADER_BYTES as u64 && itself.offset.checked_add(itself.bytes) == Some(length);
    if !fits || itself.bytes < (PART_HEADER_BYTES + PART_ENTRY_BYTES) as u64 {
        return Ok(None);
    }
    let bytes = file.read(itself.offset, itself.bytes as usize)?;
    let (head, list) = bytes.split_at(PART_HEADER_BYTES);
    match PartHeader::decode(head) {
        Ok(header) if header.footer && header.container == container && header.part_bytes() == itself.bytes => {
            Ok(listed_parts(&header, list, itself.offset))
        }
        _ => Ok(None),
    }
}

/// Returns the footer's list without its own entry; none when it is not what the header says, or leaves a gap.
fn listed_parts(header: &PartHeader, list: &[u8], footer_offset: u64) -> Option<Vec<PartEntry>> {
    if checksum(list) != header.index_checksum || !list.len().is_multiple_of(PART_ENTRY_BYTES) {
        return None;
    }
    let mut from = Reader::new("part list", list);
    let mut parts = Vec::new();
    let mut offset = CONTAINER_HEADER_BYTES as u64;
    while from.rest().len() > PART_ENTRY_BYTES {
        let part = PartEntry::read(&mut from).ok()?;
        if part.offset != offset || part.bytes < PART_HEADER_BYTES as u64 {
            return None;
        }
        offset = offset.checked_add(part.bytes)?;
        parts.push(part);
    }
    (offset == footer_offset).then_some(parts)
}

fn read_listed(file: &dyn File, index: &mut ContainerIndex, parts: &[PartEntry], length: u64) -> Result<()> {
    for part in parts {
        let found = read_part(file, index, part.offset, part.offset + part.bytes)?;
        match found.and_then(|found| index.accept(found)) {
            Ok(found) if found.header.part_bytes() == part.bytes => {
                index.add_part(part.offset, found);
            }
            Ok(_) => index.lose_part(part, "the part is not the one the footer lists".into()),
            Err(why) => index.lose_part(part, why),
        }
    }
    index.seal(length);
    Ok(())
}

/// Adds the whole parts that follow the index' end. Damage counts only when something whole comes after it.
fn walk(file: &dyn File, index: &mut ContainerIndex, length: u64, blocks: Blocks) -> Result<()> {
    let mut damaged: Vec<(PartEntry, Unreadable)> = Vec::new();
    let mut offset = index.end_offset();
    while offset + PART_HEADER_BYTES as u64 <= length {
        let number = index.next_part() + damaged.len() as u32;
        let Some(header) = whole_header(file, index.container(), number, offset, length)? else { break };
        let (bytes, segments) = (header.part_bytes(), header.segments);
        let read = read_whole_part(file, header, offset, blocks)?;
        match read.and_then(|part| index.accept(part).map_err(Unreadable::unlisted)) {
            Ok(part) => {
                damaged.drain(..).for_each(|(lost, unreadable)| {
                    unreadable.keep_names(index, lost.offset);
                    index.lose_part(&lost, unreadable.why);
                });
                index.add_part(offset, part);
            }
            Err(unreadable) => damaged.push((PartEntry { offset, bytes, segments }, unreadable)),
        }
        offset += bytes;
    }
    damaged.into_iter().for_each(|(torn, unreadable)| unreadable.keep_names(index, torn.offset));
    Ok(())
}

/// Why a part cannot be read, and its segments' fingerprints, if its index has them.
struct Unreadable {
    why: String,
    names: Option<Box<PartIndex>>,
}

impl Unreadable {
    fn unlisted(why: String) -> Self {
        Unreadable { why, names: None }
    }

    fn keep_names(&self, index: &mut ContainerIndex, offset: u64) {
        self.names.iter().for_each(|part| index.keep_names(offset, PartIndex::clone(part)));
    }
}

/// Returns the header at `offset`, if it is the one that should be there and its part ends before `end`.
fn whole_header(
    file: &dyn File,
    container: ContainerId,
    number: u32,
    offset: u64,
    end: u64,
) -> Result<Option<PartHeader>> {
    let header = PartHeader::decode(&file.read(offset, PART_HEADER_BYTES)?).ok();
    Ok(header.filter(|header| {
        let fits = part_end(header, offset).is_some_and(|part_end| part_end <= end);
        fits && header.container == container && header.number == number && !header.footer
    }))
}

/// Returns the part with its blocks compared to their checksums, or what is wrong with it.
fn read_whole_part(
    file: &dyn File,
    header: PartHeader,
    offset: u64,
    blocks: Blocks,
) -> Result<std::result::Result<PartIndex, Unreadable>> {
    let data_offset = offset + PART_HEADER_BYTES as u64 + header.index_bytes();
    let part = match read_part_index(file, header, offset)? {
        Ok(part) => part,
        Err(why) => return Ok(Err(Unreadable::unlisted(why))),
    };
    for block in part.blocks.iter().filter(|_| blocks == Blocks::Compared) {
        let payload = file.read(data_offset + block.offset, block.stored_bytes as usize)?;
        if checksum(&payload) != block.checksum {
            let why = "a block does not match its checksum".to_owned();
            return Ok(Err(Unreadable { why, names: Some(Box::new(part)) }));
        }
    }
    Ok(Ok(part))
}

fn read_part_index(file: &dyn File, header: PartHeader, offset: u64) -> Result<std::result::Result<PartIndex, String>> {
    let bytes = file.read(offset + PART_HEADER_BYTES as u64, header.index_bytes() as usize)?;
    Ok(PartIndex::decode(header, &bytes).map_err(|why| why.to_string()))
}

/// Returns header and index of a part the footer lists, or what is wrong with it.
fn read_part(
    file: &dyn File,
    index: &ContainerIndex,
    offset: u64,
    end: u64,
) -> Result<std::result::Result<PartIndex, String>> {
    match whole_header(file, index.container(), index.next_part(), offset, end)? {
        Some(header) => read_part_index(file, header, offset),
        None => Ok(Err("the part's header is damaged".into())),
    }
}

/// Returns where the part ends, if its lengths make sense at all.
fn part_end(header: &PartHeader, offset: u64) -> Option<u64> {
    let before_data = PART_HEADER_BYTES as u64 + header.index_bytes();
    offset.checked_add(before_data)?.checked_add(header.data_bytes)
}

/// Reads the blocks with their payloads, checked; one read for each contiguous range.
pub fn read_blocks(file: &dyn File, plans: Vec<BlockPlan>) -> Result<Vec<StoredBlock>> {
    let mut blocks = Vec::with_capacity(plans.len());
    let mut plans = plans.into_iter();
    while !plans.as_slice().is_empty() {
        let count = contiguous(plans.as_slice());
        let range = &plans.as_slice()[..count];
        let offset = range[0].spot.file_offset;
        let mut payloads: Vec<_> = range.iter().map(|plan| vec![0; plan.spot.header.stored_bytes as usize]).collect();
        let mut pieces: Vec<IoSliceMut> = payloads.iter_mut().map(|payload| IoSliceMut::new(payload)).collect();
        file.read_pieces_at(offset, &mut pieces)?;
        for (plan, payload) in plans.by_ref().take(count).zip(payloads) {
            let offset = plan.spot.file_offset;
            match plan.complete(payload) {
                Some(block) => blocks.push(block),
                None => return damaged(file, offset, "a block does not match its checksum"),
            }
        }
    }
    Ok(blocks)
}

/// Returns how many of the blocks, from the first, lie one behind the other and are read at once.
fn contiguous(plans: &[BlockPlan]) -> usize {
    let mut bytes = plans[0].spot.header.stored_bytes as usize;
    let follows = plans.windows(2).take_while(|pair| {
        let (before, after) = (&pair[0].spot, &pair[1].spot);
        bytes += after.header.stored_bytes as usize;
        before.file_offset + before.header.stored_bytes as u64 == after.file_offset && bytes <= READ_BYTES
    });
    1 + follows.count()
}

fn damaged<T>(file: &dyn File, offset: u64, why: impl Into<String>) -> Result<T> {
    Err(Error::Corrupt { path: file.path().to_owned(), offset, why: why.into() })
}

/// Adds file and offset to an error; a newer version keeps its error, since the file is whole.
fn located(file: &dyn File, offset: u64, why: format::Error) -> Error {
    match why {
        format::Error::TooNew { .. } => Error::Format(why),
        _ => Error::Corrupt { path: file.path().to_owned(), offset, why: why.to_string() },
    }
}
