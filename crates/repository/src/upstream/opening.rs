//! Making and opening a near store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use format::{ErrorCode, Settings, StoreId};

use super::cached_blocks::CachedBlocks;
use super::forwarder::Forwarder;
use super::names::UpstreamNames;
use super::sent_segments::SentSegments;
use super::store::NearStore;
use super::{FIRST_NEAR_CONTAINER, Upstream};
use crate::engines::{create, open_made, read_settings};
use crate::model::StoreModel;
use crate::{Access, Error, Lease, Repository, Result};
use store::{ClaimOwner, SegmentStore};

/// The claim owner of far blocks that are cached; claims nothing.
const KEEPER: ClaimOwner = ClaimOwner(u64::MAX - 1);
/// At the far store: of the threads that send on, and of commits.
const FIRST_FORWARDER: u64 = 1;
const FIRST_COMMITTER: u64 = 1 << 20;

/// Opens the near store at `path` of the store `far`; makes it, with the number `id`, where there is none.
pub fn open_near(path: &Path, far: Arc<Repository>, id: StoreId) -> Result<Repository> {
    if far.settings.upstream.is_some() {
        let why = "is itself near another store, and names are that one's: name that one upstream".into();
        return Err(Error::Refused {
            code: ErrorCode::NearStore,
            path: format!("the node of store {}", far.settings.id),
            why,
        });
    }
    let wanted =
        Settings { id, state: None, shared_gid: None, upstream: Some(far.settings.id), ..far.settings.clone() };
    match read_settings(path) {
        Err(Error::NoStore { .. }) => create(path, &wanted)?,
        found => check(path, &found?, &wanted)?,
    }
    join(path, open_made(path, Access::Write)?, far)
}

fn check(path: &Path, found: &Settings, wanted: &Settings) -> Result<()> {
    let why = match found.upstream {
        Some(upstream) if Some(upstream) == wanted.upstream => return Ok(()),
        Some(upstream) => format!("stands near the store {upstream}, and another one is served upstream"),
        None => "is a store of its own; name an empty place, or none, for what is cached near".into(),
    };
    Err(Error::Refused { code: ErrorCode::NearStore, path: path.display().to_string(), why })
}

fn join(path: &Path, near: Repository, far: Arc<Repository>) -> Result<Repository> {
    let local = near.local.clone().expect("it was opened on this machine");
    let given = local.catalog.containers()?.iter().map(|container| container.id.0).min();
    if given.is_some_and(|first| first < FIRST_NEAR_CONTAINER) {
        let why = "has containers with numbers of the store upstream; remove it, and let the node make it again".into();
        return Err(Error::Refused { code: ErrorCode::NearStore, path: path.display().to_string(), why });
    }
    let fingerprint = far.settings.fingerprint;
    let segments: Arc<dyn SegmentStore> = local.store.clone();
    let cached = Arc::new(CachedBlocks::new(segments.clone(), fingerprint, KEEPER));
    let sent = Arc::<SentSegments>::default();
    let io = |source| Error::io(path.display(), source);
    let store = NearStore::start(segments.clone(), far.store_arc(), cached.clone(), &far.settings).map_err(io)?;
    let forwarder = Forwarder::start(segments, far.clone(), cached, sent.clone(), FIRST_FORWARDER).map_err(io)?;
    store.send_on(forwarder.clone());
    let lease = Lease::unrecorded(far.catalog.clone());
    let names = UpstreamNames {
        near: local.catalog.clone(),
        reader: Repository::remote(far.settings.clone(), store.clone(), far.catalog.clone(), lease),
        far: far.clone(),
        forwarder: forwarder.clone(),
        sent: sent.clone(),
        claim_owners: AtomicU64::new(FIRST_COMMITTER),
    };
    let model = StoreModel::sent(far.model().as_deref());
    let upstream = Upstream { far, store: store.clone(), forwarder, sent, path: path.to_owned() };
    Ok(Repository { store, catalog: Arc::new(names), upstream: Some(Arc::new(upstream)), model, ..near })
}
