//! What the chooser really does: blocks one after the other, as a store encodes them, timed.

use format::{BlockKind, CodecChoice, Fingerprint, Mode};
use policy::Encoding;
use policy::compression::{CANDIDATES, Conditions};
use segment::{encode, encode_with, found_data, header_encoding, set_conditions};

use crate::measurement::timed;

/// What was chosen for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// `None` when it is none of the candidates.
    pub candidate: Option<usize>,
    pub stored_bytes: usize,
    /// To choose and to encode.
    pub compress_ns: u64,
    /// To encode once more, knowing how.
    pub encode_ns: u64,
}

impl Choice {
    /// What choosing took; of two times that differ by nothing but chance, 0.
    pub fn choosing_ns(&self) -> u64 {
        self.compress_ns.saturating_sub(self.encode_ns)
    }
}

/// Lets the chooser encode blocks in order, in a thread of its own: it has learned nothing, and learns as it goes.
/// An error of the iterator ends it. Sets this process's conditions.
pub fn run_chooser<E: Send>(
    mode: Mode,
    conditions: Conditions,
    blocks: impl Iterator<Item = Result<Vec<u8>, E>> + Send,
) -> Result<Vec<Choice>, E> {
    set_conditions(conditions);
    let run = move || {
        let mut last = policy::compression::never().into();
        blocks.map(|raw| Ok(choose(mode, &raw?, &mut last))).collect()
    };
    std::thread::scope(|scope| scope.spawn(run).join().expect("encoding does not panic"))
}

fn choose(mode: Mode, raw: &[u8], last: &mut Encoding) -> Choice {
    let segments = [(Fingerprint([0; 32]), raw)];
    // Else the first of the two times that are compared would have cold caches in it: up to a seventh more.
    encode_with(BlockKind::Data, &segments, last);
    let (compress_ns, block) = timed(|| encode(BlockKind::Data, &segments, CodecChoice::Auto(mode), 0));
    let encoding = header_encoding(&block.header).expect("what was encoded just now has a sound header");
    let encode_ns = timed(|| encode_with(BlockKind::Data, &segments, &encoding)).0;
    *last = encoding;
    Choice { candidate: candidate_of(raw, &encoding), stored_bytes: block.payload.len(), compress_ns, encode_ns }
}

/// A header says nothing of filters where the block is stored as it is.
fn candidate_of(raw: &[u8], encoding: &Encoding) -> Option<usize> {
    let data = found_data(raw);
    let is_it = |candidate: &Encoding| {
        let is_plain = encoding.filters == [None; 4] && candidate.filters == [None; 4];
        let is_typed = matches!(encoding.compression, policy::Compression::Pco { .. });
        let is_alike = candidate.compression == encoding.compression && candidate.filters == encoding.filters;
        is_alike && (candidate.element == encoding.element || is_plain && !is_typed)
    };
    CANDIDATES.iter().position(|candidate| candidate.encoding(&data).is_some_and(|of_it| is_it(&of_it)))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn every_candidate_is_found_again_by_its_header() {
        let raw: Vec<u8> = (0..8192).flat_map(|at| ((at as f64 * 0.01).sin() + 2.0).to_le_bytes()).collect();
        let data = found_data(&raw);
        for (number, candidate) in CANDIDATES.iter().enumerate() {
            let Some(encoding) = candidate.encoding(&data) else { continue };
            let block = encode_with(BlockKind::Data, &[(Fingerprint([0; 32]), &raw)], &encoding);
            let found = candidate_of(&raw, &header_encoding(&block.header).unwrap());
            let is_kept = block.payload.len() < raw.len();
            assert_eq!(found, Some(if is_kept { number } else { 0 }), "{encoding:?}");
        }
    }

    #[test]
    fn random_bytes_are_stored_as_they_are_and_choosing_costs_little() {
        let mut random = random::Random::new(5);
        let blocks: Vec<Vec<u8>> = (0..4).map(|_| random.bytes(256 << 10)).collect();
        let blocks = blocks.into_iter().map(Ok::<_, Infallible>);
        let Ok(choices) = run_chooser(Mode::Balanced, Conditions::default(), blocks);
        assert_eq!(choices.len(), 4);
        assert!(choices.iter().all(|choice| choice.candidate == Some(0) && choice.stored_bytes == 256 << 10));
    }
}
