//! Time for trials: earned by encoding, and spent where it helps most, whichever blocks earned it.

use super::mode::Mode;

/// Of the time of encoding, what is earned for trials. An archive may take half as long again.
pub(super) const EARNED: f32 = 0.02;
const EARNED_FOR_ARCHIVES: f32 = 0.35;

/// What blocks of a new kind may spend at once, in blocks; more than one would double the time of short files.
const FIRST_CREDIT_BLOCKS: f32 = 0.8;
/// Credit that is kept at most: data that were dull for long do not make up for it at once.
const MAX_CREDIT_NS: f32 = 0.25e9;

/// What an archive may spend on one block, for each byte (ns): its encoding is to keep to its least speed.
const MAX_SPENT_ON_ARCHIVES: f32 = 500.0;
/// What other modes may spend on one block, in times of encoding it, where that takes this long at least (ns a byte): what is stored as
/// it is would never be tried again else.
const MAX_SPENT_BLOCKS: f32 = 2.0;
const MIN_ENCODE_NS: f32 = 2.0;

const MODES: usize = 4;

/// Nanoseconds of one core, of each mode.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Credit {
    ns: [f32; MODES],
    /// For the block at hand.
    left_ns: f32,
}

impl Credit {
    /// Earns by blocks like the one at hand, of so many bytes, each of which takes `encode_ns` a byte.
    pub fn earn(&mut self, mode: Mode, encode_ns: f32, raw_bytes: usize, blocks: u32, is_new: bool) {
        let share = if mode == Mode::Archival { EARNED_FOR_ARCHIVES } else { EARNED };
        let first = if is_new { FIRST_CREDIT_BLOCKS } else { 0.0 };
        let earned = (first + share * blocks as f32) * encode_ns * raw_bytes as f32;
        let ns = &mut self.ns[mode as usize];
        *ns = (*ns + earned).min(MAX_CREDIT_NS);
        self.left_ns = raw_bytes as f32
            * match mode {
                Mode::Archival => MAX_SPENT_ON_ARCHIVES,
                // Trials on what may not come again take more time than they save.
                Mode::Performance | Mode::Energy if is_new => 0.0,
                _ => MAX_SPENT_BLOCKS * encode_ns.max(MIN_ENCODE_NS),
            };
    }

    pub fn can_pay(&self, mode: Mode, ns: f32) -> bool {
        ns <= self.ns[mode as usize].min(self.left_ns)
    }

    pub fn spend(&mut self, mode: Mode, ns: f32) {
        self.ns[mode as usize] -= ns;
        self.left_ns -= ns;
    }
}
