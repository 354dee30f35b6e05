//! A node near its clients, for a store that is far (`--upstream`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use ::address::{CredentialFiles, StoreAddress, connect_with, open_remote};
use format::StoreId;
use repository::{Access, Repository, Upstream};
use transfer::Remote;
use transfer::client::Settings;

use super::{Node, maintenance};
use crate::error_code::Coded;
use crate::failure::misuse;
use crate::location::store_of_argument;

/// How often the near store's length is looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Of the time that clients wait, for a far node that is lost: they hear the reason before they give up.
const SHARE_OF_TIMEOUT: f64 = 0.75;
/// Of the disk, for the near store.
const SHARE_OF_DISK: u64 = 4;
/// Of the disk; where less is free, the near store keeps nothing that it can do without.
const MIN_FREE_SHARE: u64 = 10;

#[derive(clap::Args, Debug)]
pub(super) struct UpstreamArguments {
    /// Stand near the clients of the far store that this node serves: STORE, made where there is none, keeps blocks that
    /// were read, and holds what is written until it is there; names are the far store's
    #[arg(long, value_name = "thalweg://HOST:PORT")]
    upstream: Option<PathBuf>,
    /// A file with the secret of the far node. Default: $THALWEG_SECRET_FILE
    #[arg(long, value_name = "FILE", requires = "upstream")]
    upstream_secret_file: Option<PathBuf>,
    /// The authorities that vouch for the far node (PEM). Default: $THALWEG_TLS_CA
    #[arg(long, value_name = "FILE", requires = "upstream")]
    upstream_tls_ca: Option<PathBuf>,
    /// Length of STORE (GiB) beyond which what no session needs is deleted; default: a quarter of its disk
    #[arg(long, value_name = "GIB", requires = "upstream", value_parser = clap::value_parser!(u64).range(1..=MAX_CACHE_GIB))]
    cache_gib: Option<u64>,
}

/// Goes before the far node's refusal, which is said in the words of every client: this node is the client it speaks of.
const CREDENTIALS: &str = "--upstream-secret-file or --upstream-tls-ca does not fit the far node";
const CREDENTIALS_HINT: &str = "without them THALWEG_SECRET_FILE and THALWEG_TLS_CA count; --secret-file and --tls-cert \
                                are for this node's own clients";

/// An exbibyte.
const MAX_CACHE_GIB: u64 = 1 << 30;

impl UpstreamArguments {
    /// Returns the far node, if one is named.
    pub fn connect(&self) -> anyhow::Result<Option<Remote>> {
        let Some(upstream) = &self.upstream else { return Ok(None) };
        let StoreAddress::Node(address) = store_of_argument(Some(upstream.as_os_str()))? else {
            misuse!(Address: "{}: --upstream takes a node's address, as in thalweg://far:7420", upstream.display());
        };
        let (secret_file, tls_ca) = (self.upstream_secret_file.clone(), self.upstream_tls_ca.clone());
        let far = connect_with(&CredentialFiles { secret_file, tls_ca }, &address).map_err(|error| match error {
            ::address::Error::Transfer(transfer::Error::Unavailable { .. }) => anyhow::Error::from(error),
            refused => Coded::new(refused.code(), format!("{CREDENTIALS}: {refused} ({CREDENTIALS_HINT})")).into(),
        })?;
        far.set_reconnect_timeout(Settings::transport_from_environment()?.timeout.mul_f64(SHARE_OF_TIMEOUT));
        Ok(Some(far))
    }

    /// Whether the far node is told a secret that is not this one's own.
    pub fn has_secret(&self) -> bool {
        self.upstream_secret_file.is_some()
    }

    /// Starts the thread that keeps the near store within its length, where there is one.
    pub fn keep_within(&self, node: &Arc<Node>, path: &Path) -> std::io::Result<Option<JoinHandle<()>>> {
        if self.upstream.is_none() {
            return Ok(None);
        }
        let (cache_gib, path, node) = (self.cache_gib, path.to_owned(), node.clone());
        Builder::new().name("tidy".into()).spawn(move || tidy(&node, || limit_bytes(cache_gib, &path))).map(Some)
    }
}

/// Returns how long the near store may be now (bytes).
fn limit_bytes(cache_gib: Option<u64>, path: &Path) -> u64 {
    let Ok(disk) = rustix::fs::statvfs(path) else { return u64::MAX };
    if disk.f_bavail < disk.f_blocks / MIN_FREE_SHARE {
        return 0;
    }
    cache_gib.map_or(disk.f_blocks * disk.f_frsize / SHARE_OF_DISK, |gib| gib << 30)
}

pub(super) fn open(directory: &Path, far: &Remote) -> anyhow::Result<Repository> {
    let far = open_remote(far.clone(), Access::Write)?;
    Ok(repository::open_near(directory, far, StoreId(transfer::random_bytes()?))?)
}

fn tidy(node: &Node, limit_bytes: impl Fn() -> u64) {
    let Some(upstream) = node.repository.upstream() else { return };
    let mut looked = Instant::now();
    while !node.is_stopping() {
        std::thread::sleep(maintenance::TICK);
        if looked.elapsed() >= CHECK_INTERVAL {
            tidy_once(node, upstream, limit_bytes());
            looked = Instant::now();
        }
    }
}

fn tidy_once(node: &Node, upstream: &Upstream, limit_bytes: u64) {
    // What clients were told of the far store may be collected there once none of them is left.
    if node.begun_sessions.are_over() && node.stripe_sets.all().is_empty() {
        upstream.refresh();
    }
    match upstream.keep_within(limit_bytes) {
        Ok(Some(collected)) if collected.freed_bytes() > 0 => {
            tracing::info!("collected the near store: {} bytes freed", collected.freed_bytes())
        }
        Ok(_) => {}
        Err(error) => tracing::warn!("collecting the near store: {error}"),
    }
}
