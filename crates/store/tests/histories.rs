//! Whole histories of stores: against a map, through crashes and failing disks. Every failure prints the seed that
//! repeats it. Also sharing, moving and damage, and the golden files and their mutations.

extern crate thalweg_store as store;

use std::sync::Arc;
use std::time::{Duration, Instant};

use format::{ContainerId, Run, SegmentAddress};
use thalweg_store::conformance::{self, block, content, fingerprint, segment_in};
use thalweg_store::files::fault::{Fault, Faulty};
use thalweg_store::files::{Directory, Memory, Permissions};
use thalweg_store::{Answer, CountingRegistrar, Error, LocalStore, MemoryStore, Options, SegmentStore};

use oracle::{ME, Oracle, Random, open, settings, small};

#[path = "../../../fuzz/src/containers.rs"]
mod containers;
#[path = "histories/damaged.rs"]
mod damaged;
#[path = "histories/golden.rs"]
mod golden;
#[path = "histories/moving.rs"]
mod moving;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;
#[path = "histories/oracle.rs"]
mod oracle;
#[path = "histories/sharing.rs"]
mod sharing;
#[path = "../../../fuzz/src/tables.rs"]
mod tables;

#[global_allocator]
static ALLOCATOR: mutation::Measured = mutation::Measured;

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
        let mut random = Random::new(seed);
        let (files, registrar) = (Arc::new(Memory::new()), Arc::new(CountingRegistrar::new()));
        let (mut store, mut oracle) = (open(files.clone(), &registrar), Oracle::default());
        for step in 0..150 {
            let why = format!("seed {seed}, step {step}");
            match random.below(16) {
                0..=8 => oracle.put_new(&store, &mut random),
                9 => store.make_durable().unwrap(),
                10 => store.close().unwrap(),
                11 => {
                    store.make_durable().unwrap();
                    store = open(files.clone(), &registrar);
                }
                12 => store.forget_container(ContainerId(1 + random.below(9))),
                13 => store.rebuild_table().unwrap(),
                _ => {
                    let addresses: Vec<SegmentAddress> = oracle.segments.keys().copied().collect();
                    if !addresses.is_empty() {
                        oracle.check_segment(&store, addresses[random.below(addresses.len() as u64) as usize], &why);
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
    let (store, mut oracle, mut random) = (open(files, &registrar), Oracle::default(), Random::new(3));
    let runs: Vec<Run> = (0..200).map(|_| oracle.put(&store, &mut random).unwrap()).collect();
    for closed in [false, true] {
        for pair in runs.windows(12) {
            let (first, last) = (pair[0], pair[11]);
            if first.container != last.container {
                continue;
            }
            let run = Run { count: last.first + last.count - first.first, ..first };
            let placed = store.get(run).unwrap();
            assert!(placed.iter().flat_map(|placed| placed.addresses()).eq(run.addresses()), "closed: {closed}");
            let numbers = run.addresses().map(|address| fingerprint(oracle.segments[&address].0));
            assert!(store.entries(run).unwrap().iter().map(|entry| entry.fingerprint).eq(numbers));
        }
        store.close().unwrap();
    }
}

#[test]
fn what_was_made_durable_survives_a_crash_and_nothing_torn_is_returned() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let mut files = Arc::new(Memory::new());
        let registrar = Arc::new(CountingRegistrar::new());
        let (mut all, mut durable) = (Oracle::default(), Oracle::default());
        for life in 0..3 {
            let why = format!("seed {seed}, life {life}");
            let store = open(files.clone(), &registrar);
            for _ in 0..random.below(60) {
                match random.below(12) {
                    0 => store.make_durable().map(|()| durable = all.clone()).unwrap(),
                    1 => store.close().map(|()| durable = all.clone()).unwrap(),
                    _ => all.put_new(&store, &mut random),
                }
            }
            files = Arc::new(files.crash(random.below(u64::MAX)));
            let found = open(files.clone(), &registrar);
            durable.check_all(&found, &why);
            all.check_what_is_there(&found, &why);
            all.check_answers(&found, &why);
            found.rebuild_table().unwrap();
            assert_eq!(durable.check_answers(&found, &why), durable.segments.len(), "{why}");
            for container in found.containers_on_disk().unwrap() {
                let report = found.check(container).unwrap();
                let durable_segments = durable.segments.keys().filter(|address| address.container == container).count();
                assert!(report.readable_segments >= durable_segments as u64, "{why}: {report:?}");
                assert!(report.damages.is_empty() || !report.sealed, "{why}: {report:?}");
            }
            all = durable.clone();
        }
    }
}

/// Runs a short history; returns what was put and what of it was reported durable.
fn short_history(store: &LocalStore) -> (Oracle, Oracle) {
    let (mut all, mut durable, mut random) = (Oracle::default(), Oracle::default(), Random::new(77));
    for step in 0..40 {
        let put = all.put(store, &mut random);
        let failed = match put {
            Err(Error::Failed { .. }) => true,
            Err(_) => false,
            Ok(run) => {
                // Written or not, failing disk or not: the stored data is right.
                let address = SegmentAddress::new(run.container, run.first);
                if let Ok(found) = store.get(Run::single(address)) {
                    assert_eq!(
                        segment_in(&found[0], address).1,
                        content(all.segments[&address].0, all.segments[&address].1)
                    );
                }
                false
            }
        };
        all.drop_unwritten(store);
        if step % 7 == 6 {
            match store.make_durable() {
                Ok(()) => {
                    assert!(!failed, "a store that stopped does not start again");
                    durable = all.clone();
                }
                Err(Error::Full { .. }) => all.drop_unwritten(store),
                Err(_) => {
                    let after = store.put(ME, &block(&[(1, 1)]));
                    assert!(matches!(after, Err(Error::Failed { .. })), "{after:?}");
                    assert!(matches!(store.missing(ME, &[fingerprint(1)]), Err(Error::Failed { .. })));
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
        let (mut all, _) = short_history(&store);
        if let Some(why) = store.failure() {
            // A sync without room has lost the data it was to make durable.
            assert!(why.contains("the disk is full"), "call {call}: {why}");
            continue;
        }
        store.make_durable().unwrap();
        all.drop_unwritten(&store);
        let why = format!("call {call}");
        all.check_all(&open(memory, &registrar), &why);
        all.check_all(&store, &why);
    }
}

#[test]
fn a_container_that_found_no_room_is_closed_with_what_is_in_its_file() {
    let (memory, registrar) = (Arc::new(Memory::new()), Arc::new(CountingRegistrar::new()));
    let faulty = Arc::new(Faulty::once(memory.clone(), 0, Fault::Full));
    let store = LocalStore::open(faulty.clone(), faulty.clone(), &settings(), registrar.clone(), small()).unwrap();
    let kept = store.put(ME, &block(&[(1, 100)])).unwrap();
    store.make_durable().unwrap();
    let dropped = store.put(ME, &block(&[(2, 100), (3, 100)])).unwrap();
    assert_eq!(dropped.container, kept.container);
    faulty.fail_next();
    assert!(matches!(store.make_durable(), Err(Error::Full { .. })));
    assert!(registrar.is_truncated(kept.container));
    // Dropped segments are asked for again, and no read of one passes for damage.
    assert_eq!(store.missing(ME, &[fingerprint(2), fingerprint(3)]).unwrap(), [Answer::Send; 2]);
    assert!(matches!(store.get(dropped), Err(Error::Full { .. })));
    assert!(matches!(store.entries(dropped), Err(Error::Full { .. })));
    assert!(store.has_dropped(SegmentAddress::new(dropped.container, dropped.first)));
    assert!(!store.has_dropped(SegmentAddress::new(kept.container, kept.first)));
    store.make_durable().unwrap();
    let again = store.put(ME, &block(&[(2, 100), (3, 100)])).unwrap();
    assert!(again.container > kept.container);
    store.close().unwrap();
    for found in [&store, &open(memory, &registrar)] {
        assert_eq!(found.get(kept).unwrap().len(), 1);
        assert_eq!(found.get(again).unwrap().len(), 1);
        assert_eq!(found.check(kept.container).unwrap().damages, []);
    }
}

#[test]
fn an_open_container_is_closed_when_nothing_was_put_for_long() {
    let (memory, registrar) = (Arc::new(Memory::new()), Arc::new(CountingRegistrar::new()));
    let options = Options { background: true, idle_timeout: Duration::from_millis(10), ..small() };
    let store = LocalStore::open(memory.clone(), memory, &settings(), registrar.clone(), options).unwrap();
    let run = store.put(ME, &block(&[(1, 3000)])).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while registrar.facts(run.container).is_none() {
        assert!(Instant::now() < deadline, "the container is still open");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(store.put(ME, &block(&[(2, 10)])).unwrap().container > run.container);
}
