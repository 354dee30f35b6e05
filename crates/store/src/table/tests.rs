use format::ContainerId;

use super::*;
use crate::conformance::fingerprint;
use crate::files::Memory;

const STORE: StoreId = StoreId([4; 16]);

fn table(files: &Arc<Memory>) -> Table {
    Table::new(files.clone(), STORE, Duration::ZERO)
}

fn entry(number: u64) -> TableEntry {
    TableEntry::new(&fingerprint(number), SegmentAddress::new(ContainerId(number / 1000 + 1), (number % 1000) as u32))
}

fn has(table: &Table, number: u64) -> bool {
    table.runs().candidates(&fingerprint(number)).contains(&entry(number).address)
}

fn publish(table: &Table, numbers: std::ops::Range<u64>) {
    table.publish(numbers.map(entry).collect()).unwrap();
}

#[test]
fn what_one_process_publishes_the_other_finds() {
    let files = Arc::new(Memory::new());
    let (one, other) = (table(&files), table(&files));
    publish(&one, 0..1000);
    publish(&other, 1000..1001);
    for table in [&one, &other] {
        assert!((0..1001).all(|number| has(table, number)));
        assert!(!(2000..3000).any(|number| has(table, number)));
    }
}

#[test]
fn merging_keeps_all_and_readers_of_the_old_runs_go_on() {
    let files = Arc::new(Memory::new());
    let (one, other) = (table(&files), table(&files));
    (0..21).for_each(|run| publish(&one, run * 700..(run + 1) * 700));
    let before = other.runs();
    while one.merge().unwrap() {}
    assert!(lock(&one.loaded).runs.len() < 4);
    for number in 0..21 * 700 {
        assert!(has(&one, number) && has(&other, number), "{number}");
        assert!(!before.candidates(&fingerprint(number)).is_empty(), "{number}");
    }
    assert_eq!(one.entries(), 21 * 700);
}

#[test]
fn addresses_of_equal_segments_are_all_kept_even_across_pages_and_slices() {
    let files = Arc::new(Memory::new());
    let one = table(&files);
    let addresses = (0..5000).map(|ordinal| SegmentAddress::new(ContainerId(1), ordinal));
    let same = addresses.clone().map(|address| TableEntry::new(&fingerprint(5), address));
    let others = (fences::SLICE_ENTRIES as u64 - 2500..fences::SLICE_ENTRIES as u64 + 2500).map(entry);
    one.publish(same.chain(others).collect()).unwrap();
    let mut found = one.runs().candidates(&fingerprint(5));
    found.sort();
    assert!(found.into_iter().eq(addresses));
}

#[test]
fn slices_of_a_long_run_find_what_is_at_their_edges() {
    let files = Arc::new(Memory::new());
    let one = table(&files);
    let count = fences::SLICE_ENTRIES as u64 * 2 + 77;
    publish(&one, 0..count);
    assert!((0..count).step_by(997).all(|number| has(&one, number)));
    let run = lock(&one.loaded).runs[0].clone();
    for (at, entry) in run.entries().enumerate() {
        let near_an_edge = (at + 3) % fences::SLICE_ENTRIES < 6 || (at + 3) % fences::PAGE_ENTRIES < 6;
        let entry = entry.unwrap();
        if near_an_edge && at % 7 == 0 {
            let mut addresses = Vec::new();
            run.find(&entry.prefix, &mut addresses);
            assert!(addresses.contains(&entry.address), "entry {at}");
        }
    }
    let bytes_per_entry = one.memory_bytes() as f64 / count as f64;
    assert!(bytes_per_entry < 1.25, "{bytes_per_entry} bytes an entry");
}

#[test]
fn damaged_and_foreign_runs_are_passed_over_and_gone_after_a_rebuild() {
    let files = Arc::new(Memory::new());
    publish(&table(&files), 0..500);
    publish(&table(&files), 500..1000);
    Table::new(files.clone(), StoreId([5; 16]), Duration::ZERO).publish(vec![entry(5000)]).unwrap();
    let runs: Vec<String> = files.list("table").unwrap().into_iter().filter(|name| list::is_run(name)).collect();
    for bit in 0..64 * 8 {
        let damaged = Arc::new(files.copy());
        damaged.damage(&runs[0], |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        let table = table(&damaged);
        assert!(!has(&table, 5000));
        assert!((500..1000).all(|number| has(&table, number)), "bit {bit}");
    }
    files.damage(&runs[0], |bytes| bytes.truncate(bytes.len() / 2));
    let table = table(&files);
    table.rebuild((0..1000).map(|number| Ok(entry(number)))).unwrap();
    assert!((0..1000).all(|number| has(&table, number)));
    assert_eq!(files.list("table").unwrap().len(), 2, "the list and one run");
}

#[test]
fn a_damaged_byte_anywhere_is_no_error_and_no_panic() {
    let files = Arc::new(Memory::new());
    publish(&table(&files), 0..40);
    publish(&table(&files), 40..80);
    for name in files.list("table").unwrap() {
        let bytes = files.open(&name).unwrap().length().unwrap() as usize;
        for at in 0..bytes {
            let damaged = Arc::new(files.copy());
            damaged.damage(&name, |bytes| bytes[at] ^= 0x81);
            let table = table(&damaged);
            let found = (0..80).filter(|&number| has(&table, number)).count();
            assert!(found >= 39, "{name} byte {at}: {found}");
            publish(&table, 100..101);
            assert!(has(&table, 100), "{name} byte {at}");
        }
    }
}

#[test]
fn a_torn_record_in_the_list_is_written_over() {
    let files = Arc::new(Memory::new());
    publish(&table(&files), 0..10);
    files.damage("table/runs", |bytes| bytes.extend_from_slice(&[9; 11]));
    publish(&table(&files), 10..20);
    assert!((0..20).all(|number| has(&table(&files), number)));
}

#[test]
fn one_merges_at_a_time() {
    let files = Arc::new(Memory::new());
    let one = table(&files);
    (0..8).for_each(|run| publish(&one, run * 10..run * 10 + 10));
    let held = files.lock("table/merge.lock", std::time::Duration::ZERO).unwrap();
    assert!(!one.merge().unwrap());
    drop(held);
    assert!(one.merge().unwrap());
}
