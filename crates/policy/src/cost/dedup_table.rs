//! Memory of a fingerprint table: **Data Reduction** (Kuhn 2024), "Deduplication tables", and our own.

/// What a table takes for each segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Table {
    pub segment_bytes: f64,
    pub entry_bytes: f64,
}

/// The lecture's entry: a SHA-256, an offset and what the data structure costs.
const LECTURE_ENTRY_BYTES: f64 = 32.0 + 8.0 + 8.0;

/// Our table's filters and fences (ARCHITECTURE.md, "Memory"); the entries themselves are on disk.
const OUR_ENTRY_BYTES: f64 = 1.2;

/// The table of the lecture's cost models: 8 KB blocks.
pub const LECTURE: Table = Table { segment_bytes: 8000.0, entry_bytes: LECTURE_ENTRY_BYTES };

/// This project's, with segments of the usual length.
pub const OURS: Table = Table { segment_bytes: 8192.0, entry_bytes: OUR_ENTRY_BYTES };

impl Table {
    /// Returns the same table over segments of another length.
    pub fn with_segment_bytes(self, segment_bytes: f64) -> Self {
        Table { segment_bytes, ..self }
    }

    /// Returns bytes of memory for each byte of different data.
    pub fn memory_share(&self) -> f64 {
        self.entry_bytes / self.segment_bytes
    }

    /// Returns bytes of memory for so many bytes of different data.
    pub fn memory_bytes(&self, unique_bytes: f64) -> f64 {
        unique_bytes * self.memory_share()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::printed::assert_printed;

    #[test]
    fn memory_is_that_of_the_lecture() {
        assert_printed(1e12 / LECTURE.segment_bytes / 1e6, 125.0, 1.0, "million segments of 1 TB");
        assert_printed(LECTURE.memory_bytes(1e12) / 1e9, 6.0, 1.0, "GB for 1 TB");
        for (segment_kb, percent, digit) in [(8.0, 0.6, 0.1), (16.0, 0.3, 0.1), (32.0, 0.15, 0.01)] {
            let share = LECTURE.with_segment_bytes(segment_kb * 1000.0).memory_share();
            assert_printed(100.0 * share, percent, digit, "percent of the data");
        }
    }

    #[test]
    fn our_table_takes_a_fortieth() {
        let ratio = LECTURE.memory_share() / OURS.memory_share();
        assert!((40.0..42.0).contains(&ratio), "{ratio}");
    }
}
