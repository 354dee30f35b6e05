//! Decides whether the fingerprints of whole segments are first sent as one digest, from how earlier digests fared.
//!
//! A digest that the node knows saves the fingerprints; one that it does not know costs a round trip before they are
//! sent after all. A process whose data no other process writes always misses, one whose data all write always hits
//! unless it is the first: so after some misses in a row digests are sent rarely, and after one hit always again.

/// Misses in a row that count as chance.
const FREE_MISSES: u32 = 4;
/// Digests are sent at least once in this many frames: a rank that stopped being the first sends at most this many full
/// lists in vain.
const MAX_INTERVAL: u32 = 16;

/// How the node of one stream has answered its digests.
#[derive(Default)]
pub(super) struct DigestOffers {
    misses_in_a_row: u32,
    full_lists_in_a_row: u32,
}

impl DigestOffers {
    /// Returns whether the next fingerprints go as a digest.
    pub fn ask(&mut self) -> bool {
        self.full_lists_in_a_row += 1;
        let asks = self.full_lists_in_a_row >= self.one_of();
        if asks {
            self.full_lists_in_a_row = 0;
        }
        asks
    }

    pub fn missed(&mut self) {
        self.misses_in_a_row = self.misses_in_a_row.saturating_add(1);
    }

    pub fn hit(&mut self) {
        self.misses_in_a_row = 0;
    }

    fn one_of(&self) -> u32 {
        let doublings = self.misses_in_a_row.saturating_sub(FREE_MISSES - 1);
        2u32.saturating_pow(doublings).min(MAX_INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns which of `count` offers in a row are digests, when the node answers as `knows` says.
    fn asked(digest_offers: &mut DigestOffers, count: u32, knows: bool) -> Vec<u32> {
        let mut ask = |_: &u32| {
            let asks = digest_offers.ask();
            match (asks, knows) {
                (true, true) => digest_offers.hit(),
                (true, false) => digest_offers.missed(),
                (false, _) => {}
            }
            asks
        };
        (1..=count).filter(|number| ask(number)).collect()
    }

    #[test]
    fn digests_that_miss_become_rare_and_one_that_hits_makes_all_ask_again() {
        let mut digest_offers = DigestOffers::default();
        assert_eq!(asked(&mut digest_offers, 20, true).len(), 20);
        assert_eq!(asked(&mut digest_offers, 60, false), [1, 2, 3, 4, 6, 10, 18, 34, 50]);
        assert_eq!(asked(&mut digest_offers, 10, true), [6, 7, 8, 9, 10]);
    }

    #[test]
    fn misses_beyond_counting_still_leave_one_of_sixteen() {
        let mut digest_offers = DigestOffers { misses_in_a_row: u32::MAX - 1, ..DigestOffers::default() };
        assert_eq!(asked(&mut digest_offers, 160, false).len(), 10);
    }
}
