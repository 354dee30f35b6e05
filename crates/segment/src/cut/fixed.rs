//! Segments of one length, counted from the start: used for MPI writes at file offsets, and the baseline.

/// Cuts every `segment_bytes`.
#[derive(Clone, Debug)]
pub struct FixedCutter {
    segment_bytes: usize,
}

impl FixedCutter {
    pub fn new(segment_bytes: u32) -> Self {
        assert!(segment_bytes > 0, "a segment has at least one byte");
        FixedCutter { segment_bytes: segment_bytes as usize }
    }

    /// See [`super::Cutter::next`].
    pub fn next(&mut self, buffered: &[u8], end_of_input: bool) -> Option<usize> {
        super::cut_at(self.segment_bytes, buffered, end_of_input)
    }

    pub fn max_segment_bytes(&self) -> usize {
        self.segment_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_every_so_many_bytes_and_keeps_the_rest() {
        let mut cutter = FixedCutter::new(1000);
        assert_eq!(cutter.next(&[0; 999], false), None);
        assert_eq!(cutter.next(&[0; 2500], false), Some(1000));
        assert_eq!(cutter.next(&[0; 500], true), Some(500));
    }
}
