//! A store behind a node may answer anything. A read through it returns what a manifest names, or an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use catalog::{Names, Purpose};
use format::{Block, ContainerId, Fingerprint, Label, Run, SegmentEntry};
use random::Random;
use repository::{Lease, Packer, Repository};
use store::{Answer, ClaimOwner, Result, SegmentStore, StoredBlock};

use crate::damage::{put, reads};
use crate::fixture::{CLAIM_OWNER, World, path};

/// The change to an honest answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    /// Other content under the labels that were asked for, true to its own fingerprints.
    OtherContent,
    /// The labels of the first two blocks are exchanged.
    Exchanged,
    /// Each block twice.
    Twice,
    /// Lengths of segments that are not theirs; their fingerprints are.
    Lengths,
    Nothing,
}

const LIES: [Lie; 5] = [Lie::OtherContent, Lie::Exchanged, Lie::Twice, Lie::Lengths, Lie::Nothing];

struct Lying {
    honest: Arc<dyn SegmentStore>,
    lie: Lie,
    round_trip: Duration,
    lies: AtomicUsize,
    /// How often a run's segments were asked for.
    asked: AtomicUsize,
    /// How often it was asked which segments it misses.
    asked_missing: AtomicUsize,
}

impl Lying {
    fn change(&self, blocks: &mut Vec<StoredBlock>) {
        self.lies.fetch_add(1, Ordering::Relaxed);
        match self.lie {
            Lie::OtherContent => blocks.iter_mut().for_each(|placed| placed.block = other(&placed.block)),
            Lie::Exchanged if blocks.len() > 1 => {
                let (first, rest) = blocks.split_at_mut(1);
                std::mem::swap(&mut first[0].block, &mut rest[0].block);
                blocks.iter_mut().for_each(fit_labels);
            }
            Lie::Twice => *blocks = blocks.iter().flat_map(|placed| [placed.clone(), placed.clone()]).collect(),
            Lie::Nothing => blocks.clear(),
            Lie::Exchanged | Lie::Lengths => {}
        }
    }
}

/// A label for as many segments as the block has, from where its own began.
fn fit_labels(placed: &mut StoredBlock) {
    let (container, first) = (placed.labels[0].container, placed.labels[0].first);
    placed.labels = vec![Label { container, first, count: placed.block.segments.len() as u32 }];
}

/// As many segments of the same lengths, all sevens.
fn other(block: &Block) -> Block {
    let contents: Vec<Vec<u8>> = block.segments.iter().map(|segment| vec![7; segment.bytes as usize]).collect();
    let named: Vec<(Fingerprint, &[u8])> = contents
        .iter()
        .map(|bytes| (segment::fingerprint(format::FingerprintKind::Blake3, bytes), &bytes[..]))
        .collect();
    segment::encode(block.header.kind, &named, format::CodecChoice::None, 0)
}

impl SegmentStore for Lying {
    fn missing(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> Result<Vec<Answer>> {
        self.asked_missing.fetch_add(1, Ordering::Relaxed);
        self.honest.missing(claim_owner, fingerprints)
    }

    fn await_claims(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> Result<Vec<Answer>> {
        self.honest.await_claims(claim_owner, fingerprints)
    }

    fn put(&self, claim_owner: ClaimOwner, block: &Block) -> Result<Run> {
        self.honest.put(claim_owner, block)
    }

    fn round_trip(&self) -> Duration {
        self.round_trip
    }

    fn is_remote(&self, _container: ContainerId) -> bool {
        !self.round_trip.is_zero()
    }

    fn release(&self, claim_owner: ClaimOwner) {
        self.honest.release(claim_owner);
    }

    fn get(&self, run: Run) -> Result<Vec<StoredBlock>> {
        let mut blocks = self.honest.get(run)?;
        if run.count > 1 {
            self.change(&mut blocks);
        }
        Ok(blocks)
    }

    fn entries(&self, run: Run) -> Result<Vec<SegmentEntry>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut entries = self.honest.entries(run)?;
        if let Lie::Lengths = self.lie {
            self.lies.fetch_add(1, Ordering::Relaxed);
            let last = entries.len() - 1;
            entries[0].bytes -= 1;
            entries[last].bytes += 1;
        }
        Ok(entries)
    }

    fn make_durable(&self) -> Result<()> {
        self.honest.make_durable()
    }
}

fn client_of(world: &World, honest: Arc<dyn SegmentStore>, lie: Lie) -> (Arc<Lying>, Arc<Repository>) {
    client_at(Duration::ZERO, world, honest, lie)
}

fn client_at(
    round_trip: Duration,
    world: &World,
    honest: Arc<dyn SegmentStore>,
    lie: Lie,
) -> (Arc<Lying>, Arc<Repository>) {
    let [lies, asked, asked_missing] = std::array::from_fn(|_| AtomicUsize::new(0));
    let lying = Arc::new(Lying { honest, lie, round_trip, lies, asked, asked_missing });
    let catalog: Arc<dyn Names> = world.catalog.clone();
    let lease = Lease::unattended(catalog.clone(), catalog.begin(Purpose::Write, 1_000_000).unwrap());
    let client = Repository::remote(world.settings.clone(), lying.clone(), catalog, lease);
    (lying, Arc::new(client))
}

#[test]
fn the_pages_of_a_large_manifest_are_stored_with_few_questions() {
    const PIECES: usize = 5000;
    let world = World::new();
    let node = world.process();
    let (store, client) = client_of(&world, node.store_arc(), Lie::Twice);
    let mut packer = Packer::new(&client, CLAIM_OWNER);
    packer.begin();
    let bytes = Random::new(5).bytes(PIECES);
    for byte in bytes.chunks(1) {
        packer.data(byte).unwrap();
        packer.hole(1).unwrap();
    }
    packer.end(()).unwrap();
    packer.flush().unwrap();
    let asked = store.asked_missing.load(Ordering::Relaxed);
    assert_eq!(asked, 3, "for the segments, the pages and the root");
    let packed = packer.take_finished().pop().unwrap();
    let mut read = vec![0; 2 * PIECES];
    node.reader(&packed.built.root, packed.built.length).read_at(0, &mut read).unwrap();
    assert!(read.chunks(2).zip(&bytes).all(|(pair, byte)| pair == [*byte, 0]));
}

#[test]
fn the_segments_of_a_run_are_asked_for_once_for_many_small_ranges() {
    let world = World::new();
    let node = world.process();
    let mut random = Random::new(2);
    let plain = random.bytes(1 << 20);
    put(&node, "a", &plain);
    let (store, client) = client_of(&world, node.store_arc(), Lie::Twice);
    let head = client.catalog().versions(&path("a")).unwrap().pop().unwrap().record;
    for _ in 0..200 {
        let (at, mut bytes) = (random.below(1 << 20) as usize, [0; 4096]);
        let count = client.reader(&head.root, head.size).read_at(at as u64, &mut bytes).unwrap();
        assert_eq!(bytes[..count], plain[at..at + count]);
    }
    let asked = store.asked.load(Ordering::Relaxed);
    assert!(asked <= 10, "{asked} questions about a file of a few runs");
}

#[test]
fn a_store_that_contradicts_itself_gives_errors_and_no_wrong_bytes() {
    for (lie, round_trip) in LIES.into_iter().flat_map(|lie| [(lie, Duration::ZERO), (lie, store::FAR)]) {
        let world = World::new();
        let node = world.process();
        let plain = Random::new(1).bytes(3 << 20);
        put(&node, "a", &plain);
        let (lying, client) = client_at(round_trip, &world, node.store_arc(), lie);
        let is_read = reads(&client, "a", 0, &plain);
        assert!(lying.lies.load(Ordering::Relaxed) > 0, "{lie:?} at {round_trip:?}: nothing was asked");
        // A far store is not asked for lengths: its blocks have them.
        let is_harmless = lie == Lie::Twice || (lie, round_trip) == (Lie::Lengths, store::FAR);
        assert!(!is_read || is_harmless, "{lie:?} at {round_trip:?}: it was believed");
    }
}
