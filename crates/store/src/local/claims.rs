//! Claims on segments about to be put, and this process's segments that the table does not have yet.

use std::collections::HashMap;

use format::{ContainerId, Fingerprint, SegmentAddress};

use crate::container::ContainerIndex;
use crate::{Answer, ClaimOwner};

/// Claims of one claim owner, and of all, that are remembered (some 60 bytes each): those of 2 GiB and of 32 GiB in
/// segments of 8 KiB. A segment beyond is answered `Send` to every caller, and may be stored twice.
const MAX_OF_OWNER: usize = 1 << 18;
const MAX_CLAIMS: usize = 1 << 22;

#[derive(Default)]
pub struct Claims {
    claimed: HashMap<Fingerprint, ClaimOwner>,
    /// How many of `claimed` each claim owner holds.
    held: HashMap<ClaimOwner, usize>,
    /// Segments of containers that are not sealed, or not published.
    newest: HashMap<Fingerprint, SegmentAddress>,
    /// How many of `newest` lie in each container.
    newest_by_container: HashMap<ContainerId, usize>,
    /// Counts how often segments left `newest` for the table.
    published: u64,
}

impl Claims {
    /// Returns the answer known without the table; `None` when the table must be asked.
    pub fn answer(&self, fingerprint: &Fingerprint) -> Option<Answer> {
        match self.newest.get(fingerprint) {
            Some(address) => Some(Answer::Have(*address)),
            None => self.claimed.contains_key(fingerprint).then_some(Answer::Claimed),
        }
    }

    pub fn claim(&mut self, fingerprint: Fingerprint, claim_owner: ClaimOwner) {
        let held = self.held.get(&claim_owner).copied().unwrap_or(0);
        if held >= MAX_OF_OWNER || self.claimed.len() >= MAX_CLAIMS {
            return;
        }
        self.drop_claim(&fingerprint);
        self.claimed.insert(fingerprint, claim_owner);
        *self.held.entry(claim_owner).or_default() += 1;
    }

    fn drop_claim(&mut self, fingerprint: &Fingerprint) {
        let Some(claim_owner) = self.claimed.remove(fingerprint) else { return };
        if let Some(held) = self.held.get_mut(&claim_owner) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&claim_owner);
            }
        }
    }

    pub fn is_claimed_by_other(&self, fingerprint: &Fingerprint, claim_owner: ClaimOwner) -> bool {
        self.claimed.get(fingerprint).is_some_and(|holder| *holder != claim_owner)
    }

    pub fn is_claimed_by(&self, fingerprint: &Fingerprint, claim_owner: ClaimOwner) -> bool {
        self.claimed.get(fingerprint) == Some(&claim_owner)
    }

    /// Notes that the segment is stored: its claim owner need not put it. Returns whether it was known before.
    pub fn resolve(&mut self, fingerprint: Fingerprint, address: SegmentAddress) -> bool {
        self.drop_claim(&fingerprint);
        let first = *self.newest.entry(fingerprint).or_insert_with(|| {
            *self.newest_by_container.entry(address.container).or_default() += 1;
            address
        });
        first != address
    }

    pub fn release_from_others(&mut self, fingerprint: &Fingerprint, claim_owner: ClaimOwner) {
        if self.is_claimed_by_other(fingerprint, claim_owner) {
            self.drop_claim(fingerprint);
        }
    }

    /// Returns the containers of the newest segments.
    pub fn newest_containers(&self) -> Vec<ContainerId> {
        self.newest_by_container.keys().copied().collect()
    }

    pub fn release(&mut self, claim_owner: ClaimOwner) {
        if self.held.remove(&claim_owner).is_some() {
            self.claimed.retain(|_, holder| *holder != claim_owner);
        }
    }

    /// Notes that these containers are sealed and their segments in the table.
    pub fn published<'a>(&mut self, containers: impl Iterator<Item = &'a ContainerIndex>) {
        for index in containers {
            for (address, segment) in index.addresses() {
                if self.newest.get(&segment.fingerprint) == Some(&address) {
                    self.newest.remove(&segment.fingerprint);
                    self.drop_one_of(address.container);
                }
            }
        }
        self.published += 1;
    }

    /// Returns the count of publications: a look-up in the table that missed does not cover what was published
    /// meanwhile.
    pub fn publications(&self) -> u64 {
        self.published
    }

    pub fn forget(&mut self, container: ContainerId) {
        self.newest.retain(|_, address| address.container != container);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(number: usize) -> Fingerprint {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
        Fingerprint(bytes)
    }

    #[test]
    fn claims_of_an_owner_are_bounded_and_block_no_other_beyond() {
        let (greedy, other) = (ClaimOwner(1), ClaimOwner(2));
        let mut claims = Claims::default();
        (0..MAX_OF_OWNER + 10).for_each(|number| claims.claim(fingerprint(number), greedy));
        assert_eq!(claims.claimed.len(), MAX_OF_OWNER);
        assert!(claims.answer(&fingerprint(MAX_OF_OWNER + 1)).is_none(), "the next one that asks may send it");
        claims.claim(fingerprint(MAX_OF_OWNER + 1), other);
        assert!(claims.is_claimed_by(&fingerprint(MAX_OF_OWNER + 1), other));
        claims.resolve(fingerprint(0), SegmentAddress::new(ContainerId(1), 0));
        claims.release_from_others(&fingerprint(1), other);
        claims.claim(fingerprint(MAX_OF_OWNER + 2), greedy);
        claims.claim(fingerprint(MAX_OF_OWNER + 3), greedy);
        claims.claim(fingerprint(MAX_OF_OWNER + 4), greedy);
        assert_eq!(claims.claimed.len(), MAX_OF_OWNER + 1);
        claims.release(greedy);
        assert_eq!(claims.claimed.len(), 1);
        claims.release(other);
        assert!(claims.claimed.is_empty() && claims.held.is_empty());
    }
}
