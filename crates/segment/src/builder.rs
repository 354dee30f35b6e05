//! Gathers neighbouring segments and compresses them together.

use format::{Block, BlockHeader, BlockKind, CodecChoice, Fingerprint, FloatType, SegmentEntry, checksum};
use policy::compression::{Data, Mode};
use policy::{Compression, Encoding};

use crate::codec::{self, MAX_BLOCK_BYTES};
use crate::encoding::{self, codec_and_level, element_id, filter_ids};
use crate::{chooser, filter};

/// Raw bytes from which on a block is full: long enough to compress well, short enough to decode for one segment.
pub const BLOCK_BYTES: usize = 256 << 10;

/// A block in the making. Reusable: [`BlockBuilder::finish`] leaves it empty, with its buffer.
#[derive(Debug)]
pub struct BlockBuilder {
    kind: BlockKind,
    data: Data,
    segments: Vec<SegmentEntry>,
    raw: Vec<u8>,
}

impl BlockBuilder {
    /// Makes a builder; `record_length` is the length of one record of the data (bytes), 0 when unknown.
    pub fn new(kind: BlockKind, record_length: u32) -> Self {
        let data = Data { record_length, ..Data::default() };
        BlockBuilder { kind, data, segments: Vec::new(), raw: Vec::new() }
    }

    /// Says what the blocks consist of, to whom it is known; of data that are not known it is found, big-endian where it says so.
    pub fn describe(&mut self, data: Data) {
        self.data = data;
    }

    /// Copies a segment in. Panics when the block would exceed [`MAX_BLOCK_BYTES`]: ask [`BlockBuilder::fits`].
    pub fn push(&mut self, fingerprint: Fingerprint, bytes: &[u8]) {
        assert!(self.raw.len() + bytes.len() <= MAX_BLOCK_BYTES, "a block of more than {MAX_BLOCK_BYTES} bytes");
        self.raw.extend_from_slice(bytes);
        self.segments.push(SegmentEntry { fingerprint, bytes: bytes.len() as u32 });
    }

    /// Returns whether a segment of this length leaves the block within [`BLOCK_BYTES`], or is its first.
    pub fn fits(&self, segment_bytes: usize) -> bool {
        self.is_empty() || self.raw.len() + segment_bytes <= BLOCK_BYTES
    }

    pub fn is_full(&self) -> bool {
        self.raw.len() >= BLOCK_BYTES
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub fn raw_bytes(&self) -> usize {
        self.raw.len()
    }

    /// Encodes the pushed segments, and begins a new block.
    pub fn finish(&mut self, choice: CodecChoice) -> Block {
        match choice {
            CodecChoice::Auto(mode) => self.finish_chosen(encoding::mode(mode)),
            named => {
                let encoding = encoding::named(named).expect("all but the automatic choice are named");
                self.finish_with(&Encoding { record_length: self.data.record_length, ..encoding })
            }
        }
    }

    fn finish_chosen(&mut self, mode: Mode) -> Block {
        let choice = chooser::choose(mode, &self.raw, self.data);
        let record_length = match choice.encoding.record_length {
            0 => self.data.record_length,
            found => found,
        };
        let encoding = Encoding { record_length, ..choice.encoding };
        choice.encode_and_learn(self.raw.len(), || self.finish_with(&encoding), |block| block.payload.len())
    }

    /// Encodes the pushed segments by this encoding, and begins a new block.
    ///
    /// Panics when [`Encoding::check`] refuses it.
    pub fn finish_with(&mut self, encoding: &Encoding) -> Block {
        encoding.check().unwrap_or_else(|why| panic!("{encoding:?}: {why}"));
        let raw_bytes = self.raw.len() as u32;
        let (kept, payload) = self.take_payload(encoding);
        let (codec, level) = codec_and_level(kept.compression);
        let segments = std::mem::take(&mut self.segments);
        let header = BlockHeader {
            kind: self.kind,
            codec,
            cipher: 0,
            level,
            filters: filter_ids(&kept.filters),
            key_id: 0,
            group: 0,
            record_length: kept.record_length,
            phase: kept.phase,
            element: element_id(kept.element),
            segments: segments.len() as u32,
            raw_bytes,
            stored_bytes: payload.len() as u32,
            offset: 0,
            checksum: checksum(&payload),
        };
        Block { header, segments, payload }
    }

    /// Returns the encoded bytes and how they were encoded, or, where they are not worth it, the buffer itself.
    fn take_payload(&mut self, encoding: &Encoding) -> (Encoding, Vec<u8>) {
        let encoded = match encoding.compression {
            Compression::None => None,
            _ => filter::with_filtered(encoding, &self.raw, |filtered| codec::encode(encoding, filtered)),
        };
        let kept = match encoded {
            Some(payload) => (*encoding, payload),
            None => {
                (Encoding { compression: Compression::None, filters: Default::default(), ..*encoding }, self.take_raw())
            }
        };
        self.raw.clear();
        kept
    }

    /// Returns the buffer itself when it is well filled, and a copy when most of it would lie idle.
    fn take_raw(&mut self) -> Vec<u8> {
        if self.raw.len() < self.raw.capacity() / 2 {
            return self.raw.clone();
        }
        let fresh = Vec::with_capacity(self.raw.capacity());
        std::mem::replace(&mut self.raw, fresh)
    }
}

/// Encodes segments, neighbours together, into blocks of at most [`BLOCK_BYTES`] or of one larger segment: each when it
/// is asked for. `numbers` says what is known of the segments' numbers.
pub fn encode_in_blocks<'a>(
    kind: BlockKind,
    segments: impl Iterator<Item = (Fingerprint, &'a [u8])>,
    numbers: Numbers,
    choice: CodecChoice,
) -> impl Iterator<Item = Block> {
    let (mut segments, mut builder) = (segments.peekable(), BlockBuilder::new(kind, 0));
    builder.describe(numbers.data());
    std::iter::from_fn(move || {
        // A page is a block of its own: a reader of it has no use for its neighbours.
        let is_full = |builder: &BlockBuilder| kind == BlockKind::Page && !builder.is_empty();
        while let Some((fingerprint, bytes)) =
            segments.next_if(|(_, bytes)| builder.fits(bytes.len()) && !is_full(&builder))
        {
            builder.push(fingerprint, bytes);
        }
        (!builder.is_empty()).then(|| builder.finish(choice))
    })
}

/// What is known of the numbers in segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// Nothing.
    #[default]
    Unknown,
    /// The highest byte of each stands first; what they are is found.
    BigEndian,
    /// All segments are whole floats of this type, and were rounded.
    Rounded(FloatType),
}

impl Numbers {
    fn data(self) -> Data {
        match self {
            Numbers::Unknown => Data::default(),
            Numbers::BigEndian => Data { is_big_endian: true, ..Data::default() },
            Numbers::Rounded(float) => Data {
                element: encoding::element(float.element()),
                is_known: true,
                is_rounded: true,
                is_big_endian: float.is_big_endian(),
                ..Data::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use format::CodecId;

    use super::*;
    use crate::random::{field, random_bytes, text};

    const NAME: Fingerprint = Fingerprint([1; 32]);

    fn built(raw: &[u8], choice: CodecChoice) -> Block {
        let mut builder = BlockBuilder::new(BlockKind::Data, 0);
        raw.chunks(8192).for_each(|segment| builder.push(NAME, segment));
        builder.finish(choice)
    }

    #[test]
    fn blocks_stay_within_their_length_unless_one_segment_is_larger() {
        let lengths = [BLOCK_BYTES, 1, BLOCK_BYTES * 2, BLOCK_BYTES / 2, BLOCK_BYTES / 2, 1];
        let raw = vec![7; BLOCK_BYTES * 2];
        let segments = lengths.iter().map(|length| (Fingerprint([0; 32]), &raw[..*length]));
        let blocks = encode_in_blocks(BlockKind::Data, segments, Numbers::Unknown, CodecChoice::None);
        assert_eq!(blocks.map(|block| block.segments.len()).collect::<Vec<_>>(), [1, 1, 1, 2, 1]);
        assert_eq!(
            encode_in_blocks(BlockKind::Data, std::iter::empty(), Numbers::Unknown, CodecChoice::None).count(),
            0
        );
    }

    #[test]
    fn a_builder_is_used_again_and_again() {
        let mut builder = BlockBuilder::new(BlockKind::Page, 40);
        for (round, raw) in [text(1, 5000), random_bytes(2, 9000), vec![0; 100]].iter().enumerate() {
            builder.push(NAME, raw);
            let block = builder.finish(CodecChoice::AUTO);
            assert!(builder.is_empty() && builder.raw_bytes() == 0);
            assert_eq!((block.header.kind, block.header.record_length), (BlockKind::Page, 40));
            assert_eq!(crate::decode(&block).unwrap(), *raw, "round {round}");
        }
    }

    #[test]
    fn a_block_is_full_at_256_kib_and_takes_any_first_segment() {
        let mut builder = BlockBuilder::new(BlockKind::Data, 0);
        assert!(builder.fits(MAX_BLOCK_BYTES));
        builder.push(NAME, &[0; 200_000]);
        assert!(!builder.is_full() && builder.fits(BLOCK_BYTES - 200_000) && !builder.fits(BLOCK_BYTES - 199_999));
        builder.push(NAME, &[0; 100_000]);
        assert!(builder.is_full());
    }

    #[test]
    fn incompressible_data_is_stored_as_it_is_whatever_the_choice() {
        let raw = random_bytes(5, BLOCK_BYTES);
        for choice in
            [CodecChoice::AUTO, CodecChoice::None, CodecChoice::Lz4, CodecChoice::Zstd(3), CodecChoice::Zlib(6)]
        {
            let block = built(&raw, choice);
            assert_eq!((block.header.codec, block.header.level), (CodecId::None, 0), "{choice}");
            assert_eq!(block.payload, raw);
        }
    }

    /// Returns random bytes, half of which are an edited copy of the other half.
    fn nearly_repeated() -> Vec<u8> {
        let mut raw = random_bytes(8, BLOCK_BYTES / 2);
        raw.extend_from_within(..BLOCK_BYTES / 2 - 777);
        (0..raw.len()).step_by(5000).for_each(|at| raw[at] ^= 1);
        raw
    }

    /// Returns blocks of one kind, and blocks whose segments are of several.
    fn mixed_data() -> Vec<Vec<u8>> {
        let pure = [random_bytes(1, BLOCK_BYTES), text(2, BLOCK_BYTES), field(3, BLOCK_BYTES)];
        let mut blocks = vec![nearly_repeated()];
        for pattern in 0..81 {
            let kinds = [pattern % 3, pattern / 3 % 3, pattern / 9 % 3, pattern / 27];
            let kind_of = |segment: usize| kinds[segment % 4];
            let segments = (0..BLOCK_BYTES / 8192).map(|at| &pure[kind_of(at)][at * 8192..(at + 1) * 8192]);
            blocks.push(segments.collect::<Vec<_>>().concat());
        }
        blocks
    }

    #[test]
    fn choosing_loses_less_than_a_hundredth_of_the_savings_on_mixed_data() {
        let stored = |choice| mixed_data().iter().map(|raw| built(raw, choice).payload.len()).sum::<usize>();
        let raw = mixed_data().iter().map(Vec::len).sum::<usize>();
        let saved = |choice| (raw - stored(choice)) as f64;
        let (chosen, always) = (saved(CodecChoice::AUTO), saved(CodecChoice::Zstd(1)));
        println!("saved of {raw}: chosen {chosen}, zstd:1 always {always}");
        assert!(chosen > 0.99 * always, "{chosen} against {always}");
    }
}
