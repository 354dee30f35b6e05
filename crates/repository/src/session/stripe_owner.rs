//! One node's share of a path's session, as threads see it: a lock around the pure [`WriteSession`], and the I/O it
//! asks for, done while the lock is free.
//!
//! The lock is held for moments only; a wait under it releases it, is woken by every event it can be waiting for, and
//! ends with an error when the stripe set fails or nothing goes on for [`STALL_SECONDS`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use format::{CodecChoice, Entry, EntryKind, Fingerprint, Mode, Root, SegmentEntry, SessionId};
use store::ClaimOwner;

use super::budget::Budget;
use super::checkpoint_steps::SEGMENTS_AT_ONCE;
use super::content_map::StoredSegment;
use super::sources::{DurableUpTo, Source};
use super::storing::StoreWork;
use super::write_session::{Failure, ReadFrom, WriteSession};
use crate::dedup::{NewBlocks, NewSegment as Segment};
use crate::known_runs::EntryEnds;
use crate::tree::entries_in;
use crate::{Error, Repository, Result};

/// How long a checkpoint waits for others while they bring nothing nearer to its end.
const STALL_SECONDS: u32 = 120;

/// How a stripe set is set up.
#[derive(Clone, Debug)]
pub struct StripeOwnerOptions {
    pub session: SessionId,
    pub stripe_set: u32,
    /// The node process's number in the catalog.
    pub owner: u64,
    /// Length of the segments, which lie at multiples of it in the file.
    pub segment_bytes: u32,
    pub stripe_bytes: u64,
    /// Stripe sets of the session: this one's stripes are those whose number leaves `stripe_set` modulo this.
    pub stripe_sets: u32,
}

/// The time and the sender of a piece.
#[derive(Clone, Copy, Debug)]
pub struct WriteOrigin {
    pub source: Source,
    pub sequence: u64,
    /// 0, or the answer of this stripe set (or one before it) when the piece came the first time.
    pub stamp: u64,
}

/// One node's share of a session. Safe to use from many threads.
pub struct StripeOwner {
    pub(super) options: StripeOwnerOptions,
    pub(super) repository: Arc<Repository>,
    pub(super) budget: Arc<Budget>,
    state: Mutex<State>,
    /// Something was stored, a checkpoint ended, or the stripe set failed.
    pub(super) changed: Condvar,
    /// Of new blocks that were put for it and not asked for yet.
    pub(super) stored_bytes: AtomicU64,
    /// That writers asked for last; none: the store's settings say how blocks are encoded.
    mode: Mutex<Option<Mode>>,
}

struct State {
    session: WriteSession,
    /// The budget's charge for it.
    charged_bytes: u64,
}

impl StripeOwner {
    pub(super) fn new(session: WriteSession, repository: Arc<Repository>, budget: Arc<Budget>) -> Self {
        let options = session.options.clone();
        let state = Mutex::new(State { session, charged_bytes: 0 });
        StripeOwner {
            options,
            repository,
            budget,
            state,
            changed: Condvar::new(),
            stored_bytes: AtomicU64::new(0),
            mode: Mutex::default(),
        }
    }

    pub fn options(&self) -> &StripeOwnerOptions {
        &self.options
    }

    /// Encodes what is stored from now on in this mode.
    pub fn encode_by(&self, mode: Mode) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = Some(mode);
    }

    fn new_blocks(&self) -> NewBlocks {
        let mode = *self.mode.lock().unwrap_or_else(PoisonError::into_inner);
        mode.map_or_else(|| self.repository.data_blocks(), |mode| NewBlocks::data(CodecChoice::Auto(mode)))
    }

    /// Takes the extents' bytes, which stand one after the other in `payload`. Returns the arrival's stamp.
    pub fn write(&self, arrival: WriteOrigin, extents: &[(u64, u64)], payload: Vec<u8>) -> Result<u64> {
        self.event(|session| session.write(arrival, extents, payload))
    }

    /// Takes in an offered piece: whole segments at these offsets. Its content follows with [`StripeOwner::supplied`].
    /// Returns its stamp, and whether it is known already, content and all.
    pub fn offered(&self, arrival: WriteOrigin, offsets: &[u64]) -> Result<(u64, bool)> {
        self.event(|session| session.offered(arrival, offsets))
    }

    /// Notes that the content of an offered piece is in the store, at these places (`None`: zeros). The store was asked
    /// about them since `epoch`.
    pub fn supplied(
        &self,
        arrival: WriteOrigin,
        stamp: u64,
        epoch: u64,
        segments: &[(u64, SegmentEntry, Option<format::SegmentAddress>)],
    ) -> Result<()> {
        self.event(|session| session.supplied(arrival, stamp, epoch, segments))
    }

    /// Fills `into` from `offset` on, zeros where nothing was written; returns the file's size as this stripe set knows
    /// it.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<u64> {
        let plan = self.event(|session| Ok(session.read(offset, into.len() as u64)))?;
        let mut filled = 0;
        for (range, from) in plan.parts {
            let part = &mut into[filled..filled + (range.end - range.start) as usize];
            filled += part.len();
            match from {
                ReadFrom::Buffer(bytes) => part.copy_from_slice(&bytes),
                ReadFrom::Entry(entry, from) => self.read_entry(entry, from, part)?,
                ReadFrom::Zeros => part.fill(0),
                ReadFrom::Head => self.read_head(plan.head.as_ref(), range.start, part)?,
            }
        }
        into[filled..].fill(0);
        Ok(plan.size)
    }

    fn read_entry(&self, entry: Entry, from: u64, into: &mut [u8]) -> Result<()> {
        let mut at = 0;
        self.repository.entry_pieces(entry, EntryEnds::Anywhere, from..from + into.len() as u64, &mut |piece| {
            at += crate::read::fill(&mut into[at..], piece);
            Ok(())
        })
    }

    fn read_head(&self, head: Option<&(Root, u64)>, offset: u64, into: &mut [u8]) -> Result<()> {
        let read = match head {
            Some((root, size)) => self.repository.reader(root, *size).read_at(offset, into)?,
            None => 0,
        };
        into[read..].fill(0);
        Ok(())
    }

    pub fn size(&self) -> Result<u64> {
        self.event(|session| Ok(session.size))
    }

    /// Cuts or extends the file, as far as this stripe set's stripes go.
    pub fn set_size(&self, size: u64) -> Result<()> {
        self.event(|session| session.set_size(size))
    }

    /// Returns the bytes that the store took for it since the last call.
    pub fn take_stored_bytes(&self) -> u64 {
        self.stored_bytes.swap(0, Ordering::Relaxed)
    }

    pub fn epoch(&self) -> u64 {
        self.lock().session.epoch
    }

    /// Returns the bytes received since the last checkpoint began; none of a stripe set that failed.
    pub fn uncheckpointed_bytes(&self) -> u64 {
        self.lock().session.uncheckpointed_bytes
    }

    /// Returns how far the source's pieces are durable: sent again when it reconnects, since it may have missed it.
    pub fn durable_up_to(&self, source: Source) -> Result<Option<DurableUpTo>> {
        self.event(|session| Ok(session.sources.last_notice(source)))
    }

    /// Whether anything received is in no checkpoint yet. A stripe set that failed holds nothing.
    pub fn has_uncheckpointed(&self) -> bool {
        self.lock().session.has_uncheckpointed()
    }

    /// Returns why the stripe set takes nothing any more, if so.
    pub fn failure(&self) -> Option<String> {
        self.lock().session.failure().map(|error| error.to_string())
    }

    /// Hands an event to the session, unless it has failed.
    pub(super) fn event<T>(&self, event: impl FnOnce(&mut WriteSession) -> Result<T>) -> Result<T> {
        let mut state = self.lock();
        if let Some(failure) = state.session.failure() {
            return Err(failure);
        }
        let answer = event(&mut state.session);
        self.charge(&mut state);
        answer
    }

    /// Asks the session again and again, until it answers; `whom` names the peer that it waits for.
    pub(super) fn wait<T>(&self, whom: &str, mut ask: impl FnMut(&mut WriteSession) -> Option<T>) -> Result<T> {
        let mut state = self.lock();
        let (mut progress, mut waited) = (state.session.progress, 0);
        loop {
            if let Some(failure) = state.session.failure() {
                return Err(failure);
            }
            if let Some(answer) = ask(&mut state.session) {
                self.charge(&mut state);
                return Ok(answer);
            }
            if state.session.progress != progress {
                (progress, waited) = (state.session.progress, 0);
            } else if waited >= STALL_SECONDS {
                let StripeOwnerOptions { session, stripe_set, .. } = &self.options;
                let why = format!("waited {STALL_SECONDS} s for {whom}; is its disk stuck?");
                return Err(Error::Failed(format!("session {session}, stripe set {stripe_set}: {why}")));
            }
            let timed = self.changed.wait_timeout(state, Duration::from_secs(1));
            let (guard, timeout) = timed.unwrap_or_else(PoisonError::into_inner);
            state = guard;
            waited += timeout.timed_out() as u32;
        }
    }

    /// Remembers an error: the stripe set takes nothing more, every later call says why, and all waiters are woken.
    pub(super) fn failing<T>(&self, done: Result<T>) -> Result<T> {
        if let Err(error) = &done {
            let mut state = self.lock();
            state.session.fail(Failure::of(error));
            self.charge(&mut state);
            self.changed.notify_all();
        }
        done
    }

    fn charge(&self, state: &mut State) {
        let bytes = state.session.memory_bytes();
        self.budget.change(state.charged_bytes, bytes);
        state.charged_bytes = bytes;
    }

    /// A panic in the session leaves it in no known state: it fails, and every later call reports that.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            let why = "internal error: this node's part of the file broke; the node's log says where. \
                       Close the file and open it again";
            state.session.fail(Failure::Other(why.into()));
            state
        })
    }
}

impl Drop for StripeOwner {
    fn drop(&mut self) {
        let charged = self.lock().charged_bytes;
        self.budget.change(charged, 0);
    }
}

impl Failure {
    fn of(error: &Error) -> Self {
        match error {
            Error::Catalog(catalog::Error::StripeSetLost { .. }) => Failure::TakenOver,
            error if error.is_full() => Failure::NoRoom(error.to_string()),
            error => Failure::Other(error.to_string()),
        }
    }
}

impl StripeOwner {
    /// Reduces some of the whole segments; says whether there was anything. A failure is remembered: the stripe set
    /// takes nothing more, and every later call says why.
    pub fn reduce(&self, claim_owner: ClaimOwner) -> Result<bool> {
        let is_short = self.budget.is_short();
        let works = self.event(|session| {
            if is_short {
                session.evict();
            }
            Ok(session.take_work(SEGMENTS_AT_ONCE))
        })?;
        if works.is_empty() {
            return Ok(false);
        }
        self.failing(self.store_works(claim_owner, works))?;
        Ok(true)
    }

    pub(super) fn store_works(&self, claim_owner: ClaimOwner, works: Vec<StoreWork>) -> Result<()> {
        let epoch = self.repository.lease.epoch();
        let pieces: Vec<&[u8]> = works.iter().flat_map(|work| &work.pieces).map(|(_, bytes)| &**bytes).collect();
        let stored = self.store_pieces(claim_owner, &pieces)?;
        self.event(|session| {
            session.stored(works, stored, epoch);
            Ok(())
        })?;
        self.changed.notify_all();
        Ok(())
    }

    /// Stores each piece as a segment, but those that are zeros.
    fn store_pieces(&self, claim_owner: ClaimOwner, pieces: &[&[u8]]) -> Result<Vec<Option<Arc<StoredSegment>>>> {
        let named: Vec<_> =
            pieces.iter().map(|bytes| (!segment::is_zero(bytes)).then(|| self.repository.fingerprint(bytes))).collect();
        let new_segments: Vec<_> = pieces
            .iter()
            .zip(&named)
            .filter_map(|(bytes, name)| name.map(|fingerprint| Segment { fingerprint, bytes }))
            .collect();
        let kept = self.repository.dedup(claim_owner, self.new_blocks(), &new_segments)?;
        self.stored_bytes.fetch_add(kept.stored_bytes, Ordering::Relaxed);
        let mut addresses = kept.addresses.into_iter();
        let stored = |(bytes, name): (&&[u8], &Option<Fingerprint>)| {
            name.map(|fingerprint| {
                let address = addresses.next().expect("a place for every named segment");
                Arc::new(StoredSegment { address, fingerprint, bytes: bytes.len() as u32 })
            })
        };
        Ok(pieces.iter().zip(&named).map(stored).collect())
    }
}

impl StripeOwner {
    /// Takes the stripe set in the catalog, from its owner so far if any, and loads its checkpoints.
    pub fn take(
        repository: Arc<Repository>,
        budget: Arc<Budget>,
        session: SessionId,
        stripe_set: u32,
        owner: u64,
        segment_bytes: u32,
    ) -> Result<Self> {
        let found = repository.local_catalog()?.path_session(session)?;
        let Some(found) = found.filter(|found| (stripe_set as usize) < found.nodes.len()) else {
            return Err(Error::Failed(format!("session {session} has ended, or has no stripe set {stripe_set}")));
        };
        if repository.local_catalog()?.path_state(session)? == Some(catalog::PathState::Removed) {
            // Its base has no name any more by which it could be found.
            let why = format!("{}: was removed while it was open, and its node has not kept it", found.path);
            return Err(Error::Failed(why));
        }
        let number = repository.local_catalog()?.take_stripe_set(session, stripe_set, owner)?;
        let stripe_sets = found.nodes.len() as u32;
        let options = StripeOwnerOptions {
            session,
            stripe_set,
            owner,
            segment_bytes,
            stripe_bytes: found.stripe_bytes,
            stripe_sets,
        };
        let mut state = WriteSession::new(options, number)?;
        let head = repository.catalog.entry(&found.path)?.and_then(|entry| entry.head);
        state.base_on(head.map(|head| (head.record.root, head.record.size)));
        load_checkpoints(&mut state, &repository, session, stripe_set)?;
        Ok(StripeOwner::new(state, repository, budget))
    }
}

fn load_checkpoints(
    state: &mut WriteSession,
    repository: &Repository,
    session: SessionId,
    stripe_set: u32,
) -> Result<()> {
    for checkpoint in repository.catalog.checkpoints(session)? {
        state.epoch = state.epoch.max(checkpoint.epoch);
        if checkpoint.stripe_set != stripe_set {
            continue;
        }
        let mut entries = Vec::new();
        entries_in(repository, &checkpoint.root, 0..u64::MAX, &mut |offset, entry| {
            if entry.kind != EntryKind::Hole {
                entries.push((offset, entry));
            }
            Ok(())
        })?;
        state.restore(&checkpoint, entries);
    }
    Ok(())
}
