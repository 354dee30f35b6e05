//! Content-defined segments of several mean lengths, from one scan of the bytes.

use segment::SeveralCutter;

use crate::content_hash::ContentHash;
use crate::distinct::DistinctSample;
use crate::seen_filter::SeenFilter;

/// Of each mean length: what was fed of a segment that has not ended, and those that have.
struct OfMean {
    open: ContentHash,
    sample: DistinctSample,
}

pub struct ContentSegments {
    cutter: SeveralCutter,
    of_means: Vec<OfMean>,
    new: NewSegments,
}

/// Finds segments of one of the mean lengths that did not come before, and gives their bytes.
struct NewSegments {
    mean: usize,
    seen: SeenFilter,
    /// Bytes of the open segment from earlier calls.
    open: Vec<u8>,
}

impl ContentSegments {
    /// Begins without a byte; of segments with the mean length of this number, new ones are given.
    pub fn new(mean_bytes: &[u32], mean_of_new: usize) -> Self {
        let of_mean = |_| OfMean { open: ContentHash::new(), sample: DistinctSample::default() };
        let new = NewSegments { mean: mean_of_new, seen: SeenFilter::new(), open: Vec::new() };
        let of_means = mean_bytes.iter().map(of_mean).collect();
        ContentSegments { cutter: SeveralCutter::new(mean_bytes), of_means, new }
    }

    /// Feeds a file's next bytes; new segments go to `found`.
    pub fn add(&mut self, bytes: &[u8], mut found: impl FnMut(&[u8])) {
        let ContentSegments { cutter, of_means, new } = self;
        let mut begins = vec![0; of_means.len()];
        cutter.feed(bytes, |mean, end| {
            let part = &bytes[begins[mean]..end];
            begins[mean] = end;
            let hash = of_means[mean].end_segment(part);
            if mean == new.mean {
                new.end_segment(hash, part, &mut found);
            }
        });
        for (mean, (of_mean, begin)) in of_means.iter_mut().zip(begins).enumerate() {
            of_mean.open.add(&bytes[begin..]);
            if mean == new.mean {
                new.open.extend_from_slice(&bytes[begin..]);
            }
        }
    }

    /// Ends a file: what is open is its last segments.
    pub fn end_file(&mut self, mut found: impl FnMut(&[u8])) {
        self.cutter.end_file();
        for (mean, of_mean) in self.of_means.iter_mut().enumerate() {
            if of_mean.open.bytes() > 0 {
                let hash = of_mean.end_segment(&[]);
                if mean == self.new.mean {
                    self.new.end_segment(hash, &[], &mut found);
                }
            }
        }
    }

    /// Returns the segments by mean length.
    pub fn samples(&self) -> impl Iterator<Item = &DistinctSample> {
        self.of_means.iter().map(|of_mean| &of_mean.sample)
    }
}

impl OfMean {
    fn end_segment(&mut self, part: &[u8]) -> u64 {
        self.open.add(part);
        let (bytes, hash) = (self.open.bytes(), std::mem::replace(&mut self.open, ContentHash::new()).finish());
        self.sample.add(hash, bytes);
        hash
    }
}

impl NewSegments {
    fn end_segment(&mut self, hash: u64, part: &[u8], found: &mut impl FnMut(&[u8])) {
        if self.seen.add(hash) {
            found(&self.open);
            found(part);
        }
        self.open.clear();
    }
}
