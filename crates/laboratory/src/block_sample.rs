//! Blocks at equal distances of all bytes that are read, and what a codec makes of them.
//!
//! Files follow one another as if they were one: a store, too, puts short files into one block.

use format::{BlockKind, CodecChoice, Fingerprint};
use segment::{BLOCK_BYTES, encode};

use crate::HEADER_BYTES;
use crate::measurement::timed;

/// 32 MiB of blocks.
const MAX_BLOCKS: usize = 128;

pub struct BlockSample {
    seed: u64,
    /// Blocks whose number is the seed's, modulo this, are kept.
    distance: u64,
    kept: Vec<(u64, Vec<u8>)>,
    /// The block that is being read, and how much of it has been.
    number: u64,
    read_bytes: usize,
}

/// What a codec makes of the blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compressed {
    /// Stored for each raw byte.
    pub stored_share: f64,
    /// Two standard deviations of it; 0 where all blocks were kept.
    pub error: f64,
    /// Raw bytes that a core encodes.
    pub mb_per_s: f64,
}

impl BlockSample {
    pub fn new(seed: u64) -> Self {
        BlockSample { seed, distance: 1, kept: Vec::new(), number: 0, read_bytes: 0 }
    }

    pub fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.read_bytes));
            self.add_to_block(now);
            bytes = rest;
        }
    }

    fn add_to_block(&mut self, bytes: &[u8]) {
        if self.is_kept(self.number) {
            match self.kept.last_mut() {
                Some((number, block)) if *number == self.number => block.extend_from_slice(bytes),
                _ => self.kept.push((self.number, bytes.to_vec())),
            }
        }
        self.read_bytes += bytes.len();
        if self.read_bytes == BLOCK_BYTES {
            (self.number, self.read_bytes) = (self.number + 1, 0);
            self.thin();
        }
    }

    fn is_kept(&self, number: u64) -> bool {
        number % self.distance == self.seed % self.distance
    }

    fn thin(&mut self) {
        while self.kept.len() > MAX_BLOCKS {
            self.distance *= 2;
            let kept = std::mem::take(&mut self.kept);
            self.kept = kept.into_iter().filter(|(number, _)| self.is_kept(*number)).collect();
        }
    }

    pub fn blocks(&self) -> usize {
        self.kept.len()
    }

    pub fn bytes(&self) -> u64 {
        self.kept.iter().map(|(_, block)| block.len() as u64).sum()
    }

    /// Encodes all blocks, in a thread of its own that has learned nothing of others. `None` where there are none.
    pub fn compressed(&self, choice: CodecChoice) -> Option<Compressed> {
        let run = || self.kept.iter().map(|(_, raw)| encoded(raw, choice)).collect::<Vec<_>>();
        let found = std::thread::scope(|scope| scope.spawn(run).join().expect("encoding does not panic"));
        let raw: f64 = found.iter().map(|(raw, ..)| raw).sum();
        let share = found.iter().map(|(_, stored, _)| stored).sum::<f64>() / raw;
        let ns: u64 = found.iter().map(|(.., ns)| ns).sum();
        let error = if self.distance == 1 { 0.0 } else { error_of(&found, raw, share) };
        (raw > 0.0).then(|| Compressed { stored_share: share, error, mb_per_s: raw * 1e3 / ns.max(1) as f64 })
    }
}

fn encoded(raw: &[u8], choice: CodecChoice) -> (f64, f64, u64) {
    let (ns, block) = timed(|| encode(BlockKind::Data, &[(Fingerprint([0; 32]), raw)], choice, 0));
    (raw.len() as f64, (block.payload.len() + HEADER_BYTES) as f64, ns)
}

/// Two standard deviations of a ratio of sums (Cochran 1977, 2.46).
fn error_of(found: &[(f64, f64, u64)], raw: f64, share: f64) -> f64 {
    let count = found.len() as f64;
    let squares: f64 = found.iter().map(|(raw, stored, _)| (stored - share * raw).powi(2)).sum();
    2.0 * (count / (count - 1.0).max(1.0) * squares).sqrt() / raw
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_stand_at_equal_distances_and_are_whole() {
        let mut sample = BlockSample::new(77);
        let mut written = 0u64;
        while written < 3000 * BLOCK_BYTES as u64 {
            let bytes: Vec<u8> = (0..100_000).map(|at| ((written + at) / BLOCK_BYTES as u64 % 251) as u8).collect();
            sample.add(&bytes);
            written += bytes.len() as u64;
        }
        assert!((MAX_BLOCKS / 2 - 1..=MAX_BLOCKS).contains(&sample.blocks()), "{}", sample.blocks());
        let whole = &sample.kept[..sample.kept.len() - 1];
        assert!(whole.iter().all(|(number, block)| *block == vec![(number % 251) as u8; BLOCK_BYTES]));
        assert!(sample.kept.windows(2).all(|pair| pair[1].0 - pair[0].0 == sample.distance));
    }

    #[test]
    fn the_share_of_all_is_within_the_error_that_is_said() {
        let mut random = random::Random::new(3);
        let mut sample = BlockSample::new(1);
        // A quarter of the blocks is random, the others are zeros.
        for _ in 0..2000 {
            let is_noise = random.below(4) == 0;
            sample.add(&if is_noise { random.bytes(BLOCK_BYTES) } else { vec![0; BLOCK_BYTES] });
        }
        let found = sample.compressed(CodecChoice::Lz4).unwrap();
        assert!(found.error > 0.03 && (found.stored_share - 0.25).abs() < found.error * 1.3, "{found:?}");
        assert_eq!(BlockSample::new(1).compressed(CodecChoice::Lz4), None);
    }
}
