//! The guarantees every engine of the catalog must keep: those of [`Names`] and [`LocalCatalog`], each as one function.
//!
//! An engine begins by passing [`suite`]. Each check gets an empty catalog and a clock that stands still
//! until the check moves it.

mod collection;
mod commits;
mod containers;
mod journal;
mod listing;
mod names;
mod path_sessions;
mod sessions;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use format::{
    Attributes, Change, ContainerId, FileId, FileKind, Root, SegmentAddress, SessionId, StorePath, VersionId,
    VersionRecord,
};

use crate::{Clock, Commit, Committed, LocalCatalog, Purpose, Result};

/// Runs every check on a catalog of its own; panics on the first that fails, after naming it.
pub fn suite(make: impl Fn(Clock) -> Arc<dyn LocalCatalog>) {
    let themes = [
        sessions::CHECKS,
        containers::CHECKS,
        commits::CHECKS,
        names::CHECKS,
        listing::CHECKS,
        journal::CHECKS,
        path_sessions::CHECKS,
        collection::CHECKS,
    ];
    for (name, check) in themes.into_iter().flatten() {
        eprintln!("check: {name}");
        check(&Fixture::new(&make));
    }
}

/// A check: its name and its function.
type Check = (&'static str, fn(&Fixture));

/// Names each check after its function.
macro_rules! checks {
    ($($name:ident),+ $(,)?) => {
        pub(super) const CHECKS: &[super::Check] = &[$((stringify!($name), $name)),+];
    };
}
use checks;

/// No lease of this length expires by itself: the clock stands still.
const LEASE_MS: u64 = 1000;

/// A catalog under test with its clock, a session that writes, and shorthands for its calls.
struct Fixture<'a> {
    make: &'a dyn Fn(Clock) -> Arc<dyn LocalCatalog>,
    catalog: Arc<dyn LocalCatalog>,
    now_ns: Arc<AtomicI64>,
    writer: SessionId,
}

impl<'a> Fixture<'a> {
    fn new(make: &'a dyn Fn(Clock) -> Arc<dyn LocalCatalog>) -> Self {
        let now_ns = Arc::new(AtomicI64::new(1_000_000_000));
        let shown = now_ns.clone();
        let catalog = make(Arc::new(move || shown.load(Ordering::Relaxed)));
        let writer = catalog.begin(Purpose::Write, 1000 * LEASE_MS).unwrap().id;
        Fixture { make, catalog, now_ns, writer }
    }

    /// Returns another empty catalog of the same engine.
    fn empty(&self) -> Arc<dyn LocalCatalog> {
        let shown = self.now_ns.clone();
        (self.make)(Arc::new(move || shown.load(Ordering::Relaxed)))
    }

    fn pass_ms(&self, passed_ms: i64) {
        self.now_ns.fetch_add(passed_ms * 1_000_000, Ordering::Relaxed);
    }

    fn commit(&self, changes: Vec<Change>) -> Result<Committed> {
        self.commit_with(self.writer, vec![], changes)
    }

    fn commit_with(&self, session: SessionId, references: Vec<ContainerId>, changes: Vec<Change>) -> Result<Committed> {
        self.catalog.commit(&Commit { session, references, epoch: u64::MAX, changes, checkpoints: vec![] })
    }

    /// Makes a commit that must succeed.
    fn apply(&self, change: Change) -> Committed {
        self.commit(vec![change]).unwrap()
    }

    /// Writes short files of these names, in one commit.
    fn write(&self, paths: &[&str]) -> Committed {
        self.commit(paths.iter().map(|path| written(path, 1)).collect()).unwrap()
    }

    fn exists(&self, text: &str) -> bool {
        self.catalog.entry(&path(text)).unwrap().is_some()
    }

    fn file(&self, text: &str) -> FileId {
        self.catalog.entry(&path(text)).unwrap().unwrap().file
    }

    fn sealed_container(&self) -> ContainerId {
        let container = self.catalog.open_container(self.writer).unwrap();
        self.catalog.seal_container(container, 100, 10).unwrap();
        container
    }

    /// Returns all names below the root.
    fn names(&self) -> Vec<String> {
        let found = self.catalog.list(&StorePath::root(), true, None, usize::MAX).unwrap();
        found.into_iter().map(|(path, _)| path.to_string()).collect()
    }
}

fn path(text: &str) -> StorePath {
    StorePath::new(text.as_bytes()).unwrap()
}

fn attributes(kind: FileKind, mode: u32) -> Attributes {
    Attributes { kind, mode, ..Default::default() }
}

fn version(size: u64) -> VersionRecord {
    VersionRecord { root: root(1, size as u32), size, content: None }
}

fn root(container: u64, ordinal: u32) -> Root {
    Root::Stored { address: SegmentAddress::new(ContainerId(container), ordinal), digest: [7; 32] }
}

/// Returns a write of a file of `size` bytes, over any version.
fn written(text: &str, size: u64) -> Change {
    let attributes = attributes(FileKind::Regular, 0o644);
    Change::Write { path: path(text), attributes, version: version(size), base: None }
}

fn made(text: &str, kind: FileKind) -> Change {
    Change::Make { path: path(text), attributes: attributes(kind, 0o700) }
}

fn removed(text: &str, recursive: bool) -> Change {
    Change::Remove { path: path(text), recursive }
}

fn renamed(from: &str, to: &str) -> Change {
    Change::Rename { from: path(from), to: path(to) }
}

fn linked(text: &str, target: &str) -> Change {
    Change::Link { path: path(text), target: path(target) }
}

/// Checks that the result is an error of this form.
macro_rules! assert_refused {
    ($result:expr, $pattern:pat $(if $guard:expr)?) => {
        match $result {
            Err($pattern) $(if $guard)? => {}
            other => panic!("expected {}, found {other:?}", stringify!($pattern)),
        }
    };
}
use assert_refused;
