//! Reading from a store whose answers are long under way: the same bytes, asked for ahead.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use catalog::{FileEntry, Names, Purpose};
use format::{Block, ChunkerKind, ContainerId, Fingerprint, Run, SegmentEntry, VersionRecord};
use random::Random;
use repository::{Lease, Packer, Piece, Repository};
use store::{Answer, ClaimOwner, SegmentStore, StoredBlock};

use crate::damage::put;
use crate::fixture::{CLAIM_OWNER, World, commit_packed, content, path, with_seeds};

/// Counts questions. Those for blocks are answered once as many were under way at once as are wanted, or after a while.
struct Far {
    inner: Arc<dyn SegmentStore>,
    wanted_at_once: usize,
    under_way: Mutex<usize>,
    changed: Condvar,
    most_at_once: AtomicUsize,
    lists: AtomicUsize,
    answers: AtomicUsize,
    fails: AtomicBool,
}

impl SegmentStore for Far {
    fn missing(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> store::Result<Vec<Answer>> {
        self.inner.missing(claim_owner, fingerprints)
    }

    fn await_claims(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> store::Result<Vec<Answer>> {
        self.inner.await_claims(claim_owner, fingerprints)
    }

    fn put(&self, claim_owner: ClaimOwner, block: &Block) -> store::Result<Run> {
        self.inner.put(claim_owner, block)
    }

    fn round_trip(&self) -> Duration {
        store::FAR
    }

    fn is_remote(&self, _container: ContainerId) -> bool {
        true
    }

    fn release(&self, claim_owner: ClaimOwner) {
        self.inner.release(claim_owner);
    }

    fn get(&self, run: Run) -> store::Result<Vec<StoredBlock>> {
        let mut under_way = self.under_way.lock().unwrap();
        *under_way += 1;
        self.most_at_once.fetch_max(*under_way, Ordering::SeqCst);
        self.changed.notify_all();
        // A page leads to the others, and comes alone.
        let are_few = |_: &mut usize| run.count > 1 && self.most_at_once.load(Ordering::SeqCst) < self.wanted_at_once;
        let wait = Duration::from_secs(20);
        let (mut under_way, _) = self.changed.wait_timeout_while(under_way, wait, are_few).unwrap();
        *under_way -= 1;
        drop(under_way);
        self.answers.fetch_add(1, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err(store::Error::Unavailable { peer: "far".into(), why: "is gone".into() });
        }
        self.inner.get(run)
    }

    fn entries(&self, run: Run) -> store::Result<Vec<SegmentEntry>> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        self.inner.entries(run)
    }

    fn make_durable(&self) -> store::Result<()> {
        self.inner.make_durable()
    }
}

fn far_client(world: &World, node: &Repository, wanted_at_once: usize) -> (Arc<Far>, Repository) {
    let [most_at_once, lists, answers] = std::array::from_fn(|_| AtomicUsize::new(0));
    let (under_way, changed, fails) = (Mutex::new(0), Condvar::new(), AtomicBool::new(false));
    let inner = node.store_arc();
    let far = Far { inner, wanted_at_once, under_way, changed, most_at_once, lists, answers, fails };
    let (far, catalog): (_, Arc<dyn Names>) = (Arc::new(far), world.catalog.clone());
    let lease = Lease::unattended(catalog.clone(), catalog.begin(Purpose::Read, 1_000_000).unwrap());
    (far.clone(), Repository::remote(world.settings.clone(), far, catalog, lease))
}

fn head(repository: &Repository, name: &str) -> VersionRecord {
    entry(repository, name).head.unwrap().record
}

fn entry(repository: &Repository, name: &str) -> FileEntry {
    repository.catalog().entry(&path(name)).unwrap().unwrap()
}

/// A file of data, zeros and holes, put by a packer that knows what is where.
fn put_mixed(node: &Repository, random: &mut Random, name: &str, parts: u64) -> Vec<u8> {
    let (mut packer, mut plain) = (Packer::new(node, CLAIM_OWNER), Vec::new());
    packer.begin();
    for _ in 0..parts {
        let bytes = [0, 700, 90_000, 5 << 20][random.index(4)];
        match random.below(4) {
            0 => {
                packer.hole(bytes as u64).unwrap();
                plain.resize(plain.len() + bytes, 0);
            }
            _ => {
                let data = random.mixed_bytes(bytes);
                packer.data(&data).unwrap();
                plain.extend(data);
            }
        }
    }
    packer.end(name).unwrap();
    packer.flush().unwrap();
    commit_packed(node, packer.take_finished());
    plain
}

#[test]
fn ranges_of_a_far_store_are_slices() {
    with_seeds(6, |seed| {
        let mut random = Random::new(seed);
        let world = World::new();
        let node = world.process();
        let plain = put_mixed(&node, &mut random, "a", 8);
        let (_, client) = far_client(&world, &node, 0);
        assert!(content(&client, "a") == plain);
        let record = head(&client, "a");
        for _ in 0..20 {
            let start = random.below(plain.len() as u64 + 2);
            let mut read = vec![0xee; random.below(9 << 20) as usize];
            let count = client.version_reader(&record).read_at(start, &mut read).unwrap();
            let expected = plain.get(start as usize..).unwrap_or_default();
            assert!(read[..count] == expected[..expected.len().min(read.len())], "from {start} on");
        }
    });
}

#[test]
fn stretches_of_a_file_are_fetched_at_once() {
    let (world, plain) = (World::new(), Random::new(2).bytes(24 << 20));
    let node = world.process();
    put(&node, "a", &plain);
    let (far, client) = far_client(&world, &node, 5);
    assert!(content(&client, "a") == plain);
    let most = far.most_at_once.load(Ordering::SeqCst);
    assert!(most >= 5, "{most} at once");
}

#[test]
fn holes_of_any_length_cost_nothing() {
    let (world, node_bytes) = (World::new(), Random::new(7).bytes(9 << 20));
    let node = world.process();
    let mut packer = Packer::new(&node, CLAIM_OWNER);
    packer.begin();
    packer.data(&node_bytes).unwrap();
    packer.hole(1 << 60).unwrap();
    packer.data(&node_bytes).unwrap();
    packer.end(()).unwrap();
    packer.flush().unwrap();
    let packed = packer.take_finished().pop().unwrap();
    let (_, client) = far_client(&world, &node, 0);
    let (mut data, mut hole_bytes) = (Vec::new(), 0);
    let reader = client.reader(&packed.built.root, packed.built.length);
    let read = reader.pieces(0..packed.built.length, |piece| {
        match piece {
            Piece::Data(bytes) => data.extend_from_slice(bytes),
            Piece::Zeros(bytes) | Piece::Hole(bytes) => hole_bytes += bytes,
        }
        Ok(())
    });
    read.unwrap();
    assert!(data == [&node_bytes[..], &node_bytes].concat());
    assert_eq!(hole_bytes, 1 << 60);
}

#[test]
fn little_is_fetched_for_a_little_range() {
    let (world, plain) = (World::new(), Random::new(3).bytes(3 << 20));
    let node = world.process();
    put(&node, "a", &plain);
    let (far, client) = far_client(&world, &node, 0);
    let mut read = [0; 100];
    client.version_reader(&head(&client, "a")).read_at(1_000_000, &mut read).unwrap();
    assert!(read[..] == plain[1_000_000..1_000_100]);
    let (lists, answers) = (far.lists.load(Ordering::SeqCst), far.answers.load(Ordering::SeqCst));
    assert!(lists <= 1 && answers <= 2, "{lists} lists and {answers} answers");
}

#[test]
fn neighbours_that_are_fetched_ahead_are_read_without_a_question() {
    let world = World::new();
    let node = world.process();
    let mut random = Random::new(4);
    let files: Vec<_> = (0..64).map(|number| (format!("f{number}"), random.bytes(3000))).collect();
    let mut packer = Packer::new(&node, CLAIM_OWNER);
    for (name, bytes) in &files {
        packer.begin();
        packer.data(bytes).unwrap();
        packer.end(name.clone()).unwrap();
    }
    packer.flush().unwrap();
    commit_packed(&node, packer.take_finished());
    let (far, client) = far_client(&world, &node, 0);
    let entries: Vec<_> = files.iter().map(|(name, _)| entry(&client, name)).collect();
    client.fetch_ahead(entries.iter(), || true);
    let answers = far.answers.load(Ordering::SeqCst);
    assert!(answers <= 4, "{answers} answers for 192 KB");
    for (name, bytes) in &files {
        assert!(content(&client, name) == *bytes, "{name}");
    }
    assert_eq!((far.lists.load(Ordering::SeqCst), far.answers.load(Ordering::SeqCst)), (0, answers));
}

#[test]
fn segments_that_share_blocks_are_fetched_with_their_neighbours() {
    let mut world = World::new();
    world.settings.chunker = ChunkerKind::Fixed;
    let node = world.process();
    let (old, new) = (Random::new(11).bytes(2 << 20), Random::new(12).bytes(2 << 20));
    put(&node, "old", &old);
    // Every second segment is in one of the old file's blocks.
    let of = |number: usize| if number.is_multiple_of(2) { &old } else { &new };
    let mixed: Vec<u8> =
        (0..256).flat_map(|number| of(number)[number << 13..(number + 1) << 13].iter().copied()).collect();
    put(&node, "a", &mixed);
    let (far, client) = far_client(&world, &node, 0);
    assert!(content(&client, "a") == mixed);
    let answers = far.answers.load(Ordering::SeqCst);
    assert!(answers <= 32, "{answers} answers for some 12 blocks");
}

#[test]
fn segments_longer_than_a_stretch_are_fetched_once() {
    let mut world = World::new();
    world.settings.chunker = ChunkerKind::File;
    let node = world.process();
    let plain = Random::new(8).bytes(30 << 20);
    put(&node, "a", &plain);
    let (far, client) = far_client(&world, &node, 0);
    assert!(content(&client, "a") == plain);
    let answers = far.answers.load(Ordering::SeqCst);
    assert!(answers <= 2, "{answers} answers for one segment");
}

#[test]
fn who_stops_reading_stops_the_fetching() {
    let (world, plain) = (World::new(), Random::new(5).bytes(100 << 20));
    let node = world.process();
    put(&node, "a", &plain);
    let (far, client) = far_client(&world, &node, 0);
    let record = head(&client, "a");
    let mut pieces = 0;
    let read = client.version_reader(&record).pieces(0..record.size, |_: Piece| {
        pieces += 1;
        if pieces < 3 { Ok(()) } else { Err(repository::Error::Failed("enough".into())) }
    });
    assert_eq!((read.unwrap_err().to_string().as_str(), pieces), ("enough", 3));
    let after = far.answers.load(Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(far.answers.load(Ordering::SeqCst), after, "nobody fetches any more");
}

#[test]
fn the_error_of_a_far_store_is_the_reader_s() {
    let (world, plain) = (World::new(), Random::new(6).bytes(12 << 20));
    let node = world.process();
    put(&node, "a", &plain);
    let (far, client) = far_client(&world, &node, 0);
    far.fails.store(true, Ordering::SeqCst);
    let record = head(&client, "a");
    let read = client.version_reader(&record).pieces(0..record.size, |_: Piece| Ok(()));
    assert_eq!(read.unwrap_err().to_string(), "far: is gone");
}
