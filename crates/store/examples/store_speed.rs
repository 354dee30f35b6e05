//! How fast the store takes new blocks and answers look-ups: `cargo run --release -p thalweg-store --example
//! speed -- /dev/shm/speed [GiB]`. The folder must not be there yet; it is removed at the end.

use std::sync::Arc;
use std::time::Instant;

use format::{Block, Fingerprint, Settings, StoreId};
use thalweg_store::conformance::{block, fingerprint};
use thalweg_store::files::{Directory, Permissions};
use thalweg_store::{Answer, ClaimOwner, CountingRegistrar, LocalStore, Options, SegmentStore};

const SEGMENT_BYTES: usize = 8192;
const BLOCK_SEGMENTS: u64 = 16;
const BATCH: usize = 512;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name a folder to make")?;
    let gib: u64 = arguments.next().map_or(Ok(2), |text| text.parse())?;
    std::fs::create_dir(&folder)?;
    let registrar = Arc::new(CountingRegistrar::new());
    let open = || {
        let files = Arc::new(Directory::new(&folder, Permissions::default()));
        LocalStore::open(files.clone(), files, &Settings::new(StoreId([1; 16])), registrar.clone(), Options::default())
    };
    let store = open()?;
    let segments = (gib << 30) / SEGMENT_BYTES as u64;
    put_all(&store, segments)?;
    look_up("own, all new", &open()?, segments..segments * 2)?;
    look_up("duplicates in the order they were stored", &open()?, 0..segments)?;
    let shuffled = (0..segments).map(|at| at.wrapping_mul(0x9e37_79b1) % segments);
    look_up("duplicates in random order", &open()?, shuffled)?;
    let (bytes, entries) = (store.table_memory_bytes(), store.table_entries());
    println!("table: {bytes} bytes for {entries} segments: {:.3} a segment", bytes as f64 / entries as f64);
    drop(store);
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn put_all(store: &LocalStore, segments: u64) -> thalweg_store::Result<()> {
    let lengths: Vec<(u64, usize)> = (0..BLOCK_SEGMENTS).map(|number| (number, SEGMENT_BYTES)).collect();
    let mut next: Block = block(&lengths);
    let start = Instant::now();
    for first in (0..segments).step_by(BLOCK_SEGMENTS as usize) {
        for (entry, number) in next.segments.iter_mut().zip(first..) {
            entry.fingerprint = fingerprint(number);
        }
        store.put(ClaimOwner(1), &next)?;
    }
    store.make_durable()?;
    let seconds = start.elapsed().as_secs_f64();
    println!("put: {:.0} MB/s of new blocks", segments as f64 * SEGMENT_BYTES as f64 / seconds / 1e6);
    store.close()
}

fn look_up(what: &str, store: &LocalStore, numbers: impl Iterator<Item = u64>) -> thalweg_store::Result<()> {
    let asked: Vec<Fingerprint> = numbers.map(fingerprint).collect();
    store.missing(ClaimOwner(1), &asked[..1])?;
    let start = Instant::now();
    let mut had = 0;
    for batch in asked.chunks(BATCH) {
        let answers = store.missing(ClaimOwner(1), batch)?;
        had += answers.iter().filter(|answer| matches!(answer, Answer::Have(_))).count();
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{what}: {:.0} look-ups/s, {had} of {} had", asked.len() as f64 / seconds, asked.len());
    Ok(())
}
