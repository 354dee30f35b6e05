//! The two engines against each other, and the one on disk against crashes, neighbours and broken files.

mod files;
mod histories;
mod measures;
mod sharing;

use catalog::{Commit, Committed, LocalCatalog, Purpose, Result, SqliteCatalog};
use format::{Attributes, Change, Root, SessionId, StorePath, VersionId, VersionRecord};
use thalweg_catalog as catalog;

/// Returns a folder in memory where possible: these tests are about results, not about a disk's speed.
fn scratch() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a scratch directory can be made")
}

fn path(text: &str) -> StorePath {
    StorePath::new(text.as_bytes()).unwrap()
}

fn written(text: &str, size: u64, base: Option<Option<VersionId>>) -> Change {
    let version = VersionRecord { root: Root::Inline(vec![5; 96]), size, content: Some([3; 32]) };
    Change::Write { path: path(text), attributes: Attributes { mode: 0o644, ..Default::default() }, version, base }
}

fn commit(catalog: &dyn LocalCatalog, session: SessionId, changes: Vec<Change>) -> Result<Committed> {
    catalog.commit(&Commit { session, references: vec![], epoch: u64::MAX, changes, checkpoints: vec![] })
}

fn writer(catalog: &dyn LocalCatalog) -> SessionId {
    catalog.begin(Purpose::Write, 3_600_000).unwrap().id
}

fn opened(path: &std::path::Path) -> SqliteCatalog {
    SqliteCatalog::open(path, true).unwrap()
}
