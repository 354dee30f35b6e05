//! The pair of engines a store consists of, and the settings it was made with.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use catalog::{LocalCatalog, Names};
use format::{Change, CodecChoice, ErrorCode, Settings};
use store::{LocalStore, SegmentStore};

use crate::blocks::BlockCache;
use crate::catalog_lock::CatalogLock;
use crate::checked_runs::CheckedRuns;
use crate::lease::Lease;
use crate::model::{ModelChange, StoreModel};
use crate::recipe::LocalContent;
use crate::reserve::{Reserve, SharedReserve};
use crate::upstream::Upstream;
use crate::{Error, Result};

/// A store has a part of its own in each of no more containers before they are written.
const MAX_UNWRITTEN_CONTAINERS: usize = 4;

/// The engines of a store whose directory is on this machine.
#[derive(Clone)]
pub struct LocalEngines {
    pub store: Arc<LocalStore>,
    pub catalog: Arc<dyn LocalCatalog>,
}

/// An open store, near or far. Cheap to share: wrap it in an `Arc`.
///
/// Its methods stand with what they do, each file with the state and the types that only they use: segments in
/// (`dedup.rs`, `commit.rs`, `draft.rs`) and out (`read.rs`, `mismatch.rs`, `repair.rs`), and the pages of manifests
/// (`tree/walk.rs`, `tree/narrow.rs`). Here is what makes and ends it.
pub struct Repository {
    pub settings: Settings,
    pub(crate) store: Arc<dyn SegmentStore>,
    pub(crate) catalog: Arc<dyn Names>,
    /// The same engines when they are on this machine: sessions of paths, collection, verification and rebuilding need
    /// them.
    pub(crate) local: Option<LocalEngines>,
    /// The far store whose names these are, where this one stands near its clients.
    pub(crate) upstream: Option<Arc<Upstream>>,
    pub(crate) lease: Lease,
    pub(crate) cache: BlockCache,
    pub(crate) checked_runs: CheckedRuns,
    /// How many read ahead just now.
    pub(crate) readers_ahead: AtomicU64,
    /// Dropped contents that this process has made again.
    pub(crate) provided: LocalContent,
    /// Why nothing may be written by this catalog; only in a store that was opened to be inspected.
    pub(crate) unsound: Option<String>,
    /// The codec of this process's data, where it is another than the store's.
    pub(crate) codec: OnceLock<CodecChoice>,
    /// The store's own model for the choice of codecs.
    pub(crate) model: StoreModel,
    /// Why the store's model for the choice of codecs was of no use when the store was opened, where it had such a one.
    pub refused_model: Option<String>,
    /// Keeps the catalog from being replaced. Behind the lease, which ends in the catalog.
    pub(crate) catalog_lock: Option<CatalogLock>,
    /// Given up for moments, by a repository that is open for writing.
    pub(crate) shared_reserve: Option<Arc<SharedReserve>>,
    /// Given up while the repository makes room. Last: it is filled again when the lease has ended.
    pub(crate) reserve: Option<Reserve>,
}

impl Repository {
    /// Joins the engines of a store on this machine.
    pub fn local(settings: Settings, engines: LocalEngines, lease: Lease) -> Self {
        let (store, catalog) = (engines.store.clone(), engines.catalog.clone());
        Repository { local: Some(engines), ..Self::remote(settings, store, catalog, lease) }
    }

    /// Joins a store and the names in it that a node serves.
    pub fn remote(settings: Settings, store: Arc<dyn SegmentStore>, catalog: Arc<dyn Names>, lease: Lease) -> Self {
        Repository {
            settings,
            store,
            catalog,
            local: None,
            upstream: None,
            lease,
            cache: BlockCache::default(),
            checked_runs: CheckedRuns::default(),
            readers_ahead: AtomicU64::new(0),
            provided: LocalContent::default(),
            unsound: None,
            codec: OnceLock::new(),
            model: StoreModel::default(),
            refused_model: None,
            catalog_lock: None,
            shared_reserve: None,
            reserve: None,
        }
    }

    /// Lets this process choose by a model that the store's node sent; one that is of no use here changes nothing.
    pub fn with_model(self, model: Option<Vec<u8>>) -> Self {
        Repository { model: StoreModel::sent(model.as_deref()), ..self }
    }

    /// Returns the bytes of the store's own model for the choice of codecs, where it has one that is of use.
    pub fn model(&self) -> Option<Arc<[u8]>> {
        self.model.bytes()
    }

    /// Reads the store's model again if its file is another one than before, and lets this process choose by it. It
    /// waits for the disk, and one thread at a time may call it. A model that a node sent stays.
    pub fn reload_model(&self) -> ModelChange {
        self.model.reload()
    }

    /// Encodes what this process stores from now on by another choice than the store's; the first one counts.
    pub fn encode_by(&self, choice: CodecChoice) {
        let _ = self.codec.set(choice);
    }

    /// Returns the choice of codecs for data.
    pub fn codec(&self) -> CodecChoice {
        self.codec.get().copied().unwrap_or(self.settings.codec)
    }

    /// Gives up the reserve, where room is short, for changes that only remove.
    pub(crate) fn room_to_remove(&self, changes: &[Change]) -> Result<Option<Arc<Reserve>>> {
        let removes = |change: &Change| matches!(change, Change::Remove { .. } | Change::Forget { .. });
        if changes.is_empty() || !changes.iter().all(removes) {
            return Ok(None);
        }
        self.drop_what_finds_no_room()?;
        Ok(self.shared_reserve.as_ref().map(|shared| shared.take()))
    }

    /// Content that was put and finds no room on the disk would take the reserve's, and a removal refers to none of it.
    /// Its writers learn so from their own commits. Through a node it is the node's content.
    fn drop_what_finds_no_room(&self) -> Result<()> {
        for _ in 0..MAX_UNWRITTEN_CONTAINERS {
            match self.store.make_durable() {
                // The container has ended with what is in its file.
                Err(store::Error::Full { .. }) => {}
                done => return Ok(done?),
            }
        }
        Ok(())
    }

    /// Returns how long an answer of the store is under way at least: nothing for a store on this machine.
    pub fn round_trip(&self) -> Duration {
        self.store.round_trip()
    }

    pub fn catalog(&self) -> &dyn Names {
        &*self.catalog
    }

    /// Returns the whole catalog. Refused through a node.
    pub fn local_catalog(&self) -> Result<&dyn LocalCatalog> {
        match &self.local {
            Some(local) => Ok(&*local.catalog),
            None => Err(not_local("this")),
        }
    }

    /// Returns the store's files, for verbs that only work where they are.
    pub(crate) fn local_store(&self, verb: &str) -> Result<&LocalStore> {
        match &self.local {
            Some(local) => Ok(&local.store),
            None => Err(not_local(&format!("`thalweg {verb}`"))),
        }
    }

    /// Returns how much the disk has taken of what was to be synced; grows during a sync. 0 through a node.
    pub fn synced_bytes(&self) -> u64 {
        self.local.as_ref().map_or(0, |local| local.store.counters().synced_bytes)
    }

    /// Returns the far store that this one stands near to.
    pub fn upstream(&self) -> Option<&Upstream> {
        self.upstream.as_deref()
    }

    pub fn store(&self) -> &dyn SegmentStore {
        &*self.store
    }

    pub fn store_arc(&self) -> Arc<dyn SegmentStore> {
        self.store.clone()
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Returns why nothing can be relied on, or written, any more until the store is reopened, if there is a reason.
    pub fn reopen_reason(&self) -> Option<String> {
        if self.lease.is_lost() {
            return Some("its lease ran out, and another process ended its session meanwhile".into());
        }
        let upstream = self.upstream.as_ref().and_then(|upstream| upstream.reopen_reason());
        upstream.or_else(|| self.local.as_ref().and_then(|local| local.store.failure()).map(str::to_owned))
    }

    /// Returns why nothing can be read or written here any more, if there is a reason that reopening the store does not
    /// cure: its catalog or its containers were removed or replaced while it was in use.
    pub fn displaced(&self) -> Option<String> {
        let local = self.local.as_ref()?;
        local.catalog.displaced().or_else(|| local.store.displaced().map(str::to_owned))
    }

    /// Whether another process has the store open, as far as that can be seen from here.
    pub fn is_open_elsewhere(&self) -> bool {
        self.catalog_lock.as_ref().is_some_and(CatalogLock::is_shared)
    }

    /// Seals what is open and ends the lease; call it when done, so that nothing is left for others to tidy.
    pub fn close(&self) -> Result<()> {
        if let Some(upstream) = &self.upstream {
            upstream.stop();
            upstream.far().close()?;
        }
        if let Some(local) = &self.local {
            local.store.close()?;
        }
        self.lease.end();
        if let Some(lock) = &self.catalog_lock {
            lock.release();
        }
        Ok(())
    }
}

fn not_local(command: &str) -> Error {
    let why = format!("is reached over the network; run {command} on a machine that has its directory");
    Error::Refused { code: ErrorCode::NeedsDirectory, path: "this store".into(), why }
}
