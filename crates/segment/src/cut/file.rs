//! The whole file as one segment, in pieces only where it is longer than the format allows.

use format::MAX_SEGMENT_BYTES;

/// Cuts at the end of the input, and every [`MAX_SEGMENT_BYTES`] before it.
#[derive(Clone, Debug, Default)]
pub struct FileCutter;

impl FileCutter {
    pub fn new() -> Self {
        FileCutter
    }

    /// See [`super::Cutter::next`].
    pub fn next(&mut self, buffered: &[u8], end_of_input: bool) -> Option<usize> {
        super::cut_at(self.max_segment_bytes(), buffered, end_of_input)
    }

    pub fn max_segment_bytes(&self) -> usize {
        MAX_SEGMENT_BYTES as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_one_segment_until_it_exceeds_the_limit() {
        let limit = MAX_SEGMENT_BYTES as usize;
        let mut cutter = FileCutter::new();
        assert_eq!(cutter.next(&vec![0; limit - 1], false), None);
        assert_eq!(cutter.next(&vec![0; limit - 1], true), Some(limit - 1));
        assert_eq!(cutter.next(&vec![0; limit + 5], false), Some(limit));
    }
}
