//! Blocks at equal distances of all bytes that pass, and what codecs make of them.
//!
//! Bytes follow one another as if they were one file: a store, too, puts what is short into one block. Quick codecs encode
//! while the next bytes are read, each in a thread of its own that has learned nothing of others; of slow ones few blocks are
//! kept, and encoded at the end. What a quick codec makes of many blocks corrects what a slow one makes of few (`estimate`).

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use format::{BlockKind, CodecChoice, Fingerprint};
use segment::{BLOCK_BYTES, encode};

use crate::HEADER_BYTES;
use crate::estimate::{self, Compressed, Encoded};
use crate::measurement::timed;

/// A codec, and how many blocks it encodes at most of data of any length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledCodec {
    pub choice: CodecChoice,
    pub max_blocks: u64,
}

/// Of all bytes fewer blocks are encoded than of what deduplication leaves, which is what a store encodes.
const FEWER: u64 = 8;

/// Fewer than this say too little.
const MIN_BLOCKS: u64 = 16;

impl SampledCodec {
    /// Returns the codec with a smaller part of the blocks.
    pub fn with_fewer_blocks(&self) -> Self {
        SampledCodec { max_blocks: (self.max_blocks / FEWER).max(MIN_BLOCKS), ..*self }
    }
}

/// Codecs that encode no more blocks than this do so at the end.
const MAX_KEPT_BLOCKS: u64 = 64;

/// Blocks that wait for a codec (4 MiB).
const MAX_WAITING_BLOCKS: usize = 16;

pub struct BlockSample {
    seed: u64,
    of_codecs: Vec<OfCodec>,
    /// The block that is being read, how much of it has been, and what is kept of it.
    number: u64,
    read_bytes: usize,
    block: Vec<u8>,
}

type Block = Arc<Vec<u8>>;

/// One codec's part of the sample.
struct OfCodec {
    codec: SampledCodec,
    /// Blocks whose number is the seed's, modulo this power of two, are encoded.
    distance: u64,
    work: Work,
}

enum Work {
    /// Encodes as blocks come.
    Thread(SyncSender<(u64, Block)>, JoinHandle<Vec<Encoded>>),
    AtEnd(Vec<(u64, Block)>),
}

impl BlockSample {
    /// Begins a sample for codecs; the first one is the quick one that others are corrected by, and encodes most blocks.
    pub fn new(seed: u64, codecs: &[SampledCodec]) -> Self {
        let of_codecs = codecs.iter().map(|codec| OfCodec::new(*codec)).collect();
        BlockSample { seed, of_codecs, number: 0, read_bytes: 0, block: Vec::new() }
    }

    pub fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.read_bytes));
            if self.is_wanted() {
                self.block.extend_from_slice(now);
            }
            self.read_bytes += now.len();
            if self.read_bytes == BLOCK_BYTES {
                self.end_block();
            }
            bytes = rest;
        }
    }

    fn is_wanted(&self) -> bool {
        self.of_codecs.iter().any(|of_codec| of_codec.wants(self.number, self.seed))
    }

    fn end_block(&mut self) {
        if !self.block.is_empty() {
            let block = Arc::new(std::mem::take(&mut self.block));
            let wanting = self.of_codecs.iter_mut().filter(|of_codec| of_codec.wants(self.number, self.seed));
            wanting.for_each(|of_codec| of_codec.work.add(self.number, &block));
        }
        (self.number, self.read_bytes) = (self.number + 1, 0);
        self.of_codecs.iter_mut().for_each(|of_codec| of_codec.thin(self.number, self.seed));
    }

    /// Ends the last block, waits for the codecs, and returns what each makes of all; none of nothing.
    pub fn finish(mut self) -> Vec<Option<Compressed>> {
        if self.read_bytes > 0 {
            self.end_block();
        }
        let (seed, of_codecs) = (self.seed, self.of_codecs);
        let encoded: Vec<(Vec<Encoded>, bool)> = std::thread::scope(|scope| {
            let finish = |of_codec: OfCodec| scope.spawn(move || of_codec.finish(seed));
            let finishing: Vec<_> = of_codecs.into_iter().map(finish).collect();
            finishing.into_iter().map(|codec| codec.join().expect("encoding does not panic")).collect()
        });
        let estimate = |(blocks, are_all): &(Vec<Encoded>, bool)| match are_all {
            true => estimate::plain(blocks, true),
            false => estimate::with_quick(blocks, &encoded[0].0, encoded[0].1),
        };
        encoded.iter().map(estimate).collect()
    }
}

impl OfCodec {
    fn new(codec: SampledCodec) -> Self {
        let is_slow = codec.max_blocks <= MAX_KEPT_BLOCKS;
        let work = if is_slow { Work::AtEnd(Vec::new()) } else { Work::begin(codec.choice) };
        OfCodec { codec, distance: 1, work }
    }

    fn wants(&self, number: u64, seed: u64) -> bool {
        number % self.distance == seed % self.distance
    }

    /// Takes every second block from now on, when there are too many; `number` is the next one's.
    fn thin(&mut self, number: u64, seed: u64) {
        while number / self.distance > self.codec.max_blocks {
            self.distance *= 2;
            if let Work::AtEnd(kept) = &mut self.work {
                let distance = self.distance;
                kept.retain(|(number, _)| number % distance == seed % distance);
            }
        }
    }

    /// Returns what was made of blocks at the last distance, in order, and whether they are all there were.
    fn finish(self, seed: u64) -> (Vec<Encoded>, bool) {
        let distance = self.distance;
        let mut encoded = self.work.finish(self.codec.choice);
        encoded.retain(|block| block.number % distance == seed % distance);
        (encoded, distance == 1)
    }
}

impl Work {
    fn begin(choice: CodecChoice) -> Self {
        let (sender, blocks) = sync_channel::<(u64, Block)>(MAX_WAITING_BLOCKS);
        let encode_all = move || blocks.into_iter().map(|(number, raw)| encoded(number, &raw, choice)).collect();
        Work::Thread(sender, std::thread::spawn(encode_all))
    }

    fn add(&mut self, number: u64, block: &Block) {
        match self {
            Work::Thread(sender, _) => sender.send((number, block.clone())).expect("encoding does not panic"),
            Work::AtEnd(kept) => kept.push((number, block.clone())),
        }
    }

    fn finish(self, choice: CodecChoice) -> Vec<Encoded> {
        match self {
            Work::Thread(sender, thread) => {
                drop(sender);
                thread.join().expect("encoding does not panic")
            }
            Work::AtEnd(kept) => kept.iter().map(|(number, raw)| encoded(*number, raw, choice)).collect(),
        }
    }
}

fn encoded(number: u64, raw: &[u8], choice: CodecChoice) -> Encoded {
    let (encode_ns, block) = timed(|| encode(BlockKind::Data, &[(Fingerprint([0; 32]), raw)], choice, 0));
    let stored_bytes = (block.payload.len() + HEADER_BYTES) as u64;
    Encoded { number, raw_bytes: raw.len() as u64, stored_bytes, encode_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODECS: [SampledCodec; 3] = [
        SampledCodec { choice: CodecChoice::Lz4, max_blocks: 256 },
        SampledCodec { choice: CodecChoice::Zstd(3), max_blocks: 128 },
        SampledCodec { choice: CodecChoice::Zstd(9), max_blocks: 16 },
    ];

    /// A quarter of the blocks is random, the others are zeros.
    fn sample(blocks: usize, mut portion: impl FnMut() -> usize) -> (Vec<Option<Compressed>>, f64) {
        let mut random = random::Random::new(3);
        let (mut sample, mut noise, mut waiting) = (BlockSample::new(77, &CODECS), 0, Vec::new());
        for _ in 0..blocks {
            let is_noise = random.below(4) == 0;
            noise += usize::from(is_noise);
            waiting.extend(if is_noise { random.bytes(BLOCK_BYTES) } else { vec![0; BLOCK_BYTES] });
            let end = portion().min(waiting.len());
            sample.add(&waiting[..end]);
            waiting.drain(..end);
        }
        sample.add(&waiting);
        (sample.finish(), noise as f64 / blocks as f64)
    }

    #[test]
    fn few_blocks_are_all_encoded_however_bytes_come() {
        let (found, share) = sample(16, || 100_000);
        for found in found.into_iter().map(Option::unwrap) {
            assert!(found.error == 0.0 && found.blocks == 16, "{found:?}");
            assert!((found.stored_share - share).abs() < 0.01, "{found:?}: {share}");
        }
    }

    #[test]
    fn of_many_blocks_each_codec_encodes_its_own_number_and_errs_as_it_says() {
        let (found, share) = sample(1500, || 300_000);
        for (found, codec) in found.into_iter().map(Option::unwrap).zip(CODECS) {
            let max = codec.max_blocks as usize;
            assert!((max / 2 - 1..=max).contains(&found.blocks), "{found:?}");
            assert!(found.error > 0.0 && (found.stored_share - share).abs() < 1.5 * found.error, "{found:?}: {share}");
        }
    }

    #[test]
    fn nothing_has_no_estimate() {
        assert_eq!(BlockSample::new(1, &CODECS).finish(), [None, None, None]);
    }
}
