//! Several users of one store at once: claim owners, threads, processes, and a catalog that is busy.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use format::{ContainerId, Run, SegmentAddress, Settings, StoreId};
use thalweg_store::conformance::{block, content, fingerprint, segment_in};
use thalweg_store::files::{Directory, Memory, Permissions};
use thalweg_store::{Answer, ClaimOwner, CountingRegistrar, LocalStore, Options, Registrar, SegmentStore};

use super::oracle::{ME, Oracle, Random, open, settings, small};

#[test]
fn a_claimant_that_stands_still_keeps_others_waiting_for_seconds_only() {
    let store = open(Arc::new(Memory::new()), &Arc::default());
    let fingerprint = fingerprint(5);
    assert_eq!(store.missing(ClaimOwner(1), &[fingerprint]).unwrap(), [Answer::Send]);
    let begun = Instant::now();
    assert_eq!(store.await_claims(ClaimOwner(2), &[fingerprint]).unwrap(), [Answer::Send]);
    assert!(begun.elapsed() < Duration::from_secs(4));
}

/// A registrar whose catalog is busy until released.
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
    fn sealed(&self, container: ContainerId, facts: thalweg_store::SealedContainer) -> thalweg_store::Result<()> {
        self.counting.sealed(container, facts)
    }
    fn truncated(&self, container: ContainerId) -> thalweg_store::Result<()> {
        self.counting.truncated(container)
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
        store.missing(ME, &[fingerprint(1), fingerprint(9999)]).unwrap();
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
    let mut random = Random::new(9);
    for _ in 0..20 {
        for (store, oracle) in [&one, &other].into_iter().zip(&mut oracles) {
            (0..4).for_each(|_| oracle.put_new(store, &mut random));
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
    assert_eq!(other.missing(ME, &[fingerprint(1)]).unwrap(), [Answer::Send]);
    other.release(ME);
    let address = one.put(ME, &block(&[(1, 100)])).map(|run| SegmentAddress::new(run.container, run.first)).unwrap();
    one.make_durable().unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while other.missing(ME, &[fingerprint(1)]).unwrap() != [Answer::Have(address)] {
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
    let answers = other.missing(ME, &asked).unwrap();
    assert!(matches!(answers[..], [Answer::Have(_), Answer::Send]), "{answers:?}");
    other.release(ME);
    assert_eq!(other.get(run).unwrap()[0].block, block(&[(2, 2_500)]), "who knows the place can read it");
    assert!(matches!(other.missing(ME, &asked).unwrap()[..], [Answer::Have(_), Answer::Send]));
    other.release(ME);
    one.make_durable().unwrap();
    assert!(matches!(other.missing(ME, &asked).unwrap()[..], [Answer::Have(_), Answer::Have(_)]));
}

#[test]
fn many_writers_fill_containers_without_gap_or_overlap() {
    let scratch = tempfile::tempdir().unwrap();
    let registrar = Arc::new(CountingRegistrar::new());
    let files = Arc::new(Directory::new(scratch.path(), Permissions::default()));
    let options = Options { container_bytes: 300_000, part_bytes: 20_000, ..Options::default() };
    let store = LocalStore::open(files.clone(), files, &settings(), registrar, options).unwrap();
    let placed: Vec<HashMap<SegmentAddress, u64>> = std::thread::scope(|threads| {
        let workers = (0..4_u64).map(|worker| {
            let store = &store;
            threads.spawn(move || {
                let mut placed = HashMap::new();
                for round in 0..600 {
                    let number = worker << 32 | round;
                    let run = store.put(ClaimOwner(worker), &block(&[(number, 2_000)])).unwrap();
                    placed.insert(SegmentAddress::new(run.container, run.first), number);
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
    let all: HashMap<SegmentAddress, u64> = placed.into_iter().flatten().collect();
    assert_eq!(all.len(), 2400, "no place was given twice");
    for (address, number) in all {
        assert_eq!(segment_in(&store.get(Run::single(address)).unwrap()[0], address).1, content(number, 2_000));
    }
}
