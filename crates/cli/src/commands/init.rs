//! `thalweg init`: makes a store.

use std::ffi::{CString, OsString};
use std::path::{Path, PathBuf};

use anyhow::Context;
use format::{ChunkerKind, CodecChoice, ErrorCode, FingerprintKind, Mode, Settings, StoreId};
use serde_json::json;
use transfer::random_bytes;

use crate::error_code::{Coded, fail};
use crate::failure::UsageError;
use crate::location::store_of_argument;
use crate::opening;
use crate::output::Output;

/// Make a store in a directory that is missing or empty
#[derive(clap::Args)]
#[command(after_help = "Example: thalweg init /scratch/st --codec zstd:7")]
pub struct Arguments {
    /// The store's directory
    store: Option<OsString>,
    /// Take the options below from [init] in a file, such as `thalweg plan --recommended` writes; what stands here too counts
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How files given to `put` are cut: fixed, cdc (where the content says so) or file (whole files)
    #[arg(long, value_name = "KIND", default_value = "cdc")]
    chunker: ChunkerKind,
    /// Length of fixed segments, mean length of content-defined ones
    #[arg(long, value_name = "N", default_value_t = 8192)]
    segment_bytes: u32,
    /// The digest that names segments: blake3, sha256 or sha1
    #[arg(long, value_name = "KIND", default_value = "blake3")]
    fingerprint: FingerprintKind,
    /// auto (chosen per block), none, lz4, lz4:fast, lz4hc, zstd, zlib (or gzip) or xz; the last four also with :LEVEL
    #[arg(long, value_name = "CODEC", default_value = "auto")]
    codec: CodecChoice,
    /// What is to be least where codecs are chosen per block: performance (time), balanced, archival (bytes) or energy
    #[arg(long, value_name = "MODE", conflicts_with = "codec")]
    mode: Option<Mode>,
    /// A directory on a local disk for catalog and table, when the store lies on NFS, Lustre or GPFS
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Share the store with a group, by name or number: its members may read and write (default: only you)
    #[arg(long, value_name = "GROUP", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    shared: Option<String>,
}

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let store = store_of_argument(arguments.store.as_deref())?;
    let path = opening::directory(&store, "init")?;
    let settings = settings(&arguments)?;
    if let (Some(kind), None) = (shared_file_system(path), &settings.state) {
        fail!(NetworkFileSystem: "{store}: lies on {kind}; name a directory on a local disk with --state for catalog and table");
    }
    repository::create(path, &settings)?;
    output.summary(format_args!("made a store at {store}"))?;
    output.document(&json!({
        "store": store.to_string(),
        "id": settings.id.to_string(),
        "chunker": settings.chunker.to_string(),
        "segment_bytes": settings.segment_bytes,
        "fingerprint": settings.fingerprint.to_string(),
        "codec": settings.codec.to_string(),
        "state": settings.state,
        "shared_gid": settings.shared_gid,
    }))
}

fn settings(arguments: &Arguments) -> anyhow::Result<Settings> {
    let state = arguments.state.as_deref().map(absolute_text).transpose()?;
    let settings = Settings {
        id: StoreId(random_bytes()?),
        chunker: arguments.chunker,
        segment_bytes: arguments.segment_bytes,
        fingerprint: arguments.fingerprint,
        codec: arguments.mode.map_or(arguments.codec, CodecChoice::Auto),
        state,
        shared_gid: arguments.shared.as_deref().map(group_number).transpose()?,
        upstream: None,
    };
    settings.check().map_err(|error| UsageError::new(error.to_string()))?;
    Ok(settings)
}

/// Returns the number of a group, which is what file systems and other machines know it by.
fn group_number(written: &str) -> anyhow::Result<u32> {
    if let Ok(number) = written.parse() {
        return Ok(number);
    }
    let name = CString::new(written).context(Coded::new(ErrorCode::Usage, "a group's name holds no NUL"))?;
    // SAFETY: the name ends with NUL. The result is read at once, before another thread could ask.
    let found = unsafe { libc::getgrnam(name.as_ptr()).as_ref() };
    found
        .map(|group| group.gr_gid)
        .with_context(|| Coded::new(ErrorCode::Usage, format!("{written}: there is no such group")))
}

fn absolute_text(path: &Path) -> anyhow::Result<String> {
    let absolute = std::path::absolute(path).with_context(|| path.display().to_string())?;
    let text = absolute.to_str().with_context(|| {
        Coded::new(ErrorCode::Usage, format!("{}: a state directory's name must be UTF-8", path.display()))
    })?;
    Ok(text.to_owned())
}

/// Returns the name of the file system that several machines see and SQLite must not lie on, if it is one.
fn shared_file_system(path: &Path) -> Option<&'static str> {
    let absolute = std::path::absolute(path).ok()?;
    let existing = absolute.ancestors().find(|ancestor| ancestor.exists())?;
    match rustix::fs::statfs(existing).ok()?.f_type as u64 & 0xffff_ffff {
        0x6969 => Some("NFS"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x4750_4653 => Some("GPFS"),
        0xff53_4d42 | 0xfe53_4d42 => Some("a Windows share"),
        _ => None,
    }
}
