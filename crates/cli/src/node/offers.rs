//! Pieces reduced at the client: fingerprints first, then the blocks that the store misses (design, rule 9).
//!
//! Other threads wait for another client's claim: the connection must go on reading, since the content of its own
//! claims comes in later messages.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use format::{BlockHeader, Fingerprint, SegmentEntry, SessionId};
use repository::WriteOrigin;
use store::ClaimOwner;
use transfer::Replier;
use transfer::message::{Extent, Failure, FailureKind, Reply};

use super::fingerprint_lists::{self, Entries};
use super::handler::{Connection, split};
use super::offer::{Need, OfferFingerprints, Piece};
use super::offer_budget::OfferBudget;
use super::{Node, failure};

/// Of a connection, by session, stripe set and sequence.
pub(super) type Key = (SessionId, u32, u64);

/// A connection's offers awaiting content.
pub(super) struct Offers {
    node: Arc<Node>,
    claim_owner: ClaimOwner,
    open: Mutex<HashMap<Key, OfferFingerprints>>,
    budget: Arc<OfferBudget>,
    /// Every piece that is not answered yet has one.
    unanswered: Arc<()>,
    /// The connection is gone: its claims would never be supplied.
    ended: AtomicBool,
}

impl Connection {
    pub fn offer(
        &mut self,
        key: Key,
        arrival: WriteOrigin,
        extents: &[Extent],
        fingerprints: &[Fingerprint],
        replier: Replier,
    ) {
        let Some((piece, replier)) = self.announced(key, arrival, extents, replier) else { return };
        let entries = piece.entries(fingerprints);
        self.offers.named(piece, &entries, replier);
        // The sender of a full list comes before those that wait for it: it is to send the missing blocks.
        fingerprint_lists::go_on(&self.node.waits, self.node.names.learn(&entries), Some(entries));
    }

    pub fn offer_digest(
        &mut self,
        key: Key,
        arrival: WriteOrigin,
        extents: &[Extent],
        digest: [u8; 32],
        replier: Replier,
    ) {
        let Some((piece, replier)) = self.announced(key, arrival, extents, replier) else { return };
        let offers = self.offers.clone();
        let go_on = Box::new(move |known| offers.digest_known(piece, known, replier));
        self.node.names.offer_digest(digest, self.claim_owner, Instant::now(), go_on);
    }

    /// Returns the piece, if it is a new one; else it is answered here.
    fn announced(
        &mut self,
        key: Key,
        arrival: WriteOrigin,
        extents: &[Extent],
        replier: Replier,
    ) -> Option<(Piece, Replier)> {
        let (unanswered, budget) = (self.offers.unanswered.clone(), self.offers.budget.clone());
        let entry = self.entry(key.0, key.1);
        let begun = entry.and_then(|entry| Piece::begin(&self.node, key, entry, arrival, extents, &budget, unanswered));
        match begun {
            Ok(Ok(piece)) => {
                self.traffic.written(Extent::total_bytes(extents));
                return Some((piece, replier));
            }
            Ok(Err(known)) => replier.reply(known),
            Err(failure) => replier.fail(failure),
        }
        None
    }

    pub fn send_blocks(
        &mut self,
        key: Key,
        blocks: Vec<(BlockHeader, Vec<SegmentEntry>)>,
        payload: Vec<u8>,
        replier: Replier,
    ) {
        match self.take_blocks(key, blocks, payload) {
            Ok(offer) => self.offers.pursue(offer, replier),
            Err(failure) => replier.fail(failure),
        }
    }

    fn take_blocks(
        &mut self,
        key: Key,
        blocks: Vec<(BlockHeader, Vec<SegmentEntry>)>,
        payload: Vec<u8>,
    ) -> Result<OfferFingerprints, Failure> {
        let offer = self.offers.open.lock().expect("no panic holds it").remove(&key);
        let offer =
            offer.ok_or_else(|| Failure::new(FailureKind::Refused, "a supply for nothing that was offered here"))?;
        for block in split(blocks, &payload)? {
            let block = self.checked(block)?;
            self.node.repository.store().put(self.claim_owner, &block)?;
            self.traffic.stored(block.payload.len() as u64);
        }
        Ok(offer)
    }
}

impl Offers {
    pub fn new(node: &Arc<Node>, claim_owner: ClaimOwner) -> Arc<Self> {
        let (open, unanswered, ended) = (Mutex::default(), Arc::default(), AtomicBool::new(false));
        let budget = node.offer_budget.for_connection();
        Arc::new(Offers { node: node.clone(), claim_owner, open, budget, unanswered, ended })
    }

    /// Nothing is claimed, nor about to be: all claimed content has come.
    pub fn are_done(&self) -> bool {
        Arc::strong_count(&self.unanswered) == 1
    }

    /// Ends the connection. Threads that still ask for it release their claims themselves.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.node.repository.store().release(self.claim_owner);
        fingerprint_lists::go_on(&self.node.waits, self.node.names.forget(self.claim_owner), None);
    }

    fn digest_known(self: &Arc<Self>, piece: Piece, known: Option<Entries>, replier: Replier) {
        match known {
            Some(entries) => self.named(piece, &entries, replier),
            None => replier.reply(piece.need_fingerprints()),
        }
    }

    fn named(self: &Arc<Self>, piece: Piece, entries: &[SegmentEntry], replier: Replier) {
        match piece.named(entries) {
            Ok(offer) => self.pursue(offer, replier),
            Err(failure) => replier.fail(failure),
        }
    }

    fn pursue(self: &Arc<Self>, mut offer: OfferFingerprints, replier: Replier) {
        match self.ask(&mut offer, false) {
            Ok(Need::Others) => {
                let offers = self.clone();
                self.node.waits.answer(self.claim_owner.0, replier, move || {
                    let need = offers.ask(&mut offer, true)?;
                    offers.answer(offer, need)
                });
            }
            Ok(need) => match self.answer(offer, need) {
                Ok(reply) => replier.reply(reply),
                Err(failure) => replier.fail(failure),
            },
            Err(failure) => replier.fail(failure),
        }
    }

    fn ask(&self, offer: &mut OfferFingerprints, wait: bool) -> Result<Need, Failure> {
        let need = offer.ask(&self.node, self.claim_owner, wait)?;
        if self.ended.load(Ordering::SeqCst) {
            self.node.repository.store().release(self.claim_owner);
            return Err(Failure::new(FailureKind::Unavailable, "the connection has ended"));
        }
        Ok(need)
    }

    /// Asks for the missing fingerprints or blocks, or hands the whole piece to its stripe set.
    fn answer(&self, offer: OfferFingerprints, need: Need) -> Result<Reply, Failure> {
        let Need::Content(wanted) = need else { return offer.complete().map_err(failure::of) };
        let missing = offer.missing(wanted);
        self.open.lock().expect("no panic holds it").insert(offer.key(), offer);
        Ok(missing)
    }
}
