//! A hash for estimates, several times as fast as a fingerprint: equal bytes have equal hashes, however they arrive, and an
//! enemy could make others have them too.

/// Odd numbers with as many ones as zeros about: digits of the square roots of 2, 3, 5 and 7.
const ODD: [u64; 4] = [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1];

/// Four lanes of 16 bytes, so that their multiplications do not wait for one another.
const STRIDE_BYTES: usize = 64;

/// Bytes that come in parts.
#[derive(Clone)]
pub struct ContentHash {
    lanes: [u64; 4],
    bytes: u64,
    /// Of a stride that is not whole.
    pending: [u8; STRIDE_BYTES],
}

impl ContentHash {
    pub fn new() -> Self {
        ContentHash { lanes: ODD, bytes: 0, pending: [0; STRIDE_BYTES] }
    }

    /// Returns the hash of bytes that are there as a whole.
    pub fn of(bytes: &[u8]) -> u64 {
        let mut hash = ContentHash::new();
        hash.add(bytes);
        hash.finish()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn add(&mut self, mut bytes: &[u8]) {
        let waiting = self.waiting_bytes();
        self.bytes += bytes.len() as u64;
        if waiting > 0 {
            let (now, rest) = bytes.split_at(bytes.len().min(STRIDE_BYTES - waiting));
            self.pending[waiting..][..now.len()].copy_from_slice(now);
            if waiting + now.len() < STRIDE_BYTES {
                return;
            }
            self.lanes = mixed_stride(self.lanes, &self.pending);
            bytes = rest;
        }
        let (strides, rest) = bytes.as_chunks::<STRIDE_BYTES>();
        // In registers: a lane that goes through memory is half as fast.
        let mut lanes = self.lanes;
        for stride in strides {
            lanes = mixed_stride(lanes, stride);
        }
        self.lanes = lanes;
        self.pending[..rest.len()].copy_from_slice(rest);
    }

    /// Returns the hash of all that was added; its upper bits are evenly distributed.
    pub fn finish(mut self) -> u64 {
        let waiting = self.waiting_bytes();
        if waiting > 0 {
            self.pending[waiting..].fill(0);
            self.lanes = mixed_stride(self.lanes, &self.pending);
        }
        let [one, two, three, four] = self.lanes;
        mixed(mixed(one ^ self.bytes, two ^ ODD[2]) ^ ODD[1], mixed(three ^ ODD[3], four ^ ODD[0]))
    }

    fn waiting_bytes(&self) -> usize {
        (self.bytes % STRIDE_BYTES as u64) as usize
    }
}

#[inline(always)]
fn mixed_stride([one, two, three, four]: [u64; 4], stride: &[u8; STRIDE_BYTES]) -> [u64; 4] {
    let (words, _) = stride.as_chunks::<8>();
    let word = |at: usize| u64::from_le_bytes(words[at]);
    [
        mixed(one ^ word(0), ODD[2] ^ word(1)),
        mixed(two ^ word(2), ODD[3] ^ word(3)),
        mixed(three ^ word(4), ODD[0] ^ word(5)),
        mixed(four ^ word(6), ODD[1] ^ word(7)),
    ]
}

/// Returns both halves of the product, one over the other.
#[inline(always)]
fn mixed(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

/// Returns the hash of something that is made of parts, from the hash of those before and that of the next.
pub fn joined(before: u64, next: u64) -> u64 {
    mixed(before ^ ODD[0], next ^ ODD[1])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn hashes_are_even_and_differ_with_every_bit_and_length() {
        let mut bytes = vec![0; 100];
        let mut seen = HashSet::new();
        for bit in 0..800 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            seen.insert(ContentHash::of(&bytes));
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        seen.extend((0..100).map(|length| ContentHash::of(&bytes[..length])));
        assert_eq!(seen.len(), 900);
        let upper_ones = (0..10_000u32).filter(|number| ContentHash::of(&number.to_le_bytes()) >> 63 == 1).count();
        assert!((4800..5200).contains(&upper_ones), "{upper_ones}");
    }

    #[test]
    fn it_does_not_matter_in_which_parts_bytes_come() {
        let mut random = random::Random::new(7);
        let bytes = random.bytes(1000);
        for _ in 0..200 {
            let (mut hash, mut rest) = (ContentHash::new(), &bytes[..]);
            while !rest.is_empty() {
                let (now, after) = rest.split_at(rest.len().min(random.below(150) as usize));
                hash.add(now);
                rest = after;
            }
            assert_eq!((hash.bytes(), hash.finish()), (1000, ContentHash::of(&bytes)));
        }
    }
}
