//! Why a verb failed: the engines' reasons, and a few of its own.

use std::fmt;

use format::{ErrorCode, StorePath};

use crate::recipe::{Dropped, is_recipe};
use crate::snapshot::is_snapshot;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    #[error(transparent)]
    Segment(#[from] segment::Error),
    #[error(transparent)]
    Format(#[from] format::Error),
    /// No store where one was named.
    #[error("{path}: no thalweg store there; {}", advice(path))]
    NoStore { path: String },
    #[error("{path}: {why}")]
    Refused { code: ErrorCode, path: String, why: String },
    #[error("{path}: {source}")]
    Io { path: String, source: std::io::Error },
    /// A manifest does not agree with the segments it names.
    #[error("{path}: byte {offset} on: {why}; `thalweg verify --data` lists what is affected")]
    Damaged { path: StorePath, offset: u64, why: String },
    /// The content was dropped: a recipe makes it again.
    #[error("{0}")]
    Dropped(Box<Dropped>),
    /// The needs of these versions cannot be known, so nothing can be deleted as unneeded.
    #[error("{0}")]
    LostManifests(LostManifests),
    /// An earlier failure for want of room; nothing more is taken until the session is reopened.
    #[error("{0}")]
    NoRoom(String),
    /// An earlier failure of this session; nothing more is taken, and nothing was silently lost.
    #[error("{0}")]
    Failed(String),
}

/// Versions of which a page of the manifest is lost.
#[derive(Debug)]
pub struct LostManifests(pub Vec<LostManifest>);

#[derive(Debug)]
pub struct LostManifest {
    pub path: StorePath,
    pub version: u64,
    pub is_newest: bool,
    pub why: String,
}

/// Versions that a message names.
const MAX_NAMED: usize = 20;

impl fmt::Display for LostManifests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "STORE")
    }
}

impl LostManifests {
    /// Returns the error with commands that name the store.
    pub fn explained(&self, store: &str) -> String {
        let mut text = String::new();
        // A string takes all that is written.
        let _ = self.write(&mut text, store);
        text
    }

    fn write(&self, f: &mut impl fmt::Write, store: &str) -> fmt::Result {
        write!(f, "which segments these versions need is not known, since their manifests are damaged: ")?;
        for (at, lost) in self.0.iter().take(MAX_NAMED).enumerate() {
            let LostManifest { path, version, why, .. } = lost;
            write!(f, "{}{path} version {version} ({why})", if at == 0 { "" } else { ", " })?;
        }
        if self.0.len() > MAX_NAMED {
            write!(f, ", and {} more", self.0.len() - MAX_NAMED)?;
        }
        write!(
            f,
            "; nothing was deleted; `thalweg repair`, or putting the same files again, may heal them; to give them up:"
        )?;
        for (at, LostManifest { path, version, is_newest, .. }) in self.0.iter().take(MAX_NAMED).enumerate() {
            let and = if at == 0 { "" } else { "," };
            if is_snapshot(path) {
                let id = String::from_utf8_lossy(path.name());
                write!(f, "{and} `thalweg forget {store}:: --snapshot {id}` (it is a snapshot)")?;
                continue;
            }
            if is_recipe(path) {
                let id = String::from_utf8_lossy(path.name());
                write!(f, "{and} `thalweg recipes {store} --remove {id}` (it is a recipe)")?;
                continue;
            }
            match is_newest {
                true => write!(f, "{and} `thalweg rm {store}::{path}` (it is the newest version)")?,
                false => write!(f, "{and} `thalweg forget {store}::{path} --version {version}`")?,
            }
        }
        Ok(())
    }
}

/// Names the node that was probably meant by HOST:PORT; a directory of that form is hardly anybody's.
fn advice(path: &str) -> String {
    let port = path.rsplit_once(':').and_then(|(host, port)| (!host.contains('/')).then_some(port));
    match port.map(str::parse::<u16>) {
        Some(Ok(_)) => format!("a node at that address is thalweg://{path}"),
        _ => format!("`thalweg init {path}` makes one"),
    }
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn io(path: impl std::fmt::Display, source: std::io::Error) -> Self {
        Error::Io { path: path.to_string(), source }
    }

    pub fn code(&self) -> ErrorCode {
        match self {
            Error::Store(error) => error.code(),
            Error::Catalog(error) => error.code(),
            Error::Segment(error) => error.code(),
            Error::Format(error) => error.code(),
            Error::NoStore { .. } => ErrorCode::NoStore,
            Error::Refused { code, .. } => *code,
            Error::Io { source, .. } => ErrorCode::of_io(source.kind()),
            Error::Damaged { .. } => ErrorCode::DataDamaged,
            Error::Dropped(_) => ErrorCode::DataDropped,
            Error::LostManifests(_) => ErrorCode::ManifestsDamaged,
            Error::NoRoom(_) => ErrorCode::DiskFull,
            Error::Failed(_) => ErrorCode::SessionFailed,
        }
    }

    /// Returns the error without its advice, for callers that carry the advice out.
    pub fn reason(&self) -> String {
        match self {
            Error::Damaged { path, offset, why } => format!("{path}: byte {offset} on: {why}"),
            Error::Store(store::Error::Corrupt { path, offset, why }) => {
                format!("{path} is damaged at byte {offset}: {why}")
            }
            other => other.to_string(),
        }
    }

    /// Whether the disk is full: the one failure a user mends by making room.
    pub fn is_full(&self) -> bool {
        match self {
            Error::Store(store::Error::Full { .. }) | Error::Catalog(catalog::Error::Full { .. }) => true,
            Error::NoRoom(_) => true,
            Error::Io { source, .. } => source.kind() == std::io::ErrorKind::StorageFull,
            _ => false,
        }
    }
}
