//! Stores to test on: in memory with a clock of our own, able to lose power; and a random number generator.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use catalog::{ContainerState, Join, LocalCatalog, MemoryCatalog, Names, PathSession, Purpose};
use format::{
    Attributes, Change, ContainerId, Fingerprint, HandleKey, LostSegment, SegmentAddress, SessionId, Settings, StoreId,
    StorePath, VersionRecord,
};
use repository::{Budget, Lease, LocalEngines, Packed, Repository, StripeOwner};
use store::files::{Files, Memory};
use store::{ClaimOwner, LocalStore, Options, Registrar, SealedContainer};

/// Everything that survives the death of a process: the files and the catalog.
pub struct World {
    pub files: Arc<Memory>,
    pub catalog: Arc<MemoryCatalog>,
    clock: Arc<AtomicI64>,
    pub settings: Settings,
}

impl World {
    pub fn new() -> Self {
        let clock = Arc::new(AtomicI64::new(1_000_000_000));
        let now = clock.clone();
        let catalog = Arc::new(MemoryCatalog::new().with_clock(Arc::new(move || now.load(Ordering::SeqCst))));
        World { files: Arc::new(Memory::new()), catalog, clock, settings: Settings::new(StoreId([1; 16])) }
    }

    /// One process's view of the store.
    pub fn process(&self) -> Arc<Repository> {
        self.process_that(Box::new(|| ()))
    }

    /// A process in which this happens before it opens a container, in the middle of whatever makes it open one.
    pub fn process_that(&self, before_opening: Box<dyn Fn() + Send + Sync>) -> Arc<Repository> {
        self.process_over(self.files.clone(), before_opening)
    }

    /// A process for which calls of the disk may fail.
    pub fn process_over(&self, files: Arc<dyn Files>, before_opening: Box<dyn Fn() + Send + Sync>) -> Arc<Repository> {
        let catalog: Arc<dyn LocalCatalog> = self.catalog.clone();
        let session = catalog.begin(Purpose::Write, 1_000_000).unwrap();
        let epoch = Arc::new(AtomicU64::new(session.epoch));
        let registrar = Arc::new(Registered { catalog: catalog.clone(), session: session.id, epoch, before_opening });
        let options =
            Options { background: false, container_bytes: 256 << 10, part_bytes: 32 << 10, ..Options::default() };
        let local = LocalStore::open(files.clone(), files, &self.settings, registrar, options).unwrap();
        let local = Arc::new(local);
        let lease = Lease::unattended(catalog.clone(), session);
        Arc::new(Repository::local(self.settings.clone(), LocalEngines { store: local, catalog }, lease))
    }

    /// A command that reaches the store through a node: it has a lease of its own, and the node's answers.
    pub fn remote(&self, node: &Repository) -> Arc<Repository> {
        let catalog: Arc<dyn Names> = self.catalog.clone();
        let session = catalog.begin(Purpose::Write, 1_000_000).unwrap();
        let lease = Lease::unattended(catalog.clone(), session);
        Arc::new(Repository::remote(self.settings.clone(), node.store_arc(), catalog, lease))
    }

    /// The process is dead, and its lease has run out.
    pub fn run_out(&self, process: &Repository) {
        self.catalog.end(process.lease().session()).unwrap();
    }

    /// All leases that are held now run out.
    pub fn pass_leases(&self) {
        self.clock.fetch_add(2_000_000 * 1_000_000, Ordering::SeqCst);
    }

    /// Length of all container files (bytes).
    pub fn catalog_bytes(&self) -> u64 {
        self.catalog.statistics().unwrap().container_bytes
    }

    pub fn now_ns(&self) -> i64 {
        self.clock.load(Ordering::SeqCst)
    }

    pub fn join(&self, path: &str, nodes: usize) -> PathSession {
        let nodes = (0..nodes).map(|i| format!("node-{i}")).collect();
        let (path, job, lease_ms) = (self::path(path), String::new(), 1_000_000);
        let join = Join { path, nodes, stripe_bytes: STRIPE_BYTES, job, key: KEY, lease_ms };
        self.catalog.join(&join).unwrap()
    }
}

pub const STRIPE_BYTES: u64 = 4 * SEGMENT_BYTES as u64;
pub const SEGMENT_BYTES: u32 = 1024;
/// Of every session's only handle.
pub const KEY: HandleKey = HandleKey([1; HandleKey::BYTES]);
pub const CLAIM_OWNER: ClaimOwner = ClaimOwner(7);

struct Registered {
    catalog: Arc<dyn LocalCatalog>,
    session: SessionId,
    /// Nothing is remembered for longer than a call (`background: false`), so any number will do.
    epoch: Arc<AtomicU64>,
    before_opening: Box<dyn Fn() + Send + Sync>,
}

impl Registrar for Registered {
    fn open(&self) -> store::Result<ContainerId> {
        (self.before_opening)();
        Ok(self.catalog.open_container(self.session).unwrap())
    }

    fn sealed(&self, container: ContainerId, facts: SealedContainer) -> store::Result<()> {
        self.catalog.seal_container(container, facts.stored_bytes, facts.segments).unwrap();
        Ok(())
    }

    fn truncated(&self, container: ContainerId) -> store::Result<()> {
        self.catalog.truncate_container(container).unwrap();
        Ok(())
    }

    fn referable(&self, container: ContainerId) -> store::Result<Option<ContainerId>> {
        let record = self.catalog.container(container).unwrap();
        let record = record.filter(|record| matches!(record.state, ContainerState::Open | ContainerState::Live));
        Ok(record.map(|record| record.physical))
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    fn locate(&self, container: ContainerId) -> store::Result<Vec<ContainerId>> {
        Ok(self.catalog.files_of(container).unwrap())
    }

    fn sealed_bytes(&self, container: ContainerId) -> store::Result<u64> {
        let record = self.catalog.container(container).unwrap().filter(|record| record.segments > 0);
        Ok(record.map_or(0, |record| record.stored_bytes))
    }

    fn is_growing(&self, container: ContainerId) -> store::Result<bool> {
        Ok(self.catalog.growing().unwrap().contains(&container))
    }

    fn lose(&self, lost: &[(SegmentAddress, Fingerprint)]) -> store::Result<()> {
        self.catalog.lose(lost).unwrap();
        Ok(())
    }

    fn lost(&self) -> store::Result<Vec<LostSegment>> {
        Ok(self.catalog.lost().unwrap())
    }

    fn heal(&self, healed: &[(LostSegment, SegmentAddress)]) -> store::Result<()> {
        self.catalog.heal(self.session, self.epoch(), healed).unwrap();
        Ok(())
    }
}

pub fn path(text: &str) -> StorePath {
    StorePath::new(text.as_bytes()).unwrap()
}

pub fn owner(repository: &Arc<Repository>, session: SessionId, number: u32, incarnation: u64) -> StripeOwner {
    let budget = Arc::new(Budget::new(1 << 30));
    StripeOwner::take(repository.clone(), budget, session, number, incarnation, SEGMENT_BYTES).unwrap()
}

/// Gives files that were packed their names, in one commit.
pub fn commit_packed<T: ToString>(repository: &Repository, packed: Vec<Packed<T>>) {
    let references = packed.iter().flat_map(|file| file.built.references.iter().copied()).collect();
    let changes = packed.into_iter().map(|file| {
        let version = VersionRecord { root: file.built.root, size: file.built.length, content: file.content };
        let path = path(&file.tag.to_string());
        Change::Write { path, attributes: Attributes::default(), version, base: None }
    });
    repository.commit(CLAIM_OWNER, changes.collect(), references, Vec::new()).unwrap();
}

/// The content of the head of a path.
pub fn content(repository: &Repository, name: &str) -> Vec<u8> {
    let head = repository.catalog().entry(&path(name)).unwrap().unwrap().head.unwrap();
    let mut bytes = vec![0xee; head.record.size as usize];
    let read = repository.reader(&head.record.root, head.record.size).read_at(0, &mut bytes).unwrap();
    assert_eq!(read, bytes.len());
    bytes
}

/// Runs a test with many seeds; the failing one is printed.
pub fn with_seeds(count: u64, test: impl Fn(u64)) {
    let first = std::env::var("THALWEG_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = first.map_or(1..count + 1, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(seed)));
        if let Err(panic) = outcome {
            eprintln!("failed with THALWEG_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
