//! Pieces reduced at the client: named first, supplied where the store lacks them (design, rule 9).
//!
//! Waiting for another client's claim is done in a thread of its own: the connection must go on reading, for what it
//! claims itself is supplied by messages still to come.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use format::{BlockHeader, Fingerprint, Place, SegmentEntry, SessionId};
use repository::Arrival;
use store::{Answer, Claimant};
use transfer::Replier;
use transfer::message::{Failure, FailureKind, Reply};

use super::handler::{Connection, split};
use super::paths::in_thread;
use super::seats::Slot;
use super::{Node, failure};

type Key = (SessionId, u32, u64);

/// Offers of a connection whose content has not come yet.
#[derive(Clone, Default)]
pub(super) struct Offers {
    open: Arc<Mutex<HashMap<Key, Offer>>>,
}

struct Offer {
    key: Key,
    slot: Arc<Slot>,
    arrival: Arrival,
    stamp: u64,
    /// The session's epoch before the store was asked.
    epoch: u64,
    segments: Vec<(u64, SegmentEntry)>,
    places: Vec<Option<Place>>,
}

/// What an offer still needs.
enum Need {
    /// These segments, by index, from this client.
    Content(Vec<u32>),
    /// Other clients are about to put the rest.
    Others,
    Nothing,
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
        replier: Replier,
    ) {
        match self.begin_offer((session, seat, arrival.sequence), arrival, segments) {
            Ok(Ok(offer)) => self.pursue(offer, replier),
            Ok(Err(known)) => replier.reply(known),
            Err(failure) => replier.fail(failure),
        }
    }

    /// The offer, or the answer to one that came before, content and all.
    fn begin_offer(
        &mut self,
        key: Key,
        arrival: Arrival,
        segments: Vec<(u64, SegmentEntry)>,
    ) -> Result<Result<Offer, Reply>, Failure> {
        let slot = self.slot(key.0, key.1)?;
        let epoch = self.node.repository.lease().epoch();
        let (stamp, known) = slot.seat.offered(arrival, &segments).map_err(failure::of)?;
        if known {
            return Ok(Err(Reply::Received { sequence: arrival.sequence, stamp }));
        }
        let places = vec![None; segments.len()];
        Ok(Ok(Offer { key, slot, arrival, stamp, epoch, segments, places }))
    }

    pub fn supply(
        &mut self,
        key: Key,
        blocks: Vec<(BlockHeader, Vec<SegmentEntry>)>,
        payload: Vec<u8>,
        replier: Replier,
    ) {
        match self.take_supply(key, blocks, payload) {
            Ok(offer) => self.pursue(offer, replier),
            Err(failure) => replier.fail(failure),
        }
    }

    fn take_supply(
        &mut self,
        key: Key,
        blocks: Vec<(BlockHeader, Vec<SegmentEntry>)>,
        payload: Vec<u8>,
    ) -> Result<Offer, Failure> {
        let offer = self.offers.open.lock().expect("no panic holds it").remove(&key);
        let offer =
            offer.ok_or_else(|| Failure::new(FailureKind::Refused, "a supply for nothing that was offered here"))?;
        for block in split(blocks, &payload)? {
            let block = self.checked(block)?;
            self.node.repository.store().put(self.claimant, &block)?;
        }
        Ok(offer)
    }

    fn pursue(&mut self, mut offer: Offer, replier: Replier) {
        let (node, claimant, offers) = (self.node.clone(), self.claimant, self.offers.clone());
        match offer.ask(&node, claimant, false) {
            Ok(Need::Others) => in_thread("claims", replier, move || {
                let need = offer.ask(&node, claimant, true)?;
                offers.answer(offer, need)
            }),
            Ok(need) => match offers.answer(offer, need) {
                Ok(reply) => replier.reply(reply),
                Err(failure) => replier.fail(failure),
            },
            Err(failure) => replier.fail(failure),
        }
    }
}

impl Offers {
    /// Asks for what is needed, or hands the whole piece to its seat.
    fn answer(&self, offer: Offer, need: Need) -> Result<Reply, Failure> {
        let (sequence, stamp) = (offer.arrival.sequence, offer.stamp);
        if let Need::Content(wanted) = need {
            self.open.lock().expect("no panic holds it").insert(offer.key, offer);
            return Ok(Reply::Lacks { sequence, stamp, wanted });
        }
        let placed = offer.segments.iter().zip(&offer.places);
        let segments: Vec<_> = placed.map(|((offset, entry), place)| (*offset, *entry, *place)).collect();
        offer.slot.seat.supplied(offer.arrival, stamp, offer.epoch, &segments).map_err(failure::of)?;
        Ok(Reply::Received { sequence, stamp })
    }
}

impl Offer {
    /// Asks the store for what has no place yet. With `wait`, other clients' claims are waited for; what is claimed by
    /// another offer of the same connection is asked of the client once more, since that one may wait for this.
    fn ask(&mut self, node: &Node, claimant: Claimant, wait: bool) -> Result<Need, Failure> {
        let open = self.open_segments();
        let names: Vec<_> = open.iter().map(|&i| self.segments[i].1.fingerprint).collect();
        let store = node.repository.store();
        let answers = if wait { store.await_claims(claimant, &names)? } else { store.lacking(claimant, &names)? };
        let (mut wanted, mut claimed) = (Vec::new(), Vec::new());
        for (&i, answer) in open.iter().zip(&answers) {
            match answer {
                Answer::Have(place) => self.places[i] = Some(*place),
                Answer::Send => wanted.push(i as u32),
                Answer::Claimed => claimed.push(i as u32),
            }
        }
        if wait {
            wanted.append(&mut claimed);
        }
        Ok(match (wanted.is_empty(), claimed.is_empty()) {
            (false, _) => Need::Content(wanted),
            (true, false) => Need::Others,
            (true, true) => Need::Nothing,
        })
    }

    fn open_segments(&self) -> Vec<usize> {
        let is_open = |&i: &usize| self.places[i].is_none() && self.segments[i].1.fingerprint != ZEROS;
        (0..self.segments.len()).filter(is_open).collect()
    }
}
