//! Segments in: stores those that the store misses, and returns each one's address.

use format::{Block, BlockKind, CodecChoice, Fingerprint, SegmentAddress};
use segment::Numbers;
use store::{Answer, ClaimOwner};

use crate::{Repository, Result};

/// Whether a writer asks which of its segments are stored already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DedupMode {
    #[default]
    On,
    /// Segments are stored without a look-up, each in a new place.
    Off,
}

/// One segment on its way in.
#[derive(Clone, Copy)]
pub(crate) struct NewSegment<'a> {
    pub fingerprint: Fingerprint,
    pub bytes: &'a [u8],
}

/// What blocks of new segments are, and how they are encoded.
#[derive(Clone, Copy)]
pub(crate) struct NewBlocks {
    pub kind: BlockKind,
    codec: CodecChoice,
    numbers: Numbers,
}

/// How a writer's content is stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreOptions {
    pub dedup: DedupMode,
    /// None: as the repository encodes.
    pub codec: Option<CodecChoice>,
    /// What is known of the content.
    pub numbers: Numbers,
}

impl NewBlocks {
    /// Pages and journals are small and repetitive; whatever the codec of data, they are worth a general one.
    pub const PAGES: NewBlocks = NewBlocks { kind: BlockKind::Page, ..NewBlocks::data(CodecChoice::AUTO) };
    pub const JOURNAL: NewBlocks = NewBlocks { kind: BlockKind::Journal, ..NewBlocks::data(CodecChoice::AUTO) };

    pub const fn data(codec: CodecChoice) -> Self {
        NewBlocks { kind: BlockKind::Data, codec, numbers: Numbers::Unknown }
    }
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

    pub(crate) fn data_blocks(&self) -> NewBlocks {
        NewBlocks::data(self.codec())
    }

    /// Stores segments as the options say; returns the address of each.
    pub(crate) fn store_segments(
        &self,
        claim_owner: ClaimOwner,
        segments: &[NewSegment],
        options: StoreOptions,
    ) -> Result<Vec<SegmentAddress>> {
        let blocks = options.codec.map_or_else(|| self.data_blocks(), NewBlocks::data);
        let blocks = NewBlocks { numbers: options.numbers, ..blocks };
        match options.dedup {
            DedupMode::On => Ok(self.dedup(claim_owner, blocks, segments)?.addresses),
            DedupMode::Off => self.keep_again(claim_owner, blocks, segments),
        }
    }

    /// Stores the segments that the store misses, new neighbours in one block.
    pub(crate) fn dedup(
        &self,
        claim_owner: ClaimOwner,
        new: NewBlocks,
        segments: &[NewSegment],
    ) -> Result<StoreResult> {
        let kept = self.keep_claiming(claim_owner, new, segments);
        if kept.is_err() {
            self.store.release(claim_owner);
        }
        kept
    }

    fn keep_claiming(&self, claim_owner: ClaimOwner, new: NewBlocks, segments: &[NewSegment]) -> Result<StoreResult> {
        let fingerprints: Vec<_> = segments.iter().map(|segment| segment.fingerprint).collect();
        let mut addresses = vec![None; segments.len()];
        let mut stored_bytes = 0;
        let mut open: Vec<usize> = (0..segments.len()).collect();
        let mut answers = self.store.missing(claim_owner, &fingerprints)?;
        loop {
            stored_bytes += self.put_asked(claim_owner, new, segments, &open, &answers, &mut addresses)?;
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
        new: NewBlocks,
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
        let blocks = self.blocks(new, sending.iter().map(|&i| segments[i]));
        let mut blocks = blocks.inspect(|block| stored_bytes += block.payload.len() as u64);
        let runs = self.store.put_all(claim_owner, &mut blocks)?;
        let stored = runs.iter().flat_map(|run| run.addresses());
        stored.zip(&sending).for_each(|(address, &i)| addresses[i] = Some(address));
        Ok(stored_bytes)
    }

    /// Stores the segments whether or not the store has them, each in a new place.
    pub(crate) fn keep_again(
        &self,
        claim_owner: ClaimOwner,
        new: NewBlocks,
        segments: &[NewSegment],
    ) -> Result<Vec<SegmentAddress>> {
        let mut addresses = Vec::with_capacity(segments.len());
        let runs = self.store.put_all(claim_owner, &mut self.blocks(new, segments.iter().copied()))?;
        runs.iter().for_each(|run| addresses.extend(run.addresses()));
        Ok(addresses)
    }

    pub(crate) fn blocks<'a>(
        &self,
        new: NewBlocks,
        segments: impl Iterator<Item = NewSegment<'a>>,
    ) -> impl Iterator<Item = Block> {
        let segments = segments.map(|segment| (segment.fingerprint, segment.bytes));
        segment::encode_in_blocks(new.kind, segments, new.numbers, new.codec)
    }
}
