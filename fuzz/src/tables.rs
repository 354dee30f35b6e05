//! A run of the fingerprint table, and the list of runs, as a store opens and searches them.

use std::sync::Arc;

use format::{
    Fingerprint, Settings, StoreId, TABLE_ENTRY_BYTES, TABLE_HEADER_BYTES, TABLE_PREFIX_BYTES, TableHeader, checksum,
};
use store::files::{Files, Memory};
use store::{Answer, ClaimOwner, CountingRegistrar, LocalStore, MemoryStore, SegmentStore};

/// Entries that are looked for.
const MAX_LOOKUPS: usize = 64;

pub fn table_run(bytes: &[u8]) {
    search(bytes);
    let mut sealed = bytes.to_vec();
    seal(&mut sealed);
    if sealed != bytes {
        search(&sealed);
    }
}

pub fn run_list(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    for record in sealed.as_chunks_mut::<32>().0 {
        let sum = checksum(&record[..24]);
        record[24..].copy_from_slice(&sum.to_le_bytes());
    }
    for list in [bytes, &sealed] {
        let store = store(StoreId::default(), &[("table/runs", list)]);
        assert_eq!(store.table_entries(), 0, "no run that it names is there");
        store.rebuild_table().expect("a list without runs is replaced");
    }
}

/// Lists the run as its header describes it, and looks for its first entries and for what is not in it.
fn search(run: &[u8]) {
    let header = TableHeader::decode(run).ok();
    let (store_id, entries, sum) =
        header.map_or_else(Default::default, |header| (header.store, header.entries, header.filter_checksum));
    let mut list = [1, entries, sum].map(u64::to_le_bytes).concat();
    list.extend_from_slice(&checksum(&list).to_le_bytes());
    let store = store(store_id, &[("table/runs", &list), ("table/0000000000000001.run", run)]);

    let entries = run.get(TABLE_HEADER_BYTES..).unwrap_or_default().as_chunks::<TABLE_ENTRY_BYTES>().0;
    let known = entries.iter().take(MAX_LOOKUPS).map(|entry| fingerprint_from(&entry[..TABLE_PREFIX_BYTES]));
    let others = [[0; 16], [0xff; 16], [0x80; 16]].map(|prefix| fingerprint_from(&prefix));
    let mut wanted: Vec<Fingerprint> = known.chain(others).collect();
    wanted.sort();
    wanted.dedup();
    let answers = store.missing(ClaimOwner(1), &wanted).expect("the table is a hint: it fails no look-up");
    assert!(answers.iter().all(|answer| *answer == Answer::Send), "no container confirms what the run says");
    let _ = (store.table_entries(), store.table_memory_bytes());
    let _ = store.maintain();
    store.rebuild_table().expect("whatever the run is, it can be replaced");
}

fn fingerprint_from(prefix: &[u8]) -> Fingerprint {
    let mut bytes = [0; Fingerprint::BYTES];
    bytes[..prefix.len()].copy_from_slice(prefix);
    Fingerprint(bytes)
}

fn store(store: StoreId, files: &[(&str, &[u8])]) -> LocalStore {
    let memory = Arc::new(Memory::new());
    for (name, bytes) in files {
        memory.create(name).and_then(|file| file.write_at(0, &[bytes])).expect("files in memory take all");
    }
    MemoryStore::over(memory, &Settings::new(store), Arc::new(CountingRegistrar::new())).expect("nothing to refuse")
}

/// Makes the lengths and both checksums what they should be for the run to be opened.
fn seal(run: &mut [u8]) {
    let Some((header, rest)) = run.split_at_mut_checked(TABLE_HEADER_BYTES) else { return };
    let entries = u64::from_le_bytes(header[32..40].try_into().expect("8 bytes"));
    let index = usize::try_from(entries).ok().and_then(|entries| entries.checked_mul(TABLE_ENTRY_BYTES));
    if let Some(index) = index.and_then(|at| rest.get(at..)) {
        header[40..48].copy_from_slice(&(index.len() as u64).to_le_bytes());
        header[48..56].copy_from_slice(&checksum(index).to_le_bytes());
    }
    let sum = checksum(&header[..TABLE_HEADER_BYTES - 8]);
    header[TABLE_HEADER_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
}
