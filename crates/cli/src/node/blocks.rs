//! The blocks of a run as one answer holds them: looked up piece by piece, so that a run that no answer holds is refused
//! before much more than that is in memory.

use format::{MAX_PAYLOAD_BYTES, Run};
use store::{SegmentStore, StoredBlock};
use transfer::message::{Failure, FailureKind};

/// Of content, looked up at a time.
const PIECE_BYTES: u64 = 16 << 20;
/// Of the blocks at the ends of a run, which hold other segments too.
const BEYOND_RUN_BYTES: u64 = 512 << 10;

/// `charge` is for so many bytes at most, and asked for before they are read.
pub(super) fn of_run<C>(
    store: &dyn SegmentStore,
    run: Run,
    charge: impl FnOnce(u64) -> C,
) -> Result<(Vec<StoredBlock>, C), Failure> {
    let entries = store.entries(run)?;
    let bytes = entries.iter().map(|entry| u64::from(entry.bytes)).sum::<u64>() + BEYOND_RUN_BYTES;
    let charge = charge(bytes.min(u64::from(MAX_PAYLOAD_BYTES) + PIECE_BYTES));
    let mut found: Vec<StoredBlock> = Vec::new();
    let mut found_bytes = 0;
    for piece in pieces(run, entries.iter().map(|entry| u64::from(entry.bytes))) {
        for placed in store.get(piece)? {
            // A block that two pieces share comes with both.
            if found.last().is_some_and(|last| last.labels == placed.labels) {
                continue;
            }
            found_bytes += placed.block.payload.len();
            if found_bytes > MAX_PAYLOAD_BYTES as usize {
                let why = format!(
                    "the blocks of {} segments from {}:{} on are more than the {MAX_PAYLOAD_BYTES} bytes of an answer; \
                     ask for fewer",
                    run.count, run.container, run.first
                );
                return Err(Failure::new(FailureKind::Refused, why));
            }
            found.push(placed);
        }
    }
    Ok((found, charge))
}

/// Splits a run after each [`PIECE_BYTES`].
fn pieces(run: Run, lengths: impl Iterator<Item = u64>) -> Vec<Run> {
    let mut pieces: Vec<Run> = Vec::new();
    let mut bytes = 0;
    for (first, length) in (run.first..).zip(lengths) {
        bytes += length;
        match pieces.last_mut().filter(|_| bytes <= PIECE_BYTES) {
            Some(piece) => piece.count += 1,
            None => {
                bytes = length;
                pieces.push(Run { container: run.container, first, count: 1 });
            }
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use format::ContainerId;

    use super::*;

    #[test]
    fn a_run_is_split_by_its_content_and_large_segments_stand_alone() {
        let run = Run { container: ContainerId(3), first: 7, count: 5 };
        let lengths = [PIECE_BYTES / 2, PIECE_BYTES / 2, 1, PIECE_BYTES * 4, 1];
        let found = pieces(run, lengths.into_iter());
        let expected = [(7, 2), (9, 1), (10, 1), (11, 1)];
        assert_eq!(found, expected.map(|(first, count)| Run { container: ContainerId(3), first, count }));
        assert!(pieces(Run { count: 0, ..run }, std::iter::empty()).is_empty());
    }
}
