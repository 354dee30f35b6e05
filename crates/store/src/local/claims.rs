//! Who is about to put what, and what this process stored that the table does not tell yet.

use std::collections::HashMap;

use format::{ContainerId, Fingerprint, Place};

use crate::container::ContainerIndex;
use crate::{Answer, Claimant};

#[derive(Default)]
pub struct Claims {
    claimed: HashMap<Fingerprint, Claimant>,
    /// Segments of containers that are not sealed, or not published.
    newest: HashMap<Fingerprint, Place>,
    /// How many of `newest` lie in each container.
    newest_by_container: HashMap<ContainerId, usize>,
    /// Counts how often segments left `newest` for the table.
    published: u64,
}

impl Claims {
    /// What is known without the table; `None` when it must be asked.
    pub fn answer(&self, fingerprint: &Fingerprint) -> Option<Answer> {
        match self.newest.get(fingerprint) {
            Some(place) => Some(Answer::Have(*place)),
            None => self.claimed.contains_key(fingerprint).then_some(Answer::Claimed),
        }
    }

    pub fn claim(&mut self, fingerprint: Fingerprint, claimant: Claimant) {
        self.claimed.insert(fingerprint, claimant);
    }

    pub fn is_claimed_by_other(&self, fingerprint: &Fingerprint, claimant: Claimant) -> bool {
        self.claimed.get(fingerprint).is_some_and(|holder| *holder != claimant)
    }

    pub fn is_claimed_by(&self, fingerprint: &Fingerprint, claimant: Claimant) -> bool {
        self.claimed.get(fingerprint) == Some(&claimant)
    }

    /// The segment is stored: whoever claimed it need not put it. Returns whether it was known before.
    pub fn resolve(&mut self, fingerprint: Fingerprint, place: Place) -> bool {
        self.claimed.remove(&fingerprint);
        let first = *self.newest.entry(fingerprint).or_insert_with(|| {
            *self.newest_by_container.entry(place.container).or_default() += 1;
            place
        });
        first != place
    }

    pub fn release_from_others(&mut self, fingerprint: &Fingerprint, claimant: Claimant) {
        if self.is_claimed_by_other(fingerprint, claimant) {
            self.claimed.remove(fingerprint);
        }
    }

    /// The containers that newest segments lie in.
    pub fn newest_containers(&self) -> Vec<ContainerId> {
        self.newest_by_container.keys().copied().collect()
    }

    pub fn release(&mut self, claimant: Claimant) {
        self.claimed.retain(|_, holder| *holder != claimant);
    }

    /// These containers are sealed and their segments in the table.
    pub fn published<'a>(&mut self, containers: impl Iterator<Item = &'a ContainerIndex>) {
        for index in containers {
            for (place, segment) in index.places() {
                if self.newest.get(&segment.fingerprint) == Some(&place) {
                    self.newest.remove(&segment.fingerprint);
                    self.drop_one_of(place.container);
                }
            }
        }
        self.published += 1;
    }

    /// A look-up in the table that missed says nothing of what was published meanwhile.
    pub fn publications(&self) -> u64 {
        self.published
    }

    pub fn forget(&mut self, container: ContainerId) {
        self.newest.retain(|_, place| place.container != container);
        self.newest_by_container.remove(&container);
    }

    fn drop_one_of(&mut self, container: ContainerId) {
        if let Some(count) = self.newest_by_container.get_mut(&container) {
            *count -= 1;
            if *count == 0 {
                self.newest_by_container.remove(&container);
            }
        }
    }
}
