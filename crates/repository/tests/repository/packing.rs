//! Files packed with a thread that stores batches beside, against a plain copy.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use catalog::{Names, Purpose};
use format::{Block, CodecChoice, EntryKind, Fingerprint, FloatType, Mode, Page, Root, Run, SegmentEntry};
use random::Random;
use repository::{BATCH_BYTES, BatchThreads, Lease, Packed, Packer, Repository, verify};
use store::{Answer, ClaimOwner, SegmentStore, StoredBlock};

use crate::fixture::{World, commit_packed, content, with_seeds};

/// Packs each of the files but those that it gives up, by both threads as it comes.
fn pack(repository: &Repository, random: &mut Random, files: &[Vec<u8>], given_up: &[bool]) -> Vec<Packed<usize>> {
    std::thread::scope(|scope| {
        let threads =
            BatchThreads::start(scope, repository, ClaimOwner(99), [1, 1, 2, 5][random.index(4)], BATCH_BYTES);
        let mut packer = Packer::new(repository, ClaimOwner(99)).with_threads(threads);
        for (number, (bytes, given_up)) in files.iter().zip(given_up).enumerate() {
            packer.begin();
            for piece in bytes.chunks(1 << 18) {
                packer.store_beside(random.below(4) > 0);
                packer.data(piece).unwrap();
            }
            match given_up {
                true => packer.abandon().unwrap(),
                false => packer.end(number).unwrap(),
            }
        }
        packer.flush().unwrap();
        packer.take_finished()
    })
}

#[test]
fn files_whose_batches_are_stored_beside_come_back_in_order() {
    with_seeds(8, |seed| {
        let mut random = Random::new(seed);
        let world = World::new();
        let process = world.process();
        let mut files: Vec<Vec<u8>> = Vec::new();
        for _ in 0..random.below(5) + 1 {
            let repeats = files.last().filter(|_| random.below(3) == 0).cloned();
            let count = [0, 5000, 1 << 20, 4_000_000][random.below(4) as usize];
            files.push(repeats.unwrap_or_else(|| random.mixed_bytes(count)));
        }
        let given_up: Vec<_> = files.iter().map(|_| random.below(5) == 0).collect();
        let packed = pack(&process, &mut random, &files, &given_up);
        let kept: Vec<_> = (0..files.len()).filter(|&number| !given_up[number]).collect();
        assert_eq!(packed.iter().map(|file| file.tag).collect::<Vec<_>>(), kept);
        commit_packed(&process, packed);
        for number in kept {
            assert!(content(&process, &number.to_string()) == files[number], "file {number}");
        }
        assert_eq!(verify(&process, true, &mut |_| {}).unwrap().damages, []);
    });
}

#[test]
fn a_packer_that_is_dropped_with_batches_beside_keeps_no_claims() {
    [1, 3].into_iter().for_each(a_dropped_packer_keeps_no_claims);
}

fn a_dropped_packer_keeps_no_claims(batches: usize) {
    let world = World::new();
    let process = world.process();
    let bytes = Random::new(3).bytes(2 << 20);
    std::thread::scope(|scope| {
        let threads = BatchThreads::start(scope, &process, ClaimOwner(98), batches, BATCH_BYTES);
        let mut packer: Packer<()> = Packer::new(&process, ClaimOwner(98)).with_threads(threads);
        packer.store_beside(true);
        packer.begin();
        packer.data(&bytes).unwrap();
    });
    let begun = Instant::now();
    let packed = pack(&process, &mut Random::new(4), std::slice::from_ref(&bytes), &[false]);
    assert!(begun.elapsed() < Duration::from_secs(2), "it waited for claims for {:?}", begun.elapsed());
    commit_packed(&process, packed);
    assert!(content(&process, "0") == bytes);
}

/// Lengths of the segments of one file of so many bytes.
fn segment_lengths(rounded: Option<FloatType>, bytes: &[u8]) -> Vec<u32> {
    let process = World::new().process();
    let mut packer = Packer::new(&process, ClaimOwner(1)).with_rounded(rounded);
    packer.begin();
    bytes.chunks(24_000).for_each(|piece| packer.data(piece).unwrap());
    packer.end(()).unwrap();
    packer.flush().unwrap();
    let built = packer.take_finished().pop().unwrap().built;
    let Root::Inline(page) = &built.root else { panic!("{:?}", built.root) };
    let runs = Page::decode(page).unwrap().entries.into_iter().filter_map(|entry| match entry.kind {
        EntryKind::Data { run, .. } => Some(run),
        _ => None,
    });
    let segments = runs.flat_map(|run| process.store().entries(run).unwrap());
    segments.map(|segment| segment.bytes).collect()
}

#[test]
fn no_segment_ends_within_a_rounded_value() {
    let bytes = Random::new(5).bytes(240_000);
    let are_whole = |lengths: &[u32]| lengths.iter().all(|length| length.is_multiple_of(8));
    let lengths = segment_lengths(Some(FloatType::F64Be), &bytes);
    assert!(lengths.len() > 10 && are_whole(&lengths), "{lengths:?}");
    assert_eq!(lengths.iter().sum::<u32>() as usize, bytes.len());
    assert!(!are_whole(&segment_lengths(None, &bytes)));
}

/// A file of the netCDF classic format, as far as anybody looks: a header, and big-endian floats of a smooth field.
fn netcdf(magic: &[u8], floats: u32) -> Vec<u8> {
    let value = |at: u32| (280.0 + 20.0 * (f64::from(at) * 1e-4).sin()) as f32;
    [magic, &[0; 96]].into_iter().flatten().copied().chain((0..floats).flat_map(|at| value(at).to_be_bytes())).collect()
}

/// Packs the files, some with a thread beside, checks that they come back, and returns the bytes of the store's containers.
fn archived_bytes(files: &[Vec<u8>], batches: usize) -> u64 {
    let world = World::new();
    let process = world.process();
    let packed = std::thread::scope(|scope| {
        let threads = BatchThreads::start(scope, &process, ClaimOwner(99), batches, BATCH_BYTES);
        let packer = Packer::new(&process, ClaimOwner(99)).with_codec(CodecChoice::Auto(Mode::Archival));
        let mut packer = packer.with_threads(threads);
        for (number, bytes) in files.iter().enumerate() {
            packer.begin();
            packer.store_beside(number % 2 == 0);
            bytes.chunks(1 << 20).for_each(|piece| packer.data(piece).unwrap());
            packer.end(number).unwrap();
        }
        packer.flush().unwrap();
        packer.take_finished()
    });
    commit_packed(&process, packed);
    for (number, bytes) in files.iter().enumerate() {
        assert!(content(&process, &number.to_string()) == *bytes, "file {number}");
    }
    let report = verify(&process, true, &mut |_| {}).unwrap();
    assert_eq!(report.damages, []);
    report.stored_bytes
}

#[test]
fn an_archive_takes_the_numbers_of_netcdf_files_for_big_endian_ones() {
    for batches in [1, 3] {
        // What was learned belongs to a thread, and each is to be chosen for by itself.
        let [known, unknown] = [b"CDF\x02", b"CDF\x03"].map(|magic| {
            let archived = || archived_bytes(&[netcdf(magic, 600_000)], batches);
            std::thread::scope(|scope| scope.spawn(archived).join().unwrap())
        });
        assert!(known * 10 < unknown * 9, "{known} bytes, and {unknown} where nobody knows");
    }
}

#[test]
fn files_of_both_orders_come_back_from_one_archive() {
    let text = b"one line is like the other, nearly; ".repeat(10_000);
    let long = netcdf(b"CDF\x01", 600_000);
    let files =
        [text.clone(), long.clone(), text.repeat(2), netcdf(b"CDF\x05", 20), long[2..].to_vec(), Vec::new(), long];
    [1, 3].into_iter().for_each(|batches| assert!(archived_bytes(&files, batches) > 0));
}

/// A store that answers the first question only when so many others were asked.
struct Stalling {
    inner: Arc<dyn SegmentStore>,
    others: usize,
    asked: Mutex<usize>,
    changed: Condvar,
    /// How many others were asked by the time the first was answered.
    overtook: AtomicUsize,
}

impl SegmentStore for Stalling {
    fn missing(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> store::Result<Vec<Answer>> {
        let mut asked = self.asked.lock().unwrap();
        *asked += 1;
        self.changed.notify_all();
        if *asked == 1 {
            let wait = Duration::from_secs(20);
            let (asked, _) = self.changed.wait_timeout_while(asked, wait, |asked| *asked <= self.others).unwrap();
            self.overtook.store(*asked - 1, Ordering::SeqCst);
        } else {
            drop(asked);
        }
        self.inner.missing(claim_owner, fingerprints)
    }

    fn await_claims(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> store::Result<Vec<Answer>> {
        self.inner.await_claims(claim_owner, fingerprints)
    }

    fn put(&self, claim_owner: ClaimOwner, block: &Block) -> store::Result<Run> {
        self.inner.put(claim_owner, block)
    }

    fn release(&self, claim_owner: ClaimOwner) {
        self.inner.release(claim_owner);
    }

    fn get(&self, run: Run) -> store::Result<Vec<StoredBlock>> {
        self.inner.get(run)
    }

    fn entries(&self, run: Run) -> store::Result<Vec<SegmentEntry>> {
        self.inner.entries(run)
    }

    fn make_durable(&self) -> store::Result<()> {
        self.inner.make_durable()
    }
}

/// A thread whose connection is slow keeps the others waiting only when they are far ahead of it.
#[test]
fn batches_overtake_one_that_takes_long() {
    const THREADS: usize = 3;
    const OTHERS: usize = 3 * THREADS;
    let world = World::new();
    let node = world.process();
    let (asked, overtook) = (Mutex::new(0), AtomicUsize::new(0));
    let store =
        Arc::new(Stalling { inner: node.store_arc(), others: OTHERS, asked, changed: Condvar::new(), overtook });
    let catalog: Arc<dyn Names> = world.catalog.clone();
    let lease = Lease::unattended(catalog.clone(), catalog.begin(Purpose::Write, 1_000_000).unwrap());
    let client = Repository::remote(world.settings.clone(), store.clone(), catalog, lease);
    let bytes = Random::new(6).bytes(1 << 20);
    let packed = std::thread::scope(|scope| {
        let threads = BatchThreads::start(scope, &client, ClaimOwner(97), THREADS, 64 << 10);
        let mut packer = Packer::new(&client, ClaimOwner(97)).with_threads(threads);
        packer.begin();
        packer.data(&bytes).unwrap();
        packer.end(0).unwrap();
        packer.flush().unwrap();
        packer.take_finished()
    });
    let overtook = store.overtook.load(Ordering::SeqCst);
    assert!(overtook >= OTHERS, "{overtook} overtook it");
    commit_packed(&client, packed);
    assert!(content(&node, "0") == bytes);
}
