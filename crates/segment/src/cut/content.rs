//! Content-defined boundaries by a Gear hash with normalised chunking.
//!
//! After FastCDC (Xia et al., USENIX ATC'16 and TPDS'20): `hash = 2·hash + GEAR[byte]` depends on the last 64
//! bytes; a segment ends where the hash is small: at first with probability 1/(4·mean) a byte, beyond the
//! *centre* 4/mean (their NC level 2). Bytes below the minimum are skipped. Unlike theirs, thresholds replace
//! masks, so that the centre can be set to make the mean exact, and the hash starts 64 bytes before the first
//! possible cut, so that a cut depends on its last 64 bytes from the first one on.
//! Table, thresholds and lengths are frozen: they decide what deduplicates across versions.

/// Bytes the hash depends on: a byte's contribution is shifted out of 64 bits after as many steps.
const WINDOW_BYTES: usize = 64;

/// The centre, in 1/1024 of the mean. With minimum 1/4, strict 1/4 and loose 4 (in units of the mean) the
/// expected length is 1/4 + 4(1 − e) + e/4 with e = exp(−(centre − 1/4)/4); it is 1 at e = 13/15.
const CENTRE_PER_1024: usize = 842;

/// One random number per byte value: SplitMix64 (Steele, Lea, Flood, OOPSLA'14) seeded with "thalweg0".
pub(super) const GEAR: [u64; 256] = gear_table(u64::from_le_bytes(*b"thalweg0"));

const fn gear_table(seed: u64) -> [u64; 256] {
    let mut table = [0; 256];
    let mut state = seed;
    let mut value = 0;
    while value < 256 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[value] = mixed ^ (mixed >> 31);
        value += 1;
    }
    table
}

/// Cuts at content-defined boundaries; lengths lie between a quarter and eight times the mean.
#[derive(Clone, Debug)]
pub struct ContentCutter {
    pub(super) min_bytes: usize,
    pub(super) centre_bytes: usize,
    pub(super) max_bytes: usize,
    pub(super) strict_below: u64,
    pub(super) loose_below: u64,
    /// Bytes of the current segment that are in `hash` already, or skipped.
    scanned_bytes: usize,
    hash: u64,
}

impl ContentCutter {
    /// Makes a cutter. Panics unless `mean_bytes` is a power of two from 512 up.
    pub fn new(mean_bytes: u32) -> Self {
        assert!(mean_bytes.is_power_of_two() && mean_bytes >= 512, "{mean_bytes} is no mean length for cdc");
        let mean = mean_bytes as usize;
        let mut cutter = ContentCutter {
            min_bytes: mean / 4,
            centre_bytes: mean * CENTRE_PER_1024 / 1024,
            max_bytes: mean * 8,
            strict_below: (1 << 62) / mean as u64,
            loose_below: u64::MAX / mean as u64 * 4,
            scanned_bytes: 0,
            hash: 0,
        };
        cutter.begin_segment();
        cutter
    }

    /// See [`super::Cutter::next`].
    pub fn next(&mut self, buffered: &[u8], end_of_input: bool) -> Option<usize> {
        let found = self.scan(buffered).or_else(|| super::cut_at(self.max_bytes, buffered, end_of_input));
        if found.is_some() {
            self.begin_segment();
        }
        found
    }

    pub fn max_segment_bytes(&self) -> usize {
        self.max_bytes
    }

    fn begin_segment(&mut self) {
        self.scanned_bytes = self.min_bytes - WINDOW_BYTES;
        self.hash = 0;
    }

    /// Scans the bytes not scanned yet, in three stretches: filling the window, strict, loose.
    fn scan(&mut self, buffered: &[u8]) -> Option<usize> {
        // A cut at the minimum is a cut after byte `min_bytes`, so filling stops one byte short of it.
        self.scan_until(self.min_bytes - 1, 0, buffered)
            .or_else(|| self.scan_until(self.centre_bytes, self.strict_below, buffered))
            .or_else(|| self.scan_until(self.max_bytes, self.loose_below, buffered))
    }

    /// Continues to byte `end` of the segment, or to the end of the available bytes.
    fn scan_until(&mut self, end: usize, cut_below: u64, buffered: &[u8]) -> Option<usize> {
        let fresh = buffered.get(self.scanned_bytes..end.min(buffered.len()))?;
        let (scanned, hash, found) = roll(self.hash, cut_below, fresh);
        self.scanned_bytes += scanned;
        self.hash = hash;
        found.then_some(self.scanned_bytes)
    }
}

/// Feeds `bytes` to the hash until it falls below `cut_below`. Returns the bytes fed, the hash after them, and
/// whether it fell.
///
/// Four bytes a step: the step's dependency chain is one shift and one addition, since the four bytes' contribution
/// does not need the hash before them.
pub(super) fn roll(mut hash: u64, cut_below: u64, bytes: &[u8]) -> (usize, u64, bool) {
    let gear = |byte: u8| GEAR[byte as usize];
    let mut fed = 0;
    for four in bytes.chunks_exact(4) {
        let one = gear(four[0]);
        let two = (one << 1).wrapping_add(gear(four[1]));
        let three = (two << 1).wrapping_add(gear(four[2]));
        let all = (three << 1).wrapping_add(gear(four[3]));
        let hashes = [(hash << 1, one), (hash << 2, two), (hash << 3, three), (hash << 4, all)];
        for (step, (shifted, added)) in hashes.into_iter().enumerate() {
            let after = shifted.wrapping_add(added);
            if after < cut_below {
                return (fed + step + 1, after, true);
            }
        }
        hash = (hash << 4).wrapping_add(all);
        fed += 4;
    }
    for &byte in bytes.chunks_exact(4).remainder() {
        hash = (hash << 1).wrapping_add(gear(byte));
        fed += 1;
        if hash < cut_below {
            return (fed, hash, true);
        }
    }
    (fed, hash, false)
}
