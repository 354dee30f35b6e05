//! Containers with damaged bytes, cut short, or of another store: an error or the right data, never other data.

use std::sync::Arc;

use format::{ContainerId, Fingerprint, Run, Settings, StoreId};
use thalweg_store::conformance::fingerprint;
use thalweg_store::files::{Files, Memory};
use thalweg_store::{CountingRegistrar, Error, LocalStore, Registrar, SegmentStore};

use super::oracle::{ME, Oracle, Random, open, small};

/// Returns a container of a few parts, sealed or not, and its content.
fn one_container(sealed: bool) -> (Arc<Memory>, Arc<CountingRegistrar>, Oracle, String) {
    let (files, registrar) = (Arc::new(Memory::new()), Arc::new(CountingRegistrar::new()));
    let (store, mut oracle, mut random) = (open(files.clone(), &registrar), Oracle::default(), Random::new(2));
    for _ in 0..4 {
        oracle.put(&store, &mut random).unwrap();
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
            // An index confirms segments that its block may have lost; only reading shows it.
            assert_eq!(store.missing(ME, &asked).unwrap().len(), asked.len(), "{why}");
            let report = store.check(ContainerId(1)).unwrap();
            unnoticed += (report.damages.is_empty() && report.sealed == sealed && lost > 0) as usize;
            let readable = oracle.segments.len() - lost;
            assert!(at < 96 || readable > 0 || !sealed, "{why}: one part's damage is not the others'");
            assert_eq!(report.readable_segments as usize, readable, "{why}");
        }
        // Without a footer the last part may be damaged or torn: the two look alike.
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
