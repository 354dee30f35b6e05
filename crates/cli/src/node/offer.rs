//! A piece whose content a client has announced: its place in the file, then the fingerprints of its segments, then
//! their addresses in the store.

use std::sync::Arc;

use format::{Fingerprint, SegmentAddress, SegmentEntry};
use repository::WriteOrigin;
use store::{Answer, ClaimOwner};
use transfer::message::{Extent, Failure, FailureKind, Reply};

use super::offer_budget::{Charge, OfferBudget};
use super::offers::Key;
use super::stripe_owners::OwnerEntry;
use super::{Node, failure};

/// A fingerprint of all zeros names a segment of zeros.
const ZEROS: Fingerprint = Fingerprint([0; 32]);

/// It has its stamp, and so its place among all that came to its stripe set; its names may be still to come.
pub(super) struct Piece {
    key: Key,
    entry: Arc<OwnerEntry>,
    arrival: WriteOrigin,
    stamp: u64,
    /// The session's epoch before the store was asked.
    epoch: u64,
    offsets: Vec<u64>,
    /// The connection counts these.
    _unanswered: Arc<()>,
    _charge: Charge,
}

/// A piece whose names are known.
pub(super) struct OfferFingerprints {
    piece: Piece,
    entries: Vec<SegmentEntry>,
    addresses: Vec<Option<SegmentAddress>>,
}

/// An offer's open needs.
pub(super) enum Need {
    /// These segments, by index, from this client.
    Content(Vec<u32>),
    /// Other clients are about to put the rest.
    Others,
    Nothing,
}

impl Piece {
    /// Returns the piece, or the answer to one that came before, content and all.
    pub fn begin(
        node: &Node,
        key: Key,
        entry: Arc<OwnerEntry>,
        arrival: WriteOrigin,
        extents: &[Extent],
        budget: &Arc<OfferBudget>,
        unanswered: Arc<()>,
    ) -> Result<Result<Piece, Reply>, Failure> {
        let offsets = Extent::segments(extents, entry.owner.options().segment_bytes).ok_or_else(|| {
            Failure::new(FailureKind::Refused, "what was offered is not made of whole segments, or is beyond a frame")
        })?;
        let charge = budget.charge(offsets.len())?;
        let epoch = node.repository.lease().epoch();
        let (stamp, known) = entry.owner.offered(arrival, &offsets).map_err(failure::of)?;
        if known {
            return Ok(Err(Reply::Received { sequence: arrival.sequence, stamp }));
        }
        Ok(Ok(Piece { key, entry, arrival, stamp, epoch, offsets, _unanswered: unanswered, _charge: charge }))
    }

    /// Returns the entries of these names, as segments of the stripe set have them.
    pub fn entries(&self, fingerprints: &[Fingerprint]) -> Arc<[SegmentEntry]> {
        let bytes = self.entry.owner.options().segment_bytes;
        fingerprints.iter().map(|fingerprint| SegmentEntry { fingerprint: *fingerprint, bytes }).collect()
    }

    pub fn need_fingerprints(&self) -> Reply {
        Reply::NeedFingerprints { sequence: self.arrival.sequence, stamp: self.stamp }
    }

    pub fn named(self, entries: &[SegmentEntry]) -> Result<OfferFingerprints, Failure> {
        let bytes = self.entry.owner.options().segment_bytes;
        if entries.len() != self.offsets.len() || entries.iter().any(|entry| entry.bytes != bytes) {
            let why = format!("{} names were given to {} segments", entries.len(), self.offsets.len());
            return Err(Failure::new(FailureKind::Refused, why));
        }
        let addresses = vec![None; entries.len()];
        Ok(OfferFingerprints { piece: self, entries: entries.to_vec(), addresses })
    }
}

impl OfferFingerprints {
    pub fn key(&self) -> Key {
        self.piece.key
    }

    /// Asks the store for segments without an address. With `wait`, other clients' claims are waited for; segments
    /// claimed by another offer of the same connection are asked of the client once more, since that one may wait for
    /// this.
    pub fn ask(&mut self, node: &Node, claim_owner: ClaimOwner, wait: bool) -> Result<Need, Failure> {
        let open = self.open_segments();
        let names: Vec<_> = open.iter().map(|&i| self.entries[i].fingerprint).collect();
        let store = node.repository.store();
        let answers =
            if wait { store.await_claims(claim_owner, &names)? } else { store.missing(claim_owner, &names)? };
        let (mut wanted, mut claimed) = (Vec::new(), Vec::new());
        for (&i, answer) in open.iter().zip(&answers) {
            match answer {
                Answer::Have(address) => self.addresses[i] = Some(*address),
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
        let is_open = |&i: &usize| self.addresses[i].is_none() && self.entries[i].fingerprint != ZEROS;
        (0..self.entries.len()).filter(is_open).collect()
    }

    pub fn missing(&self, wanted: Vec<u32>) -> Reply {
        Reply::Missing { sequence: self.piece.arrival.sequence, stamp: self.piece.stamp, wanted }
    }

    /// Hands the piece to its stripe set: all its content is in the store.
    pub fn complete(self) -> repository::Result<Reply> {
        let Piece { entry, arrival, stamp, epoch, offsets, .. } = self.piece;
        let placed = offsets.into_iter().zip(self.entries).zip(self.addresses);
        let segments: Vec<_> = placed.map(|((offset, entry), address)| (offset, entry, address)).collect();
        entry.owner.supplied(arrival, stamp, epoch, &segments)?;
        Ok(Reply::Received { sequence: arrival.sequence, stamp })
    }
}
