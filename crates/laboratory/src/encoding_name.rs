//! What encodings are called in tables and figures: their filters and their codec, as `shuffle+zstd:1`.

use policy::compression::{CANDIDATES, Compression};
use policy::{Element, Encoding, Filter};

/// Returns a candidate's name; of codecs for numbers, it has the kind of numbers.
pub fn candidate_name(candidate: usize) -> String {
    let candidate = &CANDIDATES[candidate];
    let kind = ["", " integers", " floats"][candidate.numbers_flag() as usize];
    let encoding = Encoding {
        compression: candidate.compression,
        filters: candidate.filters(),
        element: Element::U8,
        record_length: 0,
        phase: 0,
    };
    encoding_name(&encoding) + kind
}

pub(crate) fn encoding_name(encoding: &Encoding) -> String {
    let filters: Vec<Filter> = encoding.filters.iter().copied().flatten().collect();
    let words = filters.iter().enumerate().filter_map(|(at, filter)| filter_name(*filter, filters.get(at + 1)));
    let codec = compression_name(encoding.compression);
    words.map(str::to_owned).chain([codec]).collect::<Vec<_>>().join("+")
}

/// A shuffle before a filter of its planes goes without saying, and so do columns before numbers.
fn filter_name(filter: Filter, next: Option<&Filter>) -> Option<&'static str> {
    match (filter, next) {
        (Filter::Shuffle, Some(Filter::BitShuffle | Filter::ByteDelta)) | (Filter::Columns, _) => None,
        (Filter::Shuffle, _) => Some("shuffle"),
        (Filter::BitShuffle, _) => Some("bitshuffle"),
        (Filter::Delta, _) => Some("delta"),
        (Filter::XorDelta, _) => Some("xordelta"),
        (Filter::ByteDelta, _) => Some("bytedelta"),
        (Filter::ByteSwap, _) => Some("byteswap"),
    }
}

fn compression_name(compression: Compression) -> String {
    match compression {
        Compression::None => "none".into(),
        Compression::ZeroRun => "zero-run".into(),
        Compression::Lz4 { acceleration: 0..2 } => "lz4".into(),
        Compression::Lz4 { .. } => "lz4:fast".into(),
        Compression::Lz4Hc { level } => format!("lz4hc:{level}"),
        Compression::Zstd { level } => format!("zstd:{level}"),
        Compression::Zlib { level } => format!("zlib:{level}"),
        Compression::Xz { level } => format!("xz:{level}"),
        Compression::Pco { level } => format!("pco:{level}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_candidates_have_names_of_their_own() {
        let names: Vec<String> = (0..CANDIDATES.len()).map(candidate_name).collect();
        assert!(names.iter().enumerate().all(|(at, name)| !names[..at].contains(name)), "{names:?}");
        for expected in ["none", "zstd:1", "shuffle+lz4", "bitshuffle+zstd:1", "delta+shuffle+zstd:1", "pco:8 floats"] {
            assert!(names.iter().any(|name| name == expected), "{expected}: {names:?}");
        }
    }
}
