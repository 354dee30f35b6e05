//! Ids and every byte layout of Thalweg, at rest and on the wire. No I/O.
//!
//! The prose twin of this crate is `docs/format.md`; the sizes it states are asserted here.
//! Integers are little-endian, layouts are fixed unless a field says otherwise, and everything
//! that is read from outside is checked: a decoder returns [`Error`], it never panics.

mod attributes;
mod bytes;
mod change;
mod chunk;
mod container;
mod encoding;
mod error_code;
mod frame;
mod handle_key;
mod id;
mod manifest;
mod model;
mod path;
mod recipe;
mod rounding;
mod secret;
mod settings;
mod snapshot;
mod table;

pub use attributes::{Attributes, FileKind, FileTime, FileTimes};
pub use bytes::{Reader, Writer};
pub use change::{Change, JournalRecord, VersionId, VersionRecord};
pub use chunk::{CHUNK_HEADER_BYTES, CHUNK_MAGIC, ChunkHeader};
pub use container::{
    BLOCK_HEADER_BYTES, Block, BlockHeader, BlockKind, CONTAINER_HEADER_BYTES, CONTAINER_MAGIC, ContainerHeader,
    LABEL_BYTES, Label, PART_ENTRY_BYTES, PART_HEADER_BYTES, PartEntry, PartHeader, SEGMENT_ENTRY_BYTES, SegmentEntry,
};
pub use encoding::{CodecId, ElementId, FilterId};
pub use error_code::ErrorCode;
pub use frame::{FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, MAX_BODY_BYTES, MAX_PAYLOAD_BYTES, PROTOCOL};
pub use handle_key::HandleKey;
pub use id::{ContainerId, FileId, Fingerprint, LostSegment, SegmentAddress, SessionId, StoreId};
pub use manifest::{ENTRY_BYTES, Entry, EntryKind, PAGE_HEADER_BYTES, Page, Root, Run, page_digest, run_digest};
pub use model::{
    CANDIDATE_BYTES, CandidateEncoding, MAX_MODEL_BYTES, MAX_MODEL_CANDIDATES, MAX_MODEL_DEPTH, MAX_MODEL_FEATURES,
    MAX_MODEL_LEAVES, MAX_MODEL_OUTPUTS, MAX_MODEL_TREES, MODEL_HEADER_BYTES, Model, ModelNode, ModelTree,
};
pub use path::StorePath;
pub use recipe::{
    MAX_RECIPE_BYTES, MAX_RECIPE_OUTPUTS, RECIPE_ATTRIBUTE, RECIPE_DIRECTORY, RECIPE_ID_BYTES, RecipeAttribute,
    RecipeInput, RecipeOutput, RecipeProgram, RecipeRecord, RecipeStatistics, RecipeTolerance, STATISTICS_STRETCHES,
    recipe_id,
};
pub use rounding::{ErrorBound, FloatType, ROUNDING_ATTRIBUTE, Rounding, is_rounded_as, rounding_note};
pub use secret::{Nonce, Role, SECRET_BYTES, Secret};
pub use settings::{ChunkerKind, CodecChoice, FingerprintKind, MAX_SETTINGS_BYTES, Mode, Settings};
pub use snapshot::{
    LinkKind, MAX_HOST_BYTES, MAX_TAG_BYTES, MAX_TAGS, SNAPSHOT_ATTRIBUTE, SNAPSHOT_DIRECTORY, SnapshotContent,
    SnapshotEntry, SnapshotRecord, ends_listing_segment, version_fields,
};
pub use table::{TABLE_ENTRY_BYTES, TABLE_HEADER_BYTES, TABLE_PREFIX_BYTES, TableEntry, TableHeader};

/// The version this crate writes. Readers accept it and everything older.
pub const FORMAT_VERSION: u16 = 0;

/// A segment is never longer than this, whatever cuts it (bytes).
pub const MAX_SEGMENT_BYTES: u32 = 64 << 20;

/// A file is never longer than this (bytes): offsets stay well within signed 64 bits.
pub const MAX_FILE_BYTES: u64 = 1 << 62;

/// Why bytes could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes end before the layout does.
    #[error("{what}: cut short, {needed} bytes needed, {found} found")]
    Truncated { what: &'static str, needed: usize, found: usize },
    /// The bytes are not what they claim to be.
    #[error("{what}: {why}")]
    Corrupt { what: &'static str, why: String },
    /// Written by a newer Thalweg.
    #[error("{what}: format version {found} is newer than this program knows ({known}); use a newer thalweg")]
    TooNew { what: &'static str, found: u16, known: u16 },
    /// A peer of another release: neither end can decode the other's next messages.
    #[error("the peer speaks protocol {found} and this program {PROTOCOL}: {} is the older, update it", older(*found))]
    OtherProtocol { found: u8 },
    /// A peer that speaks another protocol altogether.
    #[error("this is no thalweg peer, it says \"{says}\"; check the address")]
    Stranger { says: String },
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::Corrupt { what: "path", .. } => ErrorCode::InvalidName,
            Error::Corrupt { what: "codec" | "type" | "error bound" | "mode", .. } => ErrorCode::EncodingChoice,
            Error::Truncated { .. } | Error::Corrupt { .. } => ErrorCode::DataDamaged,
            Error::TooNew { .. } => ErrorCode::TooNew,
            Error::OtherProtocol { .. } => ErrorCode::ProtocolMismatch,
            Error::Stranger { .. } => ErrorCode::NoThalwegPeer,
        }
    }
}

fn older(found: u8) -> &'static str {
    if found < PROTOCOL { "the peer" } else { "this program" }
}

/// Returns the error of a layout with an impossible value.
pub fn corrupt<T>(what: &'static str, why: impl Into<String>) -> Result<T> {
    Err(Error::Corrupt { what, why: why.into() })
}

pub(crate) fn check_version(what: &'static str, found: u16) -> Result<()> {
    if found > FORMAT_VERSION {
        return Err(Error::TooNew { what, found, known: FORMAT_VERSION });
    }
    Ok(())
}

/// Computes the checksum that detects damaged bytes everywhere (XXH3, 64 bits). Content is protected by fingerprints;
/// this only detects torn writes and broken links.
pub fn checksum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// Computes [`checksum`] of bytes in several pieces, as if they were one.
pub(crate) fn checksum_of_pieces(pieces: &[&[u8]]) -> u64 {
    if let [whole] = pieces {
        return checksum(whole);
    }
    let mut sum = xxhash_rust::xxh3::Xxh3::new();
    pieces.iter().for_each(|piece| sum.update(piece));
    sum.digest()
}
