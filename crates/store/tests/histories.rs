//! Whole histories of stores: against a map, through crashes and failing disks, side by side, and on damaged
//! bytes. Every failure prints the seed it can be had again with. Beside them the golden files and their mutations.

extern crate thalweg_store as store;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use format::{BlockKind, ContainerId, Fingerprint, Label, Place, Run, Settings, StoreId};
use thalweg_store::conformance::{self, block, content, fingerprint, segment_in};
use thalweg_store::files::fault::{Fault, Faulty};
use thalweg_store::files::{Directory, Files, Memory, Permissions};
use thalweg_store::{
    Answer, Claimant, CountingRegistrar, Error, LocalStore, MemoryStore, Options, PlacedBlock, Registrar, SegmentStore,
};

#[path = "../../../fuzz/src/containers.rs"]
mod containers;
#[path = "histories/golden.rs"]
mod golden;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;
#[path = "../../../fuzz/src/tables.rs"]
mod tables;

#[global_allocator]
static ALLOCATOR: mutation::Measured = mutation::Measured;

const ME: Claimant = Claimant(1);

fn settings() -> Settings {
    Settings::new(StoreId([6; 16]))
}

/// Small parts and containers, so that a short history has many.
fn small() -> Options {
    Options { container_bytes: 12_000, part_bytes: 2_000, background: false, ..Options::default() }
}

fn open(files: Arc<dyn Files>, registrar: &Arc<CountingRegistrar>) -> LocalStore {
    LocalStore::open(files.clone(), files, &settings(), registrar.clone(), small()).unwrap()
}

struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % limit
    }
}

/// What is stored where, in the plainest form.
#[derive(Clone, Default)]
struct Oracle {
    segments: BTreeMap<Place, (u64, usize)>,
}

impl Oracle {
    /// Puts a block of new segments with lengths by the dice.
    fn put(&mut self, store: &LocalStore, dice: &mut Dice) -> Result<Run, Error> {
        let segments: Vec<(u64, usize)> =
            (0..1 + dice.below(5)).map(|_| (dice.below(1 << 40), dice.below(700) as usize)).collect();
        let run = store.put(ME, &block(&segments))?;
        self.segments.extend(run.places().zip(segments));
        Ok(run)
    }

    fn put_new(&mut self, store: &LocalStore, dice: &mut Dice) {
        self.put(store, dice).unwrap();
    }

    fn check_segment(&self, store: &LocalStore, place: Place, why: &str) {
        let (number, bytes) = self.segments[&place];
        let found = store.get(Run::single(place)).unwrap_or_else(|error| panic!("{why}: {place}: {error}"));
        let (entry, stored) = segment_in(&found[0], place);
        assert_eq!(entry.fingerprint, fingerprint(number), "{why}: {place}");
        assert_eq!(stored, content(number, bytes), "{why}: {place}");
    }

    fn check_all(&self, store: &LocalStore, why: &str) {
        self.segments.keys().for_each(|place| self.check_segment(store, *place, why));
    }

    /// Segments that are there are right; returns how many are not there.
    fn check_what_is_there(&self, store: &LocalStore, why: &str) -> usize {
        let there = |place: &&Place| store.get(Run::single(**place)).is_ok();
        let (found, lost): (Vec<&Place>, Vec<&Place>) = self.segments.keys().partition(there);
        found.into_iter().for_each(|place| self.check_segment(store, *place, why));
        lost.len()
    }

    /// Whoever is told that the store has a segment can read it.
    fn check_answers(&self, store: &LocalStore, why: &str) -> usize {
        let numbers: Vec<(u64, usize)> = self.segments.values().copied().collect();
        let asked: Vec<Fingerprint> = numbers.iter().map(|(number, _)| fingerprint(*number)).collect();
        let answers = store.lacking(ME, &asked).unwrap();
        store.release(ME);
        let mut had = 0;
        for ((number, bytes), answer) in numbers.into_iter().zip(answers) {
            if let Answer::Have(place) = answer {
                let found = store.get(Run::single(place)).unwrap_or_else(|error| panic!("{why}: {place}: {error}"));
                assert_eq!(segment_in(&found[0], place).1, content(number, bytes), "{why}");
                had += 1;
            }
        }
        had
    }
}

#[test]
fn every_engine_passes_the_suite() {
    conformance::suite(|| Box::new(MemoryStore::create(&settings(), Arc::new(CountingRegistrar::new())).unwrap()));
    conformance::suite(|| Box::new(open(Arc::new(Memory::new()), &Arc::default())));
    let scratch = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0);
    conformance::suite(|| {
        number.set(number.get() + 1);
        let files = Arc::new(Directory::new(scratch.path().join(number.get().to_string()), Permissions::default()));
        let options = Options { container_bytes: 30_000, part_bytes: 3_000, ..Options::default() };
        let registrar = Arc::new(CountingRegistrar::new());
        Box::new(LocalStore::open(files.clone(), files, &settings(), registrar, options).unwrap())
    });
}

#[test]
fn a_store_is_a_map_from_places_to_segments() {
    for seed in 0..30 {
        let mut dice = Dice::new(seed);
        let (files, registrar) = (Arc::new(Memory::new()), Arc::new(CountingRegistrar::new()));
        let (mut store, mut oracle) = (open(files.clone(), &registrar), Oracle::default());
        for step in 0..150 {
            let why = format!("seed {seed}, step {step}");
            match dice.below(16) {
                0..=8 => oracle.put_new(&store, &mut dice),
                9 => store.make_durable().unwrap(),
                10 => store.close().unwrap(),
                11 => {
                    store.make_durable().unwrap();
                    store = open(files.clone(), &registrar);
                }
                12 => store.forget_container(ContainerId(1 + dice.below(9))),
                13 => store.rebuild_table().unwrap(),
                _ => {
                    let places: Vec<Place> = oracle.segments.keys().copied().collect();
                    if !places.is_empty() {
                        oracle.check_segment(&store, places[dice.below(places.len() as u64) as usize], &why);
                    }
                }
            }
        }
        oracle.check_all(&store, &format!("seed {seed}"));
        store.close().unwrap();
        assert_eq!(oracle.check_answers(&store, "closed"), oracle.segments.len(), "seed {seed}");
        for container in store.containers_on_disk().unwrap() {
            let report = store.check(container).unwrap();
            assert!(report.damages.is_empty(), "seed {seed}: {report:?}");
            let facts = registrar.facts(container);
            assert_eq!(facts.is_some(), report.sealed, "seed {seed}");
            let found = (report.stored_bytes, report.readable_segments);
            assert!(facts.is_none_or(|facts| (facts.stored_bytes, facts.segments) == found), "seed {seed}");
        }
    }
}

#[test]
fn whole_runs_come_back_in_order() {
    let (files, registrar) = (Arc::new(Memory::new()), Arc::new(CountingRegistrar::new()));
    let (store, mut oracle, mut dice) = (open(files, &registrar), Oracle::default(), Dice::new(3));
    let runs: Vec<Run> = (0..200).map(|_| oracle.put(&store, &mut dice).unwrap()).collect();
    for closed in [false, true] {
        for pair in runs.windows(12) {
            let (first, last) = (pair[0], pair[11]);
            if first.container != last.container {
                continue;
            }
            let run = Run { count: last.first + last.count - first.first, ..first };
            let placed = store.get(run).unwrap();
            assert!(placed.iter().flat_map(|placed| placed.places()).eq(run.places()), "closed: {closed}");
            let numbers = run.places().map(|place| fingerprint(oracle.segments[&place].0));
            assert!(store.entries(run).unwrap().iter().map(|entry| entry.fingerprint).eq(numbers));
        }
        store.close().unwrap();
    }
}

#[test]
fn what_was_made_durable_survives_a_crash_and_nothing_torn_is_returned() {
    for seed in 0..150 {
        let mut dice = Dice::new(seed);
        let mut files = Arc::new(Memory::new());
        let registrar = Arc::new(CountingRegistrar::new());
        let (mut all, mut durable) = (Oracle::default(), Oracle::default());
        for life in 0..3 {
            let why = format!("seed {seed}, life {life}");
            let store = open(files.clone(), &registrar);
            for _ in 0..dice.below(60) {
                match dice.below(12) {
                    0 => store.make_durable().map(|()| durable = all.clone()).unwrap(),
                    1 => store.close().map(|()| durable = all.clone()).unwrap(),
                    _ => all.put_new(&store, &mut dice),
                }
            }
            files = Arc::new(files.crash(dice.below(u64::MAX)));
            let found = open(files.clone(), &registrar);
            durable.check_all(&found, &why);
            all.check_what_is_there(&found, &why);
            all.check_answers(&found, &why);
            found.rebuild_table().unwrap();
            assert_eq!(durable.check_answers(&found, &why), durable.segments.len(), "{why}");
            for container in found.containers_on_disk().unwrap() {
                let report = found.check(container).unwrap();
                let durable_segments = durable.segments.keys().filter(|place| place.container == container).count();
                assert!(report.readable_segments >= durable_segments as u64, "{why}: {report:?}");
                assert!(report.damages.is_empty() || !report.sealed, "{why}: {report:?}");
            }
            all = durable.clone();
        }
    }
}

/// A short history; returns what was put and what of it was told to be durable.
fn short_history(store: &LocalStore) -> (Oracle, Oracle) {
    let (mut all, mut durable, mut dice) = (Oracle::default(), Oracle::default(), Dice::new(77));
    for step in 0..40 {
        let put = all.put(store, &mut dice);
        let failed = match put {
            Err(Error::Poisoned { .. }) => true,
            Err(_) => false,
            Ok(run) => {
                // Written or not, failing disk or not: what is there is right.
                let place = Place::new(run.container, run.first);
                if let Ok(found) = store.get(Run::single(place)) {
                    assert_eq!(segment_in(&found[0], place).1, content(all.segments[&place].0, all.segments[&place].1));
                }
                false
            }
        };
        if step % 7 == 6 {
            match store.make_durable() {
                Ok(()) => {
                    assert!(!failed, "a store that stopped does not start again");
                    durable = all.clone();
                }
                // Once there is room, what was put is written.
                Err(Error::Full { .. }) => {}
                Err(_) => {
                    let after = store.put(ME, &block(&[(1, 1)]));
                    assert!(matches!(after, Err(Error::Poisoned { .. })), "{after:?}");
                    assert!(matches!(store.lacking(ME, &[fingerprint(1)]), Err(Error::Poisoned { .. })));
                }
            }
        }
    }
    let _ = store.close();
    (all, durable)
}

#[test]
fn a_disk_that_fails_at_any_call_loses_nothing_durable() {
    let counting = Arc::new(Faulty::once(Arc::new(Memory::new()), 0, Fault::Fail));
    short_history(&open(counting.clone(), &Arc::default()));
    assert!(counting.calls() > 100);
    for call in 1..=counting.calls() {
        for (fault, lasting) in [
            (Fault::Fail, false),
            (Fault::Tear { seed: call }, false),
            (Fault::Tear { seed: call * 31 }, true),
            (Fault::Full, true),
            (Fault::Full, false),
        ] {
            let why = format!("call {call}, {fault:?}, lasting: {lasting}");
            let memory = Arc::new(Memory::new());
            let faulty = match lasting {
                true => Faulty::from(memory.clone(), call, fault),
                false => Faulty::once(memory.clone(), call, fault),
            };
            let registrar = Arc::new(CountingRegistrar::new());
            let (all, durable) = short_history(&open(Arc::new(faulty), &registrar));
            for seed in 0..2 {
                let found = open(Arc::new(memory.crash(call * 2 + seed)), &registrar);
                durable.check_all(&found, &why);
                all.check_what_is_there(&found, &why);
                all.check_answers(&found, &why);
            }
        }
    }
}

#[test]
fn a_full_disk_stops_nothing_once_there_is_room_again() {
    let counting = Arc::new(Faulty::once(Arc::new(Memory::new()), 0, Fault::Fail));
    short_history(&open(counting.clone(), &Arc::default()));
    for call in 1..=counting.calls() {
        let memory = Arc::new(Memory::new());
        let registrar = Arc::new(CountingRegistrar::new());
        let store = open(Arc::new(Faulty::once(memory.clone(), call, Fault::Full)), &registrar);
        let (all, _) = short_history(&store);
        if let Some(why) = store.failure() {
            // A sync that finds no room has lost what it was to make durable.
            assert!(why.contains("the disk is full"), "call {call}: {why}");
            continue;
        }
        store.make_durable().unwrap();
        all.check_all(&open(memory, &registrar), &format!("call {call}"));
    }
}

#[test]
fn a_claimant_that_stands_still_keeps_others_waiting_for_seconds_only() {
    let store = open(Arc::new(Memory::new()), &Arc::default());
    let fingerprint = fingerprint(5);
    assert_eq!(store.lacking(Claimant(1), &[fingerprint]).unwrap(), [Answer::Send]);
    let begun = Instant::now();
    assert_eq!(store.await_claims(Claimant(2), &[fingerprint]).unwrap(), [Answer::Send]);
    assert!(begun.elapsed() < Duration::from_secs(4));
}

/// A registrar whose catalog is busy until it is told otherwise.
struct BusyRegistrar {
    counting: CountingRegistrar,
    is_busy: std::sync::atomic::AtomicBool,
}

impl Registrar for BusyRegistrar {
    fn open(&self) -> thalweg_store::Result<ContainerId> {
        while self.is_busy.load(std::sync::atomic::Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.counting.open()
    }
    fn sealed(&self, container: ContainerId, facts: thalweg_store::ContainerFacts) -> thalweg_store::Result<()> {
        self.counting.sealed(container, facts)
    }
    fn referable(&self, container: ContainerId) -> thalweg_store::Result<Option<ContainerId>> {
        self.counting.referable(container)
    }
    fn epoch(&self) -> u64 {
        self.counting.epoch()
    }
    fn locate(&self, container: ContainerId) -> thalweg_store::Result<Vec<ContainerId>> {
        self.counting.locate(container)
    }
}

#[test]
fn a_busy_catalog_delays_no_read_and_no_look_up() {
    let registrar = Arc::new(BusyRegistrar { counting: CountingRegistrar::new(), is_busy: false.into() });
    let settings = Settings::new(StoreId([7; 16]));
    let options = Options { container_bytes: 1 << 20, background: false, ..Options::default() };
    let files: Arc<Memory> = Arc::new(Memory::new());
    let store = LocalStore::open(files.clone(), files, &settings, registrar.clone(), options).unwrap();
    let run = store.put(ME, &block(&[(1, 1)])).unwrap();
    registrar.is_busy.store(true, std::sync::atomic::Ordering::SeqCst);
    std::thread::scope(|threads| {
        let putting = threads.spawn(|| (2..400).try_for_each(|seed| store.put(ME, &block(&[(seed, 8192)])).map(drop)));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!putting.is_finished(), "the next container waits for the catalog");
        let begun = Instant::now();
        store.get(run).unwrap();
        store.lacking(ME, &[fingerprint(1), fingerprint(9999)]).unwrap();
        let took = begun.elapsed();
        registrar.is_busy.store(false, std::sync::atomic::Ordering::SeqCst);
        assert!(took < Duration::from_millis(100), "they took {took:?}");
        putting.join().unwrap().unwrap();
    });
}

#[test]
fn two_processes_on_one_directory_see_each_other_after_make_durable() {
    let scratch = tempfile::tempdir().unwrap();
    let registrar = Arc::new(CountingRegistrar::new());
    let process = || open(Arc::new(Directory::new(scratch.path(), Permissions::default())), &registrar);
    let (one, other) = (process(), process());
    let mut oracles = [Oracle::default(), Oracle::default()];
    let mut dice = Dice::new(9);
    for _ in 0..20 {
        for (store, oracle) in [&one, &other].into_iter().zip(&mut oracles) {
            (0..4).for_each(|_| oracle.put_new(store, &mut dice));
            store.make_durable().unwrap();
        }
        for (store, oracle) in [&other, &one].into_iter().zip(&oracles) {
            oracle.check_all(store, "the other's");
            assert_eq!(oracle.check_answers(store, "the other's"), oracle.segments.len());
        }
    }
}

#[test]
fn in_the_background_others_see_what_is_durable_within_moments() {
    let scratch = tempfile::tempdir().unwrap();
    let registrar = Arc::new(CountingRegistrar::new());
    let process = || {
        let files = Arc::new(Directory::new(scratch.path(), Permissions::default()));
        let options = Options { background: true, ..small() };
        LocalStore::open(files.clone(), files, &settings(), registrar.clone(), options).unwrap()
    };
    let (one, other) = (process(), process());
    assert_eq!(other.lacking(ME, &[fingerprint(1)]).unwrap(), [Answer::Send]);
    other.release(ME);
    let place = one.put(ME, &block(&[(1, 100)])).map(|run| Place::new(run.container, run.first)).unwrap();
    one.make_durable().unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while other.lacking(ME, &[fingerprint(1)]).unwrap() != [Answer::Have(place)] {
        other.release(ME);
        assert!(Instant::now() < deadline, "not seen after five seconds");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_another_process_wrote_but_did_not_sync_is_no_duplicate() {
    let (files, registrar) = (Arc::new(Memory::new()), Arc::new(CountingRegistrar::new()));
    let (one, other) = (open(files.clone(), &registrar), open(files.clone(), &registrar));
    one.put(ME, &block(&[(1, 100)])).unwrap();
    one.make_durable().unwrap();
    // A full part: it is in the file, not synced.
    let run = one.put(ME, &block(&[(2, 2_500)])).unwrap();
    assert_eq!(run.container, ContainerId(1));
    let asked = [fingerprint(1), fingerprint(2)];
    let answers = other.lacking(ME, &asked).unwrap();
    assert!(matches!(answers[..], [Answer::Have(_), Answer::Send]), "{answers:?}");
    other.release(ME);
    assert_eq!(other.get(run).unwrap()[0].block, block(&[(2, 2_500)]), "who knows the place can read it");
    assert!(matches!(other.lacking(ME, &asked).unwrap()[..], [Answer::Have(_), Answer::Send]));
    other.release(ME);
    one.make_durable().unwrap();
    assert!(matches!(other.lacking(ME, &asked).unwrap()[..], [Answer::Have(_), Answer::Have(_)]));
}

#[test]
fn a_lost_table_costs_answers_until_it_is_rebuilt() {
    let (files, registrar) = (Arc::new(Memory::new()), Arc::new(CountingRegistrar::new()));
    let (store, mut oracle, mut dice) = (open(files.clone(), &registrar), Oracle::default(), Dice::new(4));
    (0..100).for_each(|_| oracle.put_new(&store, &mut dice));
    store.make_durable().unwrap();
    for name in files.list("table").unwrap() {
        files.remove(&name).unwrap();
    }
    let store = open(files.clone(), &registrar);
    assert_eq!(oracle.check_answers(&store, "lost"), 0);
    oracle.check_all(&store, "lost");
    store.rebuild_table().unwrap();
    assert_eq!(oracle.check_answers(&store, "rebuilt"), oracle.segments.len());
    assert!(store.table_memory_bytes() > 0);
}

#[test]
fn condemned_containers_answer_no_look_up() {
    let registrar = Arc::new(CountingRegistrar::new());
    let store = open(Arc::new(Memory::new()), &registrar);
    let run = store.put(ME, &block(&[(1, 100), (2, 100)])).unwrap();
    let asked = [fingerprint(1), fingerprint(2)];
    store.close().unwrap();
    assert!(matches!(store.lacking(ME, &asked).unwrap()[..], [Answer::Have(_), Answer::Have(_)]));
    registrar.condemn(run.container);
    store.forget_container(run.container);
    assert_eq!(store.lacking(ME, &asked).unwrap(), [Answer::Send, Answer::Send]);
    let again = store.put(ME, &block(&[(1, 100), (2, 100)])).unwrap();
    store.remove_file(run.container).unwrap();
    assert_eq!(store.lacking(ME, &asked[..1]).unwrap(), [Answer::Have(Place::new(again.container, again.first))]);
    assert!(matches!(store.get(run), Err(Error::NotFound { .. })));
}

#[test]
fn segments_keep_their_places_when_collection_moves_them() {
    let (files, registrar) = (Arc::new(Memory::new()), Arc::new(CountingRegistrar::new()));
    let (store, mut oracle, mut dice) = (open(files.clone(), &registrar), Oracle::default(), Dice::new(8));
    (0..120).for_each(|_| oracle.put_new(&store, &mut dice));
    store.close().unwrap();
    let old = store.containers_on_disk().unwrap();
    let mut kept: Vec<PlacedBlock> = Vec::new();
    for container in &old {
        store
            .visit_blocks(*container, Some(BlockKind::Data), &mut |block| {
                kept.push(block);
                Ok(())
            })
            .unwrap();
    }
    // Every third block is garbage; the rest is written in another order.
    let mut index = 0;
    kept.retain(|_| {
        index += 1;
        index % 3 != 0
    });
    kept.reverse();
    let labels: Vec<Label> = kept.iter().flat_map(|placed| placed.labels.clone()).collect();
    let (physical, facts) = store.write_rewritten(kept.into_iter().map(Ok)).unwrap();
    assert_eq!(registrar.facts(physical), Some(facts));
    for container in old {
        registrar.relocate(container, physical);
        store.remove_file(container).unwrap();
    }
    let held = |place: &Place| {
        labels.iter().any(|label| {
            label.container == place.container && (label.first..label.first + label.count).contains(&place.ordinal)
        })
    };
    oracle.segments.retain(|place, _| held(place));
    assert_eq!(oracle.segments.len() as u64, facts.segments);
    for store in [store, open(files.clone(), &registrar)] {
        oracle.check_all(&store, "moved");
        assert_eq!(oracle.check_answers(&store, "moved"), oracle.segments.len());
        store.rebuild_table().unwrap();
        assert_eq!(oracle.check_answers(&store, "rebuilt"), oracle.segments.len());
        assert!(store.check(physical).unwrap().damages.is_empty());
    }
}

/// A container of a few parts, sealed or not, and what is in it.
fn one_container(sealed: bool) -> (Arc<Memory>, Arc<CountingRegistrar>, Oracle, String) {
    let (files, registrar) = (Arc::new(Memory::new()), Arc::new(CountingRegistrar::new()));
    let (store, mut oracle, mut dice) = (open(files.clone(), &registrar), Oracle::default(), Dice::new(2));
    for _ in 0..4 {
        oracle.put(&store, &mut dice).unwrap();
        store.make_durable().unwrap();
    }
    if sealed {
        store.close().unwrap();
    }
    let names = files.list("containers").unwrap();
    assert_eq!(names.len(), 1);
    (files, registrar, oracle, names[0].clone())
}

#[test]
fn a_damaged_byte_anywhere_in_a_container_gives_an_error_or_right_data() {
    for sealed in [true, false] {
        let (files, registrar, oracle, name) = one_container(sealed);
        let bytes = files.open(&name).unwrap().length().unwrap() as usize;
        let mut unnoticed = 0;
        for at in 0..bytes {
            let why = format!("sealed: {sealed}, byte {at}");
            let damaged = Arc::new(files.copy());
            damaged.damage(&name, |bytes| bytes[at] ^= 1 << (at % 8));
            let store = open(damaged, &registrar);
            let lost = oracle.check_what_is_there(&store, &why);
            let asked: Vec<Fingerprint> = oracle.segments.values().map(|(number, _)| fingerprint(*number)).collect();
            // An index confirms what its block may have lost; only reading tells.
            assert_eq!(store.lacking(ME, &asked).unwrap().len(), asked.len(), "{why}");
            let report = store.check(ContainerId(1)).unwrap();
            unnoticed += (report.damages.is_empty() && report.sealed == sealed && lost > 0) as usize;
            let readable = oracle.segments.len() - lost;
            assert!(at < 96 || readable > 0 || !sealed, "{why}: one part's damage is not the others'");
            assert_eq!(report.readable_segments as usize, readable, "{why}");
        }
        // Without a footer the last part may be damaged or torn: nobody can tell.
        assert!(unnoticed == 0 || !sealed, "{unnoticed} damages of {bytes} went unnoticed");
    }
}

#[test]
fn a_container_cut_anywhere_is_readable_up_to_its_last_whole_part() {
    for sealed in [true, false] {
        let (files, registrar, oracle, name) = one_container(sealed);
        let bytes = files.open(&name).unwrap().length().unwrap() as usize;
        let mut readable_before = 0;
        for length in 0..=bytes {
            let cut = Arc::new(files.copy());
            cut.damage(&name, |bytes| bytes.truncate(length));
            let store = open(cut, &registrar);
            let readable = oracle.segments.len() - oracle.check_what_is_there(&store, &format!("length {length}"));
            assert!(readable >= readable_before, "length {length}: more bytes, fewer segments");
            readable_before = readable;
        }
        assert_eq!(readable_before, oracle.segments.len());
    }
}

#[test]
fn a_container_of_another_store_is_refused() {
    let (files, registrar, _, _) = one_container(true);
    let other = Settings::new(StoreId([9; 16]));
    let store =
        LocalStore::open(files.clone(), files, &other, registrar.clone() as Arc<dyn Registrar>, small()).unwrap();
    let found = store.get(Run { container: ContainerId(1), first: 0, count: 1 });
    assert!(matches!(&found, Err(Error::Corrupt { path, offset: 0, .. }) if path.ends_with(".twc")), "{found:?}");
}

#[test]
fn many_writers_fill_containers_without_gap_or_overlap() {
    let scratch = tempfile::tempdir().unwrap();
    let registrar = Arc::new(CountingRegistrar::new());
    let files = Arc::new(Directory::new(scratch.path(), Permissions::default()));
    let options = Options { container_bytes: 300_000, part_bytes: 20_000, ..Options::default() };
    let store = LocalStore::open(files.clone(), files, &settings(), registrar, options).unwrap();
    let placed: Vec<HashMap<Place, u64>> = std::thread::scope(|threads| {
        let workers = (0..4_u64).map(|worker| {
            let store = &store;
            threads.spawn(move || {
                let mut placed = HashMap::new();
                for round in 0..600 {
                    let number = worker << 32 | round;
                    let run = store.put(Claimant(worker), &block(&[(number, 2_000)])).unwrap();
                    placed.insert(Place::new(run.container, run.first), number);
                    if round % 100 == 99 {
                        store.make_durable().unwrap();
                    }
                    if round % 10 == 0 {
                        assert_eq!(store.get(run).unwrap()[0].block, block(&[(number, 2_000)]));
                    }
                }
                placed
            })
        });
        let workers: Vec<_> = workers.collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    store.close().unwrap();
    let all: HashMap<Place, u64> = placed.into_iter().flatten().collect();
    assert_eq!(all.len(), 2400, "no place was given twice");
    for (place, number) in all {
        assert_eq!(segment_in(&store.get(Run::single(place)).unwrap()[0], place).1, content(number, 2_000));
    }
}

/// Stores one segment in a container of its own, and returns its place.
fn stored_alone(store: &LocalStore, number: u64) -> Place {
    let run = store.put(ME, &block(&[(number, 500)])).unwrap();
    store.close().unwrap();
    Place::new(run.container, run.first)
}

#[test]
fn dead_segments_are_found_in_files_their_number_has_left() {
    let (files, registrar) = (Arc::new(Memory::new()), Arc::new(CountingRegistrar::new()));
    let store = open(files.clone(), &registrar);
    let (first, second) = (store.put(ME, &block(&[(1, 500)])).unwrap(), store.put(ME, &block(&[(2, 500)])).unwrap());
    store.close().unwrap();
    let number = first.container;
    assert_eq!(second.container, number);
    let kept = |run: Run| store.get(run).unwrap().into_iter().map(Ok);
    // Rewritten whole, then without the first segment; the number's own file is gone.
    let (whole, _) = store.write_rewritten(kept(first).chain(kept(second))).unwrap();
    registrar.relocate(number, whole);
    store.remove_file(number).unwrap();
    let (part, _) = store.write_rewritten(kept(second)).unwrap();
    registrar.relocate(number, part);
    let stores = [store, open(files, &registrar)];
    for store in &stores {
        store.forget_container(number);
        assert_eq!(store.get(first).unwrap()[0].block.segments[0].fingerprint, fingerprint(1));
        assert_eq!(store.entries(first).unwrap()[0].fingerprint, fingerprint(1));
        assert_eq!(store.get(second).unwrap()[0].block.segments[0].fingerprint, fingerprint(2));
        let answers = store.lacking(ME, &[fingerprint(1), fingerprint(2)]).unwrap();
        assert_eq!(answers, [Answer::Send, Answer::Have(Place::new(number, second.first))]);
        store.release(ME);
    }
    stores[0].remove_file(whole).unwrap();
    assert!(matches!(stores[0].get(first), Err(Error::NotFound { .. })));
}

#[test]
fn a_session_that_begins_is_given_no_answer_from_before() {
    let (files, registrar) = (Arc::new(Memory::new()), Arc::new(CountingRegistrar::new()));
    let place = stored_alone(&open(files.clone(), &registrar), 1);
    let background = Options { background: true, ..small() };
    let store = LocalStore::open(files.clone(), files, &settings(), registrar.clone(), background).unwrap();
    let answer = || store.lacking(ME, &[fingerprint(1)]).unwrap()[0];
    assert_eq!(answer(), Answer::Have(place));
    registrar.condemn(place.container);
    store.forget_catalog_answers();
    assert_eq!(answer(), Answer::Send);
}

#[test]
fn what_this_process_stored_last_is_not_named_once_it_is_condemned() {
    let registrar = Arc::new(CountingRegistrar::new());
    let store = open(Arc::new(Memory::new()), &registrar);
    let run = store.put(ME, &block(&[(1, 500)])).unwrap();
    assert_eq!(store.lacking(ME, &[fingerprint(1)]).unwrap(), [Answer::Have(Place::new(run.container, 0))]);
    // Its lease ran out, and a collection came.
    registrar.condemn(run.container);
    assert_eq!(store.lacking(ME, &[fingerprint(1)]).unwrap(), [Answer::Send]);
}
