//! The golden containers and the golden table: they read back as their source, they are made again byte by byte, and
//! mutations of them do no harm.
//!
//! They are made of the golden blocks of `segment`; `THALWEG_WRITE_GOLDEN=1` writes them again.

use std::path::PathBuf;
use std::sync::Arc;

use format::{
    BLOCK_HEADER_BYTES, Block, BlockHeader, BlockKind, CONTAINER_HEADER_BYTES, CodecId, ContainerId, LABEL_BYTES,
    Label, PART_ENTRY_BYTES, PART_HEADER_BYTES, Reader, Run, SegmentAddress, SegmentEntry, Settings,
};
use thalweg_store::files::{Files, Memory};
use thalweg_store::{
    Answer, ClaimOwner, ContainerIndex, CountingRegistrar, LocalStore, MemoryStore, Options, Registrar, SegmentStore,
    StoredBlock,
};

use crate::{containers, mutation, tables};

const ME: ClaimOwner = ClaimOwner(1);
/// In the order in which they were put; a part ends after the second and the third.
const BLOCKS: [&str; 5] = ["none.bin", "lz4.bin", "zstd.bin", "page.bin", "journal.bin"];
/// Kind, codec and segments of each.
const SHAPES: [(BlockKind, CodecId, u32); 5] = [
    (BlockKind::Data, CodecId::None, 2),
    (BlockKind::Data, CodecId::Lz4, 2),
    (BlockKind::Data, CodecId::Zstd, 3),
    (BlockKind::Page, CodecId::None, 2),
    (BlockKind::Journal, CodecId::None, 1),
];
const CONTAINER: ContainerId = ContainerId(1);
const MOVED: ContainerId = ContainerId(2);
/// How much of its last part the torn container is missing (bytes).
const TORN_BYTES: usize = 100;
/// A store that was opened, and all of a small file several times over.
const MAX_BYTES: usize = 4 << 20;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/v0")
}

fn read(name: &str) -> Vec<u8> {
    let path = folder().join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns a block from its file: header, segment entries, payload.
fn golden_block(name: &str) -> Block {
    let bytes = read(&format!("blocks/{name}"));
    let mut from = Reader::new("block", &bytes);
    let header = BlockHeader::read(&mut from).unwrap();
    let segments = (0..header.segments).map(|_| SegmentEntry::read(&mut from).unwrap()).collect();
    Block { header, segments, payload: from.rest().to_vec() }
}

fn settings() -> Settings {
    Settings::from_text(&String::from_utf8(read("store.toml")).unwrap()).unwrap()
}

fn open(files: &Arc<Memory>) -> LocalStore {
    MemoryStore::over(files.clone(), &settings(), Arc::new(CountingRegistrar::new())).unwrap()
}

fn content(files: &Memory, name: &str) -> Vec<u8> {
    let file = files.open(name).unwrap();
    file.read(0, file.length().unwrap() as usize).unwrap()
}

/// Puts golden files where a store has them.
fn placed(files: &[(&str, &str)]) -> LocalStore {
    let memory = Arc::new(Memory::new());
    for (address, name) in files {
        memory.create(address).unwrap().write_at(0, &[&read(name)]).unwrap();
    }
    open(&memory)
}

/// Returns what a store writes when it is given the golden blocks: name and bytes of each golden file.
fn written() -> Vec<(&'static str, Vec<u8>)> {
    let files = Arc::new(Memory::new());
    let store = open(&files);
    for (number, name) in BLOCKS.iter().enumerate() {
        store.put(ME, &golden_block(name)).unwrap();
        if number == 1 || number == 2 {
            store.make_durable().unwrap();
        }
    }
    store.close().unwrap();
    let container = content(&files, "containers/01/0000000000000001.twc");
    let last_part = *store.index(CONTAINER).unwrap().parts().last().unwrap();
    let torn = container[..(last_part.offset + last_part.bytes) as usize - TORN_BYTES].to_vec();

    // Ordinals 2 and 3, 7 and 8, 9: a block each.
    let moving = [(2, 2), (7, 2), (9, 1)].map(|(first, count)| Run { container: CONTAINER, first, count });
    let moving = moving.iter().flat_map(|run| store.get(*run).unwrap()).collect();
    assert_eq!(rewritten(&files, moving), MOVED);

    let table = Arc::new(Memory::new());
    table.create("containers/01/0000000000000001.twc").unwrap().write_at(0, &[&container]).unwrap();
    open(&table).rebuild_table().unwrap();
    vec![
        ("container.twc", container),
        ("torn.twc", torn),
        ("moved.twc", content(&files, "containers/02/0000000000000002.twc")),
        ("table.run", content(&table, "table/0000000000000001.run")),
        ("table-runs.bin", content(&table, "table/runs")),
    ]
}

/// Rewrites as collection does, with parts so small that each block has its own.
fn rewritten(files: &Arc<Memory>, blocks: Vec<StoredBlock>) -> ContainerId {
    let registrar = Arc::new(CountingRegistrar::new());
    registrar.open().unwrap();
    let options = Options { part_bytes: 400, background: false, ..Default::default() };
    let store = LocalStore::open(files.clone(), files.clone(), &settings(), registrar, options).unwrap();
    store.write_rewritten(blocks.into_iter().map(Ok)).unwrap().0
}

#[test]
fn what_a_store_writes_is_what_the_golden_files_have() {
    for (name, bytes) in written() {
        if std::env::var_os("THALWEG_WRITE_GOLDEN").is_some() {
            std::fs::write(folder().join(name), &bytes).expect("golden files can be written");
        }
        assert!(read(name) == bytes, "{name} is not what is written now");
    }
}

fn check_blocks(store: &LocalStore, container: ContainerId, numbers: &[usize]) {
    let index = store.index(container).unwrap();
    let mut expected = numbers.iter();
    let visit = &mut |placed: StoredBlock| {
        let number = *expected.next().expect("no more blocks than were put");
        let golden = golden_block(BLOCKS[number]);
        let header = placed.block.header;
        assert_eq!((header.kind, header.codec, header.segments), SHAPES[number]);
        assert_eq!(placed.block, golden);
        let first = SHAPES[..number].iter().map(|shape| shape.2).sum();
        assert_eq!(placed.labels, [Label { container: CONTAINER, first, count: header.segments }]);
        assert!(placed.addresses().all(|address| index.segment_at(address).is_some()));
        Ok(())
    };
    store.visit_blocks(container, None, visit).unwrap();
    assert_eq!(expected.next(), None);
    assert_eq!(index.damages(), []);
}

fn part_segments(index: &ContainerIndex) -> Vec<u32> {
    index.parts().iter().map(|part| part.segments).collect()
}

#[test]
fn the_sealed_container_holds_the_golden_blocks() {
    let store = placed(&[("containers/01/0000000000000001.twc", "container.twc")]);
    let index = store.index(CONTAINER).unwrap();
    assert!(index.is_sealed());
    assert_eq!(part_segments(&index), [4, 3, 3]);
    check_blocks(&store, CONTAINER, &[0, 1, 2, 3, 4]);
}

#[test]
fn the_torn_container_ends_before_its_last_part() {
    let store = placed(&[("containers/01/0000000000000001.twc", "torn.twc")]);
    let index = store.index(CONTAINER).unwrap();
    assert!(!index.is_sealed());
    assert_eq!(part_segments(&index), [4, 3]);
    assert!(index.end_offset() < read("torn.twc").len() as u64);
    check_blocks(&store, CONTAINER, &[0, 1, 2]);
}

#[test]
fn the_moved_container_bears_the_numbers_of_the_one_it_replaces() {
    let store = placed(&[("containers/02/0000000000000002.twc", "moved.twc")]);
    let index = store.index(MOVED).unwrap();
    assert!(index.is_sealed());
    assert_eq!(part_segments(&index), [2, 2, 1]);
    check_blocks(&store, MOVED, &[1, 3, 4]);
    assert_eq!(index.segment_at(SegmentAddress::new(CONTAINER, 0)), None);
    assert_eq!(index.segment_at(SegmentAddress::new(MOVED, 0)), None);
}

#[test]
fn the_table_finds_what_the_container_holds() {
    let store = placed(&[
        ("containers/01/0000000000000001.twc", "container.twc"),
        ("table/0000000000000001.run", "table.run"),
        ("table/runs", "table-runs.bin"),
    ]);
    assert_eq!(store.table_entries(), 10);
    let segments = store.entries(Run { container: CONTAINER, first: 0, count: 10 }).unwrap();
    let fingerprints: Vec<_> = segments.iter().map(|segment| segment.fingerprint).collect();
    let addresses = (0..10).map(|ordinal| Answer::Have(SegmentAddress::new(CONTAINER, ordinal)));
    assert!(store.missing(ME, &fingerprints).unwrap().into_iter().eq(addresses));
}

#[test]
fn mutated_containers_do_no_harm() {
    let names = ["container.twc", "torn.twc", "moved.twc"];
    mutation::fuzz(&names, mutation::INPUTS, MAX_BYTES, containers::container);
}

#[test]
fn mutated_runs_of_the_table_do_no_harm() {
    mutation::fuzz(&["table.run"], mutation::INPUTS, MAX_BYTES, tables::table_run);
}

#[test]
fn mutated_lists_of_runs_do_no_harm() {
    mutation::fuzz(&["table-runs.bin"], mutation::INPUTS / 4, MAX_BYTES, tables::run_list);
}

#[test]
fn a_footer_longer_than_numbers_reach_is_no_footer() {
    let mut bytes = read("container.twc");
    let footer = bytes.len() - (PART_HEADER_BYTES + 4 * PART_ENTRY_BYTES);
    bytes[footer + 40..footer + 48].copy_from_slice(&u64::MAX.to_le_bytes());
    containers::container(&bytes);
}

#[test]
fn a_run_of_more_entries_than_numbers_reach_is_passed_over() {
    let mut bytes = read("table.run");
    bytes[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
    tables::table_run(&bytes);
}

#[test]
fn a_filter_with_room_for_no_key_is_passed_over() {
    let mut bytes = read("table.run");
    // Seed, segment length, mask, length of all segments but two, bytes in all; then 3 × 16 bytes.
    let shape = bytes.len() - 48 - 24;
    assert_eq!(bytes[shape + 8..shape + 24], [16, 15, 16, 48].map(u32::to_le_bytes).concat());
    bytes[shape + 16..shape + 24].copy_from_slice(&[0, 32].map(u32::to_le_bytes).concat());
    bytes.truncate(bytes.len() - 16);
    tables::table_run(&bytes);
}

#[test]
fn a_block_without_segments_is_damage() {
    // The first part as if its first block were two: an empty one, then what it was.
    let bytes = read("container.twc");
    let (header, part) = bytes.split_at(CONTAINER_HEADER_BYTES);
    let block = PART_HEADER_BYTES + LABEL_BYTES;
    let mut empty = part[block..block + BLOCK_HEADER_BYTES].to_vec();
    empty[24..36].fill(0);
    let mut forged = [header, &part[..block], &empty, &part[block..]].concat();
    forged[CONTAINER_HEADER_BYTES + 28] += 1;
    containers::seal(&mut forged);
    let index = index_of(&forged);
    assert_eq!((index.parts().len(), index.damages().len()), (2, 1));
}

/// Returns the index a store reads from a container's file.
fn index_of(container: &[u8]) -> Arc<ContainerIndex> {
    let files = Arc::new(Memory::new());
    files.create("containers/01/0000000000000001.twc").unwrap().write_at(0, &[container]).unwrap();
    open(&files).index(CONTAINER).unwrap()
}

#[test]
fn a_part_whose_labels_overlap_is_damage() {
    // The first part as if its label were two, of which the second repeats the first address of the first.
    let bytes = read("container.twc");
    let (header, part) = bytes.split_at(CONTAINER_HEADER_BYTES);
    let (head, rest) = part.split_at(PART_HEADER_BYTES);
    let (label, rest) = rest.split_at(LABEL_BYTES);
    let count = u32::from_le_bytes(label[12..].try_into().unwrap());
    let counted = |count: u32| [&label[..12], &count.to_le_bytes()].concat();
    let mut forged = [header, head, &counted(count - 1), &counted(1), rest].concat();
    forged[CONTAINER_HEADER_BYTES + 24] += 1;
    containers::seal(&mut forged);
    let index = index_of(&forged);
    assert_eq!((index.parts().len(), index.damages().len()), (2, 1));
    containers::container(&forged);
}

#[test]
fn a_part_with_places_of_an_earlier_part_is_damage() {
    let mut bytes = read("container.twc");
    let second = index_of(&bytes).parts()[1].offset as usize;
    let label = second + PART_HEADER_BYTES;
    let first = u32::from_le_bytes(bytes[label + 8..label + 12].try_into().unwrap());
    bytes[label + 8..label + 12].copy_from_slice(&(first - 1).to_le_bytes());
    containers::seal(&mut bytes);
    for forged in [&bytes[..], &bytes[..bytes.len() - 1]] {
        let index = index_of(forged);
        assert_eq!((index.parts().len(), index.damages().len()), (2, 1), "with its footer and without");
        containers::container(forged);
    }
}
