//! A container's file, as a store opens, reads, checks and searches it.

use std::sync::Arc;

use format::{
    BLOCK_HEADER_BYTES, CONTAINER_HEADER_BYTES, ContainerHeader, ContainerId, LABEL_BYTES, PART_HEADER_BYTES,
    PartHeader, Run, Settings, StoreId, checksum,
};
use store::files::{Files, Memory};
use store::{ClaimOwner, CountingRegistrar, LocalStore, MemoryStore, SegmentStore};

/// Where the checksum of a block stands in its header, and that of a part's index in the part's.
const BLOCK_CHECKSUM_AT: usize = 48;
const INDEX_CHECKSUM_AT: usize = 48;

pub fn container(bytes: &[u8]) {
    open(bytes);
    let mut sealed = bytes.to_vec();
    seal(&mut sealed);
    if sealed != bytes {
        open(&sealed);
    }
}

/// As the container it says it is, in the store it says it belongs to: others are refused by these two alone.
fn open(bytes: &[u8]) {
    let (store, container) = match ContainerHeader::decode(bytes) {
        Ok(header) if header.container.0 < 1 << 40 => (header.store, header.container),
        _ => (StoreId::default(), ContainerId(1)),
    };
    let files = Arc::new(Memory::new());
    let name = format!("containers/{:02x}/{container}.twc", container.0 & 0xff);
    files.create(&name).and_then(|file| file.write_at(0, &[bytes])).expect("files in memory take all");
    let store = MemoryStore::over(files, &Settings::new(store), Arc::new(CountingRegistrar::new()));
    read(&store.expect("an empty folder opens"), container);
}

fn read(store: &LocalStore, container: ContainerId) {
    let report = store.check(container);
    let Ok(index) = store.index(container) else { return };
    assert_eq!(report.expect("what can be opened can be checked").sealed, index.is_sealed());
    for (address, entry) in index.addresses() {
        let found = index.segment_at(address).expect("a place of the index is in it");
        assert_eq!(index.address_of(found), address, "and there once");
        let _ = index.find(&entry.fingerprint).expect("a fingerprint of the index is in it");
        let _ = store.get(Run { container: address.container, first: address.ordinal, count: 2 });
        let _ = store.entries(Run::single(address));
    }
    let _ = store.visit_blocks(container, None, &mut |placed| {
        assert!(placed.block.check().is_ok() && placed.addresses().count() == placed.block.segments.len());
        Ok(())
    });
    store.rebuild_table().expect("a damaged container is left out");
    let fingerprints: Vec<_> = index.segments().iter().map(|segment| segment.fingerprint).collect();
    let _ = store.missing(ClaimOwner(1), &fingerprints);
}

/// Makes every checksum right that can be found: of the header, and of each part its blocks', its index', its own.
pub fn seal(bytes: &mut [u8]) {
    close(bytes, 0, CONTAINER_HEADER_BYTES);
    let mut offset = CONTAINER_HEADER_BYTES;
    loop {
        close(bytes, offset, PART_HEADER_BYTES);
        let Some(header) = bytes.get(offset..).and_then(|part| PartHeader::decode(part).ok()) else { return };
        let index = offset + PART_HEADER_BYTES;
        let index_bytes = if header.footer { header.data_bytes } else { header.index_bytes() };
        let Some(data) = usize::try_from(index_bytes).ok().and_then(|bytes| index.checked_add(bytes)) else { return };
        seal_blocks(bytes, &header, index, data);
        let Some(sum) = bytes.get(index..data).map(checksum) else { return };
        bytes[offset + INDEX_CHECKSUM_AT..][..8].copy_from_slice(&sum.to_le_bytes());
        close(bytes, offset, PART_HEADER_BYTES);
        let Some(next) = usize::try_from(header.data_bytes).ok().and_then(|bytes| data.checked_add(bytes)) else {
            return;
        };
        offset = next;
    }
}

fn seal_blocks(bytes: &mut [u8], header: &PartHeader, index: usize, data: usize) {
    let blocks = index + header.labels as usize * LABEL_BYTES;
    for at in (blocks..).step_by(BLOCK_HEADER_BYTES).take(header.blocks as usize) {
        let Some(block) = bytes.get(at..at + BLOCK_HEADER_BYTES) else { return };
        let stored_bytes = u32::from_le_bytes(block[32..36].try_into().expect("4 bytes")) as usize;
        let offset = u64::from_le_bytes(block[40..48].try_into().expect("8 bytes"));
        let start = usize::try_from(offset).ok().and_then(|offset| data.checked_add(offset));
        let payload = start.and_then(|start| bytes.get(start..start.checked_add(stored_bytes)?));
        let Some(sum) = payload.map(checksum) else { continue };
        bytes[at + BLOCK_CHECKSUM_AT..][..8].copy_from_slice(&sum.to_le_bytes());
    }
}

/// The last eight bytes of a header are the checksum of the others.
fn close(bytes: &mut [u8], offset: usize, header_bytes: usize) {
    let Some(header) = bytes.get_mut(offset..).and_then(|rest| rest.get_mut(..header_bytes)) else { return };
    let (body, sum) = header.split_at_mut(header_bytes - 8);
    sum.copy_from_slice(&checksum(body).to_le_bytes());
}
