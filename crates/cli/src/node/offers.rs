//! Pieces reduced at the client: named first, supplied where the store lacks them (design, rule 9).

use std::collections::HashMap;

use format::{BlockHeader, Fingerprint, Place, SegmentEntry, SessionId};
use repository::Arrival;
use store::Answer;
use transfer::message::{Failure, FailureKind, Reply};

use super::failure;
use super::handler::{Connection, split};

type Key = (SessionId, u32, u64);

/// Offers of a connection whose content has not come yet.
#[derive(Default)]
pub(super) struct Offers {
    open: HashMap<Key, Offer>,
}

struct Offer {
    arrival: Arrival,
    stamp: u64,
    /// The session's epoch before the store was asked.
    epoch: u64,
    segments: Vec<(u64, SegmentEntry)>,
    places: Vec<Option<Place>>,
}

/// A fingerprint of all zeros names a segment of zeros.
const ZEROS: Fingerprint = Fingerprint([0; 32]);

impl Connection {
    pub fn offer(
        &mut self,
        session: SessionId,
        seat: u32,
        arrival: Arrival,
        segments: Vec<(u64, SegmentEntry)>,
    ) -> Result<Reply, Failure> {
        let slot = self.slot(session, seat)?;
        let (stamp, known) = slot.seat.offered(arrival, &segments).map_err(failure::of)?;
        if known {
            return Ok(Reply::Received { sequence: arrival.sequence, stamp });
        }
        let places = vec![None; segments.len()];
        let epoch = self.node.repository.lease().epoch();
        let offer = Offer { arrival, stamp, epoch, segments, places };
        self.offers.open.insert((session, seat, arrival.sequence), offer);
        self.pursue(session, seat, arrival.sequence, false)
    }

    pub fn supply(
        &mut self,
        session: SessionId,
        seat: u32,
        sequence: u64,
        blocks: Vec<(BlockHeader, Vec<SegmentEntry>)>,
        payload: Vec<u8>,
    ) -> Result<Reply, Failure> {
        if !self.offers.open.contains_key(&(session, seat, sequence)) {
            return Err(Failure::new(FailureKind::Refused, "a supply for nothing that was offered here"));
        }
        for block in split(blocks, &payload)? {
            let block = self.checked(block)?;
            self.node.repository.store().put(self.claimant, &block)?;
        }
        self.pursue(session, seat, sequence, true)
    }

    /// Asks the store again; what it has gets its place, what it lacks is asked of the client. Only when the
    /// client's own segments are in are other clients' claims waited for.
    fn pursue(&mut self, session: SessionId, seat: u32, sequence: u64, wait: bool) -> Result<Reply, Failure> {
        let key = (session, seat, sequence);
        let mut offer = self.offers.open.remove(&key).expect("the caller put it there");
        let open = offer.open_segments();
        let names: Vec<_> = open.iter().map(|&i| offer.segments[i].1.fingerprint).collect();
        let store = self.node.repository.store();
        let mut answers = store.lacking(self.claimant, &names)?;
        if wait && !answers.contains(&Answer::Send) {
            answers = store.await_claims(self.claimant, &names)?;
        }
        let mut wanted = Vec::new();
        let mut left = false;
        for (&i, answer) in open.iter().zip(&answers) {
            match answer {
                Answer::Have(place) => offer.places[i] = Some(*place),
                Answer::Send => wanted.push(i as u32),
                Answer::Claimed => left = true,
            }
        }
        if !wanted.is_empty() {
            let lacks = Reply::Lacks { sequence, stamp: offer.stamp, wanted };
            self.offers.open.insert(key, offer);
            return Ok(lacks);
        }
        if left {
            self.offers.open.insert(key, offer);
            return self.pursue(session, seat, sequence, true);
        }
        self.accept(session, seat, offer)
    }

    fn accept(&mut self, session: SessionId, seat: u32, offer: Offer) -> Result<Reply, Failure> {
        let segments: Vec<_> = offer
            .segments
            .iter()
            .zip(&offer.places)
            .map(|((offset, entry), place)| (*offset, *entry, *place))
            .collect();
        let slot = self.slot(session, seat)?;
        slot.seat.supplied(offer.arrival, offer.stamp, offer.epoch, &segments).map_err(failure::of)?;
        Ok(Reply::Received { sequence: offer.arrival.sequence, stamp: offer.stamp })
    }
}

impl Offer {
    fn open_segments(&self) -> Vec<usize> {
        let is_open = |&i: &usize| self.places[i].is_none() && self.segments[i].1.fingerprint != ZEROS;
        (0..self.segments.len()).filter(is_open).collect()
    }
}
