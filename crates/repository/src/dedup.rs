//! Segments in: stores those that the store misses, and returns each one's address.

use format::{Block, BlockKind, CodecChoice, Fingerprint, SegmentAddress};
use store::{Answer, ClaimOwner};

use crate::{Repository, Result};

/// Raw bytes that are compressed together (bytes).
const BLOCK_BYTES: usize = 256 << 10;

/// One segment on its way in.
#[derive(Clone, Copy)]
pub(crate) struct NewSegment<'a> {
    pub fingerprint: Fingerprint,
    pub bytes: &'a [u8],
}

/// The result of a batch.
pub(crate) struct StoreResult {
    /// One for each segment.
    pub addresses: Vec<SegmentAddress>,
    /// Of the blocks that were new.
    pub stored_bytes: u64,
}

impl Repository {
    pub(crate) fn fingerprint(&self, bytes: &[u8]) -> Fingerprint {
        segment::fingerprint(self.settings.fingerprint, bytes)
    }

    /// Stores the segments that the store misses, new neighbours in one block.
    pub(crate) fn dedup(
        &self,
        claim_owner: ClaimOwner,
        kind: BlockKind,
        segments: &[NewSegment],
    ) -> Result<StoreResult> {
        let kept = self.keep_claiming(claim_owner, kind, segments);
        if kept.is_err() {
            self.store.release(claim_owner);
        }
        kept
    }

    fn keep_claiming(&self, claim_owner: ClaimOwner, kind: BlockKind, segments: &[NewSegment]) -> Result<StoreResult> {
        let fingerprints: Vec<_> = segments.iter().map(|segment| segment.fingerprint).collect();
        let mut addresses = vec![None; segments.len()];
        let mut stored_bytes = 0;
        let mut open: Vec<usize> = (0..segments.len()).collect();
        let mut answers = self.store.missing(claim_owner, &fingerprints)?;
        loop {
            stored_bytes += self.put_asked(claim_owner, kind, segments, &open, &answers, &mut addresses)?;
            open.retain(|&i| addresses[i].is_none());
            if open.is_empty() {
                break;
            }
            // Claimed by another owner, or a repetition within this very batch: by now put, or given up.
            let waiting: Vec<_> = open.iter().map(|&i| fingerprints[i]).collect();
            answers = self.store.await_claims(claim_owner, &waiting)?;
        }
        let addresses = addresses.into_iter().map(|address| address.expect("no segment is left open")).collect();
        Ok(StoreResult { addresses, stored_bytes })
    }

    /// Takes over the addresses of segments that the store has, and puts those it asks for; returns how many bytes that
    /// was.
    fn put_asked(
        &self,
        claim_owner: ClaimOwner,
        kind: BlockKind,
        segments: &[NewSegment],
        asked: &[usize],
        answers: &[Answer],
        addresses: &mut [Option<SegmentAddress>],
    ) -> Result<u64> {
        let mut stored_bytes = 0;
        let mut sending = Vec::new();
        for (&i, answer) in asked.iter().zip(answers) {
            match answer {
                Answer::Have(address) => addresses[i] = Some(*address),
                Answer::Send => sending.push(i),
                Answer::Claimed => {}
            }
        }
        for group in grouped(&sending, |i| segments[i].bytes.len()) {
            let block = self.encode(kind, group.iter().map(|&i| segments[i]));
            let run = self.store.put(claim_owner, &block)?;
            stored_bytes += block.payload.len() as u64;
            group.iter().zip(run.addresses()).for_each(|(&i, address)| addresses[i] = Some(address));
        }
        Ok(stored_bytes)
    }

    /// Stores the segments whether or not the store has them, each in a new place.
    pub(crate) fn keep_again(
        &self,
        claim_owner: ClaimOwner,
        kind: BlockKind,
        segments: &[NewSegment],
    ) -> Result<Vec<SegmentAddress>> {
        let all: Vec<_> = (0..segments.len()).collect();
        let mut addresses = Vec::with_capacity(segments.len());
        for group in grouped(&all, |i| segments[i].bytes.len()) {
            let block = self.encode(kind, group.iter().map(|&i| segments[i]));
            addresses.extend(self.store.put(claim_owner, &block)?.addresses());
        }
        Ok(addresses)
    }

    fn encode<'a>(&self, kind: BlockKind, segments: impl Iterator<Item = NewSegment<'a>>) -> Block {
        let segments: Vec<_> = segments.map(|segment| (segment.fingerprint, segment.bytes)).collect();
        // Pages and journals are small and repetitive; whatever the codec of data, they are worth a general one.
        let choice = match kind {
            BlockKind::Data => self.settings.codec,
            BlockKind::Page | BlockKind::Journal => CodecChoice::Auto,
        };
        segment::encode(kind, &segments, choice, 0)
    }
}

/// Splits indices into groups of at most [`BLOCK_BYTES`], or single larger segments.
fn grouped(indices: &[usize], bytes_of: impl Fn(usize) -> usize) -> Vec<&[usize]> {
    let mut groups = Vec::new();
    let (mut first, mut sum) = (0, 0);
    for (at, &i) in indices.iter().enumerate() {
        let bytes = bytes_of(i);
        if at > first && sum + bytes > BLOCK_BYTES {
            groups.push(&indices[first..at]);
            (first, sum) = (at, 0);
        }
        sum += bytes;
    }
    if first < indices.len() {
        groups.push(&indices[first..]);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_stay_within_a_block_unless_one_segment_is_larger() {
        let sizes = [BLOCK_BYTES, 1, BLOCK_BYTES * 2, BLOCK_BYTES / 2, BLOCK_BYTES / 2, 1];
        let indices: Vec<_> = (0..sizes.len()).collect();
        let groups = grouped(&indices, |i| sizes[i]);
        assert_eq!(groups, [&[0][..], &[1], &[2], &[3, 4], &[5]]);
        assert!(grouped(&[], |_| 0).is_empty());
    }
}
