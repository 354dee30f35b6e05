//! Content-defined boundaries for several mean lengths in one pass, for those who compare lengths.
//!
//! Whether a segment may end at a byte depends on the last 64 bytes alone, and a longer mean asks for a smaller hash. So one
//! scan for the loosest of all limits finds the few places that any length could end at.

use super::content::{ContentCutter, roll};

/// Finds for each mean length the very boundaries that [`ContentCutter`] finds.
#[derive(Clone, Debug)]
pub struct SeveralCutter {
    means: Vec<OfMean>,
    candidates_below: u64,
    hash: u64,
}

#[derive(Clone, Debug)]
struct OfMean {
    cutter: ContentCutter,
    /// Bytes of the current segment that were fed before.
    fed_bytes: usize,
}

impl SeveralCutter {
    /// Makes a cutter. Panics where [`ContentCutter::new`] would.
    pub fn new(mean_bytes: &[u32]) -> Self {
        let means = mean_bytes.iter().map(|mean| OfMean { cutter: ContentCutter::new(*mean), fed_bytes: 0 });
        let means: Vec<OfMean> = means.collect();
        let candidates_below = means.iter().map(|mean| mean.cutter.loose_below).max().unwrap_or(0);
        SeveralCutter { means, candidates_below, hash: 0 }
    }

    /// Feeds the next bytes of a file. For every segment that ends among them, `ended` gets the number of its mean length and
    /// where it ends in `bytes`, for each mean length in order.
    pub fn feed(&mut self, bytes: &[u8], mut ended: impl FnMut(usize, usize)) {
        let mut begins: Vec<isize> = self.means.iter().map(|mean| -(mean.fed_bytes as isize)).collect();
        let mut at = 0;
        while at < bytes.len() {
            let (fed, hash, is_candidate) = roll(self.hash, self.candidates_below, &bytes[at..]);
            (self.hash, at) = (hash, at + fed);
            for (number, (mean, begin)) in self.means.iter().zip(&mut begins).enumerate() {
                mean.cutter.pass(begin, at, is_candidate.then_some(hash), |end| ended(number, end));
            }
        }
        for (mean, begin) in self.means.iter_mut().zip(begins) {
            mean.fed_bytes = (bytes.len() as isize - begin) as usize;
        }
    }

    /// Ends the file: what was fed behind the last boundary of each length is its last segment. The next bytes are another's.
    pub fn end_file(&mut self) {
        self.means.iter_mut().for_each(|mean| mean.fed_bytes = 0);
    }
}

impl ContentCutter {
    /// Goes on with the segment that began at `begin` up to `at`, where the hash is what it is if it may be small enough.
    fn pass(&self, begin: &mut isize, at: usize, hash: Option<u64>, mut ended: impl FnMut(usize)) {
        let max_bytes = self.max_bytes as isize;
        while at as isize - *begin >= max_bytes {
            *begin += max_bytes;
            ended(*begin as usize);
        }
        let Some(hash) = hash else { return };
        let length = (at as isize - *begin) as usize;
        let cut_below = if length <= self.centre_bytes { self.strict_below } else { self.loose_below };
        if length >= self.min_bytes && hash < cut_below {
            *begin = at as isize;
            ended(at);
        }
    }
}
