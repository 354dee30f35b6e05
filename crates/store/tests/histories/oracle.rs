//! The reference a store is compared with: a map of what was put, and the small stores and random numbers of these
//! tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use format::{Fingerprint, Run, SegmentAddress, Settings, StoreId};
pub use random::Random;
use thalweg_store::conformance::{block, content, fingerprint, segment_in};
use thalweg_store::files::Files;
use thalweg_store::{Answer, ClaimOwner, CountingRegistrar, Error, LocalStore, Options, SegmentStore};

pub const ME: ClaimOwner = ClaimOwner(1);

pub fn settings() -> Settings {
    Settings::new(StoreId([6; 16]))
}

/// Returns options for small parts and containers, so that a short history has many.
pub fn small() -> Options {
    Options { container_bytes: 12_000, part_bytes: 2_000, background: false, ..Options::default() }
}

pub fn open(files: Arc<dyn Files>, registrar: &Arc<CountingRegistrar>) -> LocalStore {
    LocalStore::open(files.clone(), files, &settings(), registrar.clone(), small()).unwrap()
}

/// The stored segments and their addresses, in the plainest form.
#[derive(Clone, Default)]
pub struct Oracle {
    pub segments: BTreeMap<SegmentAddress, (u64, usize)>,
}

impl Oracle {
    /// Puts a block of new segments with random lengths.
    pub fn put(&mut self, store: &LocalStore, random: &mut Random) -> Result<Run, Error> {
        let segments: Vec<(u64, usize)> =
            (0..1 + random.below(5)).map(|_| (random.below(1 << 40), random.below(700) as usize)).collect();
        let run = store.put(ME, &block(&segments))?;
        self.segments.extend(run.addresses().zip(segments));
        Ok(run)
    }

    pub fn put_new(&mut self, store: &LocalStore, random: &mut Random) {
        self.put(store, random).unwrap();
    }

    /// Forgets what a full disk had no room for, which the store says it dropped.
    pub fn drop_unwritten(&mut self, store: &LocalStore) {
        self.segments.retain(|address, _| !store.has_dropped(*address));
    }

    pub fn check_segment(&self, store: &LocalStore, address: SegmentAddress, why: &str) {
        let (number, bytes) = self.segments[&address];
        let found = store.get(Run::single(address)).unwrap_or_else(|error| panic!("{why}: {address}: {error}"));
        let (entry, stored) = segment_in(&found[0], address);
        assert_eq!(entry.fingerprint, fingerprint(number), "{why}: {address}");
        assert_eq!(stored, content(number, bytes), "{why}: {address}");
    }

    pub fn check_all(&self, store: &LocalStore, why: &str) {
        self.segments.keys().for_each(|address| self.check_segment(store, *address, why));
    }

    /// Checks that present segments are right; returns how many are missing.
    pub fn check_what_is_there(&self, store: &LocalStore, why: &str) -> usize {
        let there = |address: &&SegmentAddress| store.get(Run::single(**address)).is_ok();
        let (found, lost): (Vec<&SegmentAddress>, Vec<&SegmentAddress>) = self.segments.keys().partition(there);
        found.into_iter().for_each(|address| self.check_segment(store, *address, why));
        lost.len()
    }

    /// Checks that every segment the store claims to have can be read.
    pub fn check_answers(&self, store: &LocalStore, why: &str) -> usize {
        let numbers: Vec<(u64, usize)> = self.segments.values().copied().collect();
        let asked: Vec<Fingerprint> = numbers.iter().map(|(number, _)| fingerprint(*number)).collect();
        let answers = store.missing(ME, &asked).unwrap();
        store.release(ME);
        let mut had = 0;
        for ((number, bytes), answer) in numbers.into_iter().zip(answers) {
            if let Answer::Have(address) = answer {
                let found = store.get(Run::single(address)).unwrap_or_else(|error| panic!("{why}: {address}: {error}"));
                assert_eq!(segment_in(&found[0], address).1, content(number, bytes), "{why}");
                had += 1;
            }
        }
        had
    }
}
