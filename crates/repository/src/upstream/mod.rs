//! A store near its clients for one that is far: what they write is kept here at once and sent on behind, what they read
//! stays here, and names are the far store's alone.
//!
//! The numbers of containers say where a segment lies: those of a near store begin at [`FIRST_NEAR_CONTAINER`]. A manifest
//! may name segments of both, until it is committed: then what lies near has been sent, and the far store gets a manifest of
//! its own numbers ([`manifest`]).

mod cached_blocks;
mod forwarder;
mod in_flight;
mod manifest;
mod names;
mod opening;
mod read_ahead;
mod sent_segments;
mod store;

use std::path::PathBuf;
use std::sync::Arc;

use catalog::CONTAINER_LIMIT;
use format::ContainerId;

pub use opening::open_near;

use crate::engines::open_made;
use crate::{Access, CollectReport, LEASE_MS, Repository, Result, collect};
use forwarder::Forwarder;
use sent_segments::SentSegments;
use store::NearStore;

/// Half of the numbers that a catalog may give.
pub(crate) const FIRST_NEAR_CONTAINER: u64 = CONTAINER_LIMIT / 2;

pub(crate) fn is_near(container: ContainerId) -> bool {
    container.0 >= FIRST_NEAR_CONTAINER
}

/// The far store behind a near one.
pub struct Upstream {
    far: Arc<Repository>,
    store: Arc<NearStore>,
    forwarder: Arc<Forwarder>,
    sent: Arc<SentSegments>,
    /// Of the near store.
    path: PathBuf,
}

/// What a near store has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamFigures {
    /// Blocks that wait to be sent on.
    pub waiting_blocks: u64,
    /// Encoded bytes that were sent on behind.
    pub sent_bytes: u64,
    /// Encoded bytes that came from the far store.
    pub fetched_bytes: u64,
    /// Encoded bytes of far blocks that were answered from here.
    pub cached_bytes: u64,
}

impl Upstream {
    /// Returns the far store.
    pub fn far(&self) -> &Repository {
        &self.far
    }

    pub fn figures(&self) -> UpstreamFigures {
        let (waiting_blocks, sent_bytes) = self.forwarder.figures();
        let (fetched_bytes, cached_bytes) = self.store.figures();
        UpstreamFigures { waiting_blocks, sent_bytes, fetched_bytes, cached_bytes }
    }

    /// Says that no reader relies on earlier answers of the far store any more, so that collection goes on there.
    pub fn refresh(&self) {
        self.sent.forget();
        self.far.lease().refresh();
    }

    /// Returns a number that grows while content goes to the far store or comes from there.
    pub fn progress(&self) -> u64 {
        self.forwarder.progress().wrapping_add(self.store.figures().0)
    }

    /// Whether a failure with this text is one that ends once the far store is opened again.
    pub fn explains(&self, failure: &str) -> bool {
        self.reopen_reason().is_some() || self.far.lease().explains(failure)
    }

    /// Returns why nothing can be sent to the far store, or relied on there, until it is opened again, if there is a reason.
    pub fn reopen_reason(&self) -> Option<String> {
        if self.far.lease().is_lost() {
            let seconds = LEASE_MS / 1000;
            return Some(format!(
                "its session at the far store has ended: the far node was away, or this one stood still, for more than {seconds} s"
            ));
        }
        // The failure speaks to a command.
        self.forwarder.failure().map(|_| "the far node was restarted, and has lost what it had not committed".into())
    }

    /// Collects the near store if its containers are longer than so many bytes: what is not in a checkpoint of an unfinished
    /// session is deleted, once the sessions that are older have ended.
    pub fn keep_within(&self, limit_bytes: u64) -> Result<Option<CollectReport>> {
        let near = open_made(&self.path, Access::Remove)?;
        let is_too_long = || -> Result<bool> { Ok(near.local_catalog()?.statistics()?.container_bytes > limit_bytes) };
        let collected = if is_too_long()? { Some(collect(&near)?) } else { None };
        // What older sessions hold back is still there: nothing more is kept that can be fetched again.
        self.store.keep_blocks(!is_too_long()?);
        near.close()?;
        Ok(collected)
    }

    /// Ends what is done behind. What was not sent on stays, for the sessions that need it.
    pub fn stop(&self) {
        self.forwarder.stop();
        self.store.stop();
    }
}
