//! A store's settings: the text file `store.toml` at its top.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, FORMAT_VERSION, MAX_SEGMENT_BYTES, Result, StoreId, check_version, corrupt};

/// Far above what settings need: a longer text is refused.
pub const MAX_SETTINGS_BYTES: usize = 64 << 10;

/// How files given to `put` are cut. MPI writes are always cut at fixed offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkerKind {
    /// Every `segment_bytes`, counted from the file's start.
    Fixed,
    /// At content-defined boundaries; `segment_bytes` is the mean.
    Cdc,
    /// The whole file, up to [`MAX_SEGMENT_BYTES`] a piece.
    File,
}

/// The digest that identifies a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum FingerprintKind {
    Blake3 = 0,
    Sha256 = 1,
    Sha1 = 2,
}

impl FingerprintKind {
    pub(crate) fn from_byte(byte: u8) -> Result<Self> {
        match byte {
            0 => Ok(FingerprintKind::Blake3),
            1 => Ok(FingerprintKind::Sha256),
            2 => Ok(FingerprintKind::Sha1),
            _ => corrupt("container header", format!("unknown fingerprint kind {byte}")),
        }
    }
}

/// What is least with a codec that is chosen per block. The numbers are the wire's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// The time until the bytes are where they go.
    Performance = 0,
    /// Time of both directions and bytes, at a fixed price of bytes.
    #[default]
    Balanced = 1,
    /// The bytes, as long as encoding keeps to a least speed.
    Archival = 2,
    /// The energy of processor and transfer, by a model.
    Energy = 3,
}

impl Mode {
    pub const ALL: [Mode; 4] = [Mode::Performance, Mode::Balanced, Mode::Archival, Mode::Energy];

    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| *mode as u8 == byte)
    }
}

/// The codec of new blocks; written as [`CodecChoice::NAMES`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodecChoice {
    /// Chosen per block.
    Auto(Mode),
    None,
    Lz4,
    /// LZ4 that looks at fewer positions.
    Lz4Fast,
    /// LZ4 that searches longer.
    Lz4Hc(u8),
    Zstd(i8),
    Zlib(u8),
    Xz(u8),
}

/// The levels that codecs mean when none is given: what their own commands take.
const ZSTD_DEFAULT_LEVEL: i8 = 3;
const LZ4HC_DEFAULT_LEVEL: u8 = 9;
const ZLIB_DEFAULT_LEVEL: u8 = 6;
const XZ_DEFAULT_LEVEL: u8 = 6;

macro_rules! named {
    ($kind:ident, $what:literal, $($variant:ident = $name:literal),+) => {
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($kind::$variant => $name),+ })
            }
        }

        impl FromStr for $kind {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                match text {
                    $($name => Ok($kind::$variant),)+
                    _ => corrupt($what, format!("{text:?} is none of: {}", [$($name),+].join(", "))),
                }
            }
        }
    };
}

named!(ChunkerKind, "chunker", Fixed = "fixed", Cdc = "cdc", File = "file");
named!(FingerprintKind, "fingerprint", Blake3 = "blake3", Sha256 = "sha256", Sha1 = "sha1");

named!(Mode, "mode", Performance = "performance", Balanced = "balanced", Archival = "archival", Energy = "energy");

impl fmt::Display for CodecChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodecChoice::Auto(Mode::Balanced) => f.write_str("auto"),
            CodecChoice::Auto(mode) => write!(f, "auto:{mode}"),
            CodecChoice::None => f.write_str("none"),
            CodecChoice::Lz4 => f.write_str("lz4"),
            CodecChoice::Lz4Fast => f.write_str("lz4:fast"),
            CodecChoice::Lz4Hc(level) => write!(f, "lz4hc:{level}"),
            CodecChoice::Zstd(level) => write!(f, "zstd:{level}"),
            CodecChoice::Zlib(level) => write!(f, "zlib:{level}"),
            CodecChoice::Xz(level) => write!(f, "xz:{level}"),
        }
    }
}

impl CodecChoice {
    /// What stores have unless something else is said.
    pub const AUTO: CodecChoice = CodecChoice::Auto(Mode::Balanced);

    /// All that can be chosen, for people.
    pub const NAMES: &str = "auto[:MODE] (performance, balanced, archival or energy), none, lz4, lz4:fast, lz4hc[:LEVEL] (1 to 12), zstd[:LEVEL] (-7 to 22), zlib[:LEVEL] or \
        gzip[:LEVEL] (1 to 9), xz[:LEVEL] (0 to 9)";

    fn with_level(name: &str, level: Option<&str>) -> Option<Self> {
        Some(match name {
            "auto" => CodecChoice::Auto(level?.parse().ok()?),
            "lz4hc" => CodecChoice::Lz4Hc(parsed_level(level, LZ4HC_DEFAULT_LEVEL, 1..=12)?),
            "zstd" => CodecChoice::Zstd(parsed_level(level, ZSTD_DEFAULT_LEVEL, -7..=22)?),
            "zlib" | "gzip" => CodecChoice::Zlib(parsed_level(level, ZLIB_DEFAULT_LEVEL, 1..=9)?),
            "xz" => CodecChoice::Xz(parsed_level(level, XZ_DEFAULT_LEVEL, 0..=9)?),
            _ => return None,
        })
    }
}

/// Returns the level that is given, or the default; `None` for what is no level of the codec.
fn parsed_level<T: FromStr + PartialOrd>(text: Option<&str>, default: T, levels: RangeInclusive<T>) -> Option<T> {
    let Some(text) = text else { return Some(default) };
    text.parse().ok().filter(|level| levels.contains(level))
}

impl FromStr for CodecChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => return Ok(CodecChoice::AUTO),
            "none" => return Ok(CodecChoice::None),
            "lz4" => return Ok(CodecChoice::Lz4),
            "lz4:fast" => return Ok(CodecChoice::Lz4Fast),
            _ => {}
        }
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
        match CodecChoice::with_level(name, level) {
            Some(choice) => Ok(choice),
            None => corrupt("codec", format!("{text:?} is none of: {}", CodecChoice::NAMES)),
        }
    }
}

/// A store's settings, fixed when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub id: StoreId,
    pub chunker: ChunkerKind,
    /// Length of fixed segments, mean length of content-defined ones; a power of two for the latter.
    pub segment_bytes: u32,
    pub fingerprint: FingerprintKind,
    pub codec: CodecChoice,
    /// The place of catalog and table when not beside the containers.
    pub state: Option<String>,
    /// The id of the group that shares the store; without one it is its owner's alone.
    pub shared_gid: Option<u32>,
    /// The store for which this one stands near its clients: it has content that is on its way there, and copies of
    /// blocks from there, but no names.
    pub upstream: Option<StoreId>,
}

#[derive(Serialize, Deserialize)]
struct File {
    format: u16,
    id: String,
    chunker: String,
    segment_bytes: u32,
    fingerprint: FingerprintKind,
    codec: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_gid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<String>,
}

impl Settings {
    /// Returns the defaults: content-defined segments of 8 KiB, BLAKE3, a codec chosen per block.
    pub fn new(id: StoreId) -> Self {
        Settings {
            id,
            chunker: ChunkerKind::Cdc,
            segment_bytes: 8192,
            fingerprint: FingerprintKind::Blake3,
            codec: CodecChoice::AUTO,
            state: None,
            shared_gid: None,
            upstream: None,
        }
    }

    /// Refuses lengths that no chunker can work with.
    pub fn check(&self) -> Result<()> {
        if !(512..=MAX_SEGMENT_BYTES / 8).contains(&self.segment_bytes) {
            return corrupt("settings", format!("segment_bytes {} is not between 512 and 8388608", self.segment_bytes));
        }
        if self.chunker == ChunkerKind::Cdc && !self.segment_bytes.is_power_of_two() {
            return corrupt("settings", format!("segment_bytes {} must be a power of two for cdc", self.segment_bytes));
        }
        // To the system this number means "leave the group unchanged".
        if self.shared_gid == Some(u32::MAX) {
            return corrupt("settings", format!("{} is no group", u32::MAX));
        }
        Ok(())
    }

    /// Returns the text of `store.toml`.
    pub fn to_text(&self) -> String {
        let file = File {
            format: FORMAT_VERSION,
            id: self.id.to_string(),
            chunker: self.chunker.to_string(),
            segment_bytes: self.segment_bytes,
            fingerprint: self.fingerprint,
            codec: self.codec.to_string(),
            state: self.state.clone(),
            shared_gid: self.shared_gid,
            upstream: self.upstream.map(|id| id.to_string()),
        };
        toml::to_string(&file).expect("plain fields always serialise")
    }

    /// Parses `store.toml`; the version is checked before anything else, since a newer file may have other fields.
    pub fn from_text(text: &str) -> Result<Self> {
        let what = "store.toml";
        if text.len() > MAX_SETTINGS_BYTES {
            return corrupt(what, format!("it has {} bytes, and {MAX_SETTINGS_BYTES} are the most", text.len()));
        }
        let refuse = |why: toml::de::Error| Error::Corrupt { what, why: why.message().to_owned() };
        let table: toml::Table = text.parse().map_err(refuse)?;
        let format = table.get("format").and_then(|value| value.as_integer());
        match format.and_then(|number| u16::try_from(number).ok()) {
            Some(number) => check_version(what, number)?,
            None => return corrupt(what, "the field `format` is missing or no number"),
        }
        let file: File = toml::from_str(text).map_err(refuse)?;
        let settings = Settings {
            id: file.id.parse()?,
            chunker: file.chunker.parse()?,
            segment_bytes: file.segment_bytes,
            fingerprint: file.fingerprint,
            codec: file.codec.parse()?,
            state: file.state,
            shared_gid: file.shared_gid,
            upstream: file.upstream.map(|id| id.parse()).transpose()?,
        };
        settings.check()?;
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_from_their_text() {
        let mut settings = Settings::new(StoreId([3; 16]));
        settings.codec = CodecChoice::Zstd(7);
        settings.state = Some("/local/state".into());
        settings.shared_gid = Some(1007);
        settings.upstream = Some(StoreId([4; 16]));
        assert_eq!(Settings::from_text(&settings.to_text()).unwrap(), settings);
    }

    #[test]
    fn a_newer_store_is_refused_by_its_version_alone() {
        let found = Settings::from_text("format = 7\nshape = \"unheard of\"\n").unwrap_err();
        assert!(matches!(found, Error::TooNew { found: 7, .. }), "{found}");
    }

    #[test]
    fn a_value_that_is_none_of_the_choices_is_told_apart_from_damage() {
        let text = Settings::new(StoreId([3; 16])).to_text();
        for (written, wrong, field) in
            [("codec = \"auto\"", "codec = \"zstdd:3\"", "codec"), ("\"cdc\"", "\"cdd\"", "chunker")]
        {
            let found = Settings::from_text(&text.replace(written, wrong)).unwrap_err();
            assert!(matches!(found, Error::Corrupt { what, .. } if what == field), "{found}");
        }
        let found = Settings::from_text(&text[..text.len() / 2]).unwrap_err();
        assert!(matches!(found, Error::Corrupt { what: "store.toml", .. }), "{found}");
    }

    #[test]
    fn codec_choices_read_as_written() {
        let written =
            ["auto", "auto:archival", "none", "lz4", "lz4:fast", "lz4hc:12", "zstd:-2", "zstd:19", "zlib:1", "xz:0"];
        for text in written {
            assert_eq!(text.parse::<CodecChoice>().unwrap().to_string(), text);
        }
        for (text, meant) in [
            ("lz4hc", "lz4hc:9"),
            ("auto:balanced", "auto"),
            ("zstd", "zstd:3"),
            ("gzip", "zlib:6"),
            ("gzip:9", "zlib:9"),
            ("xz", "xz:6"),
        ] {
            assert_eq!(text.parse::<CodecChoice>().unwrap().to_string(), meant);
        }
        for text in
            ["zstd:99", "zlib:0", "lz4hc:13", "xz:10", "xz:-1", "lz4:slow", "zstd:", "auto:", "auto:best", "pco", ""]
        {
            let error = text.parse::<CodecChoice>().unwrap_err().to_string();
            assert!(error.ends_with(CodecChoice::NAMES), "{error}");
        }
    }
}
