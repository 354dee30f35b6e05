//! A block's encoding as its header says it: `policy`'s names and `format`'s numbers for the same things.

use format::{BlockHeader, CodecChoice, CodecId, ElementId, FilterId};
use policy::compression::Mode;
use policy::{Compression, Element, Encoding, Filter, MAX_FILTERS};

use crate::error::{Result, corrupt};

/// Acceleration of `lz4:fast`: positions that LZ4 skips after it found nothing.
const FAST_ACCELERATION: u8 = 8;

/// Returns what a store's setting names, or `None` where each block's encoding is chosen. A codec that is named has no filters.
pub(crate) fn named(choice: CodecChoice) -> Option<Encoding> {
    let compression = match choice {
        CodecChoice::Auto(_) => return None,
        CodecChoice::None => policy::compression::never(),
        CodecChoice::Lz4 => Compression::LZ4,
        CodecChoice::Lz4Fast => Compression::Lz4 { acceleration: FAST_ACCELERATION },
        CodecChoice::Lz4Hc(level) => Compression::Lz4Hc { level },
        CodecChoice::Zstd(level) => Compression::Zstd { level },
        CodecChoice::Zlib(level) => Compression::Zlib { level },
        CodecChoice::Xz(level) => Compression::Xz { level },
    };
    Some(compression.into())
}

/// Returns the codec's number and the level beside it: of LZ4 0, its acceleration below 0, or the level of its longer
/// search above.
pub(crate) fn codec_and_level(compression: Compression) -> (CodecId, i8) {
    let (codec, level) = match compression {
        Compression::None => (CodecId::None, 0),
        Compression::ZeroRun => (CodecId::ZeroRun, 0),
        Compression::Lz4 { acceleration: 0..2 } => (CodecId::Lz4, 0),
        Compression::Lz4 { acceleration } => (CodecId::Lz4, -(acceleration.min(127) as i8)),
        Compression::Lz4Hc { level } => (CodecId::Lz4, level.clamp(1, 127) as i8),
        Compression::Zstd { level } => (CodecId::Zstd, level),
        Compression::Zlib { level } => (CodecId::Zlib, level as i8),
        Compression::Xz { level } => (CodecId::Xz, level as i8),
        Compression::Pco { level } => (CodecId::Pco, level as i8),
    };
    (codec, level)
}

/// Returns the filters' numbers.
pub(crate) fn filter_ids(filters: &[Option<Filter>; MAX_FILTERS]) -> [u8; MAX_FILTERS] {
    filters.map(|filter| match filter {
        None => 0,
        Some(Filter::Shuffle) => FilterId::Shuffle as u8,
        Some(Filter::BitShuffle) => FilterId::BitShuffle as u8,
        Some(Filter::Delta) => FilterId::Delta as u8,
        Some(Filter::XorDelta) => FilterId::XorDelta as u8,
        Some(Filter::ByteDelta) => FilterId::ByteDelta as u8,
        Some(Filter::Columns) => FilterId::Columns as u8,
        Some(Filter::ByteSwap) => FilterId::ByteSwap as u8,
    })
}

/// Returns the mode of an automatic choice, as `policy` has it.
pub(crate) fn mode(mode: format::Mode) -> Mode {
    match mode {
        format::Mode::Performance => Mode::Performance,
        format::Mode::Balanced => Mode::Balanced,
        format::Mode::Archival => Mode::Archival,
        format::Mode::Energy => Mode::Energy,
    }
}

pub(crate) fn element_id(element: Element) -> ElementId {
    match element {
        Element::U8 => ElementId::U8,
        Element::U16 => ElementId::U16,
        Element::U32 => ElementId::U32,
        Element::U64 => ElementId::U64,
        Element::I16 => ElementId::I16,
        Element::I32 => ElementId::I32,
        Element::I64 => ElementId::I64,
        Element::F16 => ElementId::F16,
        Element::F32 => ElementId::F32,
        Element::F64 => ElementId::F64,
    }
}

/// Returns the encoding that a header describes; an error when there is a filter unknown here, or when parts of it do
/// not go together.
pub fn described(header: &BlockHeader) -> Result<Encoding> {
    let mut filters = [None; MAX_FILTERS];
    for (filter, id) in filters.iter_mut().zip(header.filters) {
        *filter = known_filter(id)?;
    }
    let encoding = Encoding {
        compression: compression(header.codec, header.level),
        filters,
        element: element(header.element),
        record_length: header.record_length,
        phase: header.phase,
    };
    match encoding.check() {
        Ok(()) => Ok(encoding),
        Err(why) => corrupt(format!(
            "its encoding makes no sense: {why} (codec {}, filters {:?}, element type {:?}, records of {} bytes, phase {})",
            header.codec.name(),
            header.filters,
            header.element,
            header.record_length,
            header.phase
        )),
    }
}

fn known_filter(id: u8) -> Result<Option<Filter>> {
    if id == 0 {
        return Ok(None);
    }
    Ok(Some(match FilterId::from_byte(id)? {
        FilterId::Shuffle => Filter::Shuffle,
        FilterId::BitShuffle => Filter::BitShuffle,
        FilterId::Delta => Filter::Delta,
        FilterId::XorDelta => Filter::XorDelta,
        FilterId::ByteDelta => Filter::ByteDelta,
        FilterId::Columns => Filter::Columns,
        FilterId::ByteSwap => Filter::ByteSwap,
    }))
}

/// Returns the codec by its number; decoding does not depend on the level.
fn compression(codec: CodecId, level: i8) -> Compression {
    match codec {
        CodecId::None => Compression::None,
        CodecId::Lz4 if level > 0 => Compression::Lz4Hc { level: level as u8 },
        CodecId::Lz4 => Compression::Lz4 { acceleration: level.unsigned_abs().max(1) },
        CodecId::Zstd => Compression::Zstd { level },
        CodecId::ZeroRun => Compression::ZeroRun,
        CodecId::Zlib => Compression::Zlib { level: level as u8 },
        CodecId::Xz => Compression::Xz { level: level as u8 },
        CodecId::Pco => Compression::Pco { level: level as u8 },
    }
}

pub(crate) fn element(id: ElementId) -> Element {
    match id {
        ElementId::U8 => Element::U8,
        ElementId::U16 => Element::U16,
        ElementId::U32 => Element::U32,
        ElementId::U64 => Element::U64,
        ElementId::I16 => Element::I16,
        ElementId::I32 => Element::I32,
        ElementId::I64 => Element::I64,
        ElementId::F16 => Element::F16,
        ElementId::F32 => Element::F32,
        ElementId::F64 => Element::F64,
    }
}
