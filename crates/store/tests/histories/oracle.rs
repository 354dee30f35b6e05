//! What a store is compared with: a map of what was put, and the small stores and dice of these tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use format::{Fingerprint, Place, Run, Settings, StoreId};
use thalweg_store::conformance::{block, content, fingerprint, segment_in};
use thalweg_store::files::Files;
use thalweg_store::{Answer, Claimant, CountingRegistrar, Error, LocalStore, Options, SegmentStore};

pub const ME: Claimant = Claimant(1);

pub fn settings() -> Settings {
    Settings::new(StoreId([6; 16]))
}

/// Small parts and containers, so that a short history has many.
pub fn small() -> Options {
    Options { container_bytes: 12_000, part_bytes: 2_000, background: false, ..Options::default() }
}

pub fn open(files: Arc<dyn Files>, registrar: &Arc<CountingRegistrar>) -> LocalStore {
    LocalStore::open(files.clone(), files, &settings(), registrar.clone(), small()).unwrap()
}

pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % limit
    }
}

/// What is stored where, in the plainest form.
#[derive(Clone, Default)]
pub struct Oracle {
    pub segments: BTreeMap<Place, (u64, usize)>,
}

impl Oracle {
    /// Puts a block of new segments with lengths by the dice.
    pub fn put(&mut self, store: &LocalStore, dice: &mut Dice) -> Result<Run, Error> {
        let segments: Vec<(u64, usize)> =
            (0..1 + dice.below(5)).map(|_| (dice.below(1 << 40), dice.below(700) as usize)).collect();
        let run = store.put(ME, &block(&segments))?;
        self.segments.extend(run.places().zip(segments));
        Ok(run)
    }

    pub fn put_new(&mut self, store: &LocalStore, dice: &mut Dice) {
        self.put(store, dice).unwrap();
    }

    pub fn check_segment(&self, store: &LocalStore, place: Place, why: &str) {
        let (number, bytes) = self.segments[&place];
        let found = store.get(Run::single(place)).unwrap_or_else(|error| panic!("{why}: {place}: {error}"));
        let (entry, stored) = segment_in(&found[0], place);
        assert_eq!(entry.fingerprint, fingerprint(number), "{why}: {place}");
        assert_eq!(stored, content(number, bytes), "{why}: {place}");
    }

    pub fn check_all(&self, store: &LocalStore, why: &str) {
        self.segments.keys().for_each(|place| self.check_segment(store, *place, why));
    }

    /// Segments that are there are right; returns how many are not there.
    pub fn check_what_is_there(&self, store: &LocalStore, why: &str) -> usize {
        let there = |place: &&Place| store.get(Run::single(**place)).is_ok();
        let (found, lost): (Vec<&Place>, Vec<&Place>) = self.segments.keys().partition(there);
        found.into_iter().for_each(|place| self.check_segment(store, *place, why));
        lost.len()
    }

    /// Whoever is told that the store has a segment can read it.
    pub fn check_answers(&self, store: &LocalStore, why: &str) -> usize {
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
