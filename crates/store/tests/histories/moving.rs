//! How answers and addresses change when containers are collected, moved or condemned, and when the table is lost.

use std::sync::Arc;

use format::{BlockKind, Label, Run, SegmentAddress};
use thalweg_store::conformance::{block, fingerprint};
use thalweg_store::files::{Files, Memory};
use thalweg_store::{Answer, CountingRegistrar, Error, LocalStore, Options, SegmentStore, StoredBlock};

use super::oracle::{ME, Oracle, Random, open, settings, small};

#[test]
fn a_lost_table_costs_answers_until_it_is_rebuilt() {
    let (files, registrar) = (Arc::new(Memory::new()), Arc::new(CountingRegistrar::new()));
    let (store, mut oracle, mut random) = (open(files.clone(), &registrar), Oracle::default(), Random::new(4));
    (0..100).for_each(|_| oracle.put_new(&store, &mut random));
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
    assert!(matches!(store.missing(ME, &asked).unwrap()[..], [Answer::Have(_), Answer::Have(_)]));
    registrar.condemn(run.container);
    store.forget_container(run.container);
    assert_eq!(store.missing(ME, &asked).unwrap(), [Answer::Send, Answer::Send]);
    let again = store.put(ME, &block(&[(1, 100), (2, 100)])).unwrap();
    store.remove_file(run.container).unwrap();
    assert_eq!(
        store.missing(ME, &asked[..1]).unwrap(),
        [Answer::Have(SegmentAddress::new(again.container, again.first))]
    );
    assert!(matches!(store.get(run), Err(Error::NotFound { .. })));
}

#[test]
fn segments_keep_their_addresses_when_collection_moves_them() {
    let (files, registrar) = (Arc::new(Memory::new()), Arc::new(CountingRegistrar::new()));
    let (store, mut oracle, mut random) = (open(files.clone(), &registrar), Oracle::default(), Random::new(8));
    (0..120).for_each(|_| oracle.put_new(&store, &mut random));
    store.close().unwrap();
    let old = store.containers_on_disk().unwrap();
    let mut kept: Vec<StoredBlock> = Vec::new();
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
    let held = |address: &SegmentAddress| {
        labels.iter().any(|label| {
            label.container == address.container && (label.first..label.first + label.count).contains(&address.ordinal)
        })
    };
    oracle.segments.retain(|address, _| held(address));
    assert_eq!(oracle.segments.len() as u64, facts.segments);
    for store in [store, open(files.clone(), &registrar)] {
        oracle.check_all(&store, "moved");
        assert_eq!(oracle.check_answers(&store, "moved"), oracle.segments.len());
        store.rebuild_table().unwrap();
        assert_eq!(oracle.check_answers(&store, "rebuilt"), oracle.segments.len());
        assert!(store.check(physical).unwrap().damages.is_empty());
    }
}

/// Stores one segment in a container of its own, and returns its address.
fn stored_alone(store: &LocalStore, number: u64) -> SegmentAddress {
    let run = store.put(ME, &block(&[(number, 500)])).unwrap();
    store.close().unwrap();
    SegmentAddress::new(run.container, run.first)
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
        let answers = store.missing(ME, &[fingerprint(1), fingerprint(2)]).unwrap();
        assert_eq!(answers, [Answer::Send, Answer::Have(SegmentAddress::new(number, second.first))]);
        store.release(ME);
    }
    stores[0].remove_file(whole).unwrap();
    assert!(matches!(stores[0].get(first), Err(Error::NotFound { .. })));
}

#[test]
fn a_session_that_begins_is_given_no_answer_from_before() {
    let (files, registrar) = (Arc::new(Memory::new()), Arc::new(CountingRegistrar::new()));
    let address = stored_alone(&open(files.clone(), &registrar), 1);
    let background = Options { background: true, ..small() };
    let store = LocalStore::open(files.clone(), files, &settings(), registrar.clone(), background).unwrap();
    let answer = || store.missing(ME, &[fingerprint(1)]).unwrap()[0];
    assert_eq!(answer(), Answer::Have(address));
    registrar.condemn(address.container);
    store.forget_catalog_answers();
    assert_eq!(answer(), Answer::Send);
}

#[test]
fn what_this_process_stored_last_is_not_named_once_it_is_condemned() {
    let registrar = Arc::new(CountingRegistrar::new());
    let store = open(Arc::new(Memory::new()), &registrar);
    let run = store.put(ME, &block(&[(1, 500)])).unwrap();
    assert_eq!(store.missing(ME, &[fingerprint(1)]).unwrap(), [Answer::Have(SegmentAddress::new(run.container, 0))]);
    // Its lease expired, and a collection ran.
    registrar.condemn(run.container);
    assert_eq!(store.missing(ME, &[fingerprint(1)]).unwrap(), [Answer::Send]);
}
