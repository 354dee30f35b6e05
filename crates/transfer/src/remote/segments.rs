//! The node's segment store as a [`SegmentStore`].

use std::sync::Arc;
use std::time::Duration;

use format::{Block, ContainerId, Fingerprint, Run, SegmentEntry};
use store::{Answer, ClaimOwner, Error, Result, SegmentStore, StoredBlock};

use super::Remote;
use super::claims::OpenClaims;
use super::failures::store_error;
use crate::message::{FailureKind, Reply, Request, StoredBlockHeader};

/// Blocks of so many bytes are sent before the answer to the first is waited for.
const GROUP_BYTES: usize = 8 << 20;

/// When the node process is replaced by another while callers rely on segments that are not durable yet, the
/// store is failed for good: make a new one and put them again.
pub struct RemoteStore {
    remote: Remote,
    claims: OpenClaims,
}

impl RemoteStore {
    pub fn new(remote: Remote) -> Self {
        RemoteStore { remote, claims: OpenClaims::default() }
    }

    /// Sends a request of a claim owner. It takes no turn: others may wait for the owner's claims.
    fn ask(&self, request: &Request, payload: &[&[u8]]) -> crate::Result<Reply> {
        let answer = self.remote.converse(request, payload, |incarnation| self.remote.admit(incarnation))?;
        self.remote.rely_on(answer.incarnation)?;
        Ok(answer.reply)
    }

    /// As `ask`, for requests that do not wait for each other's answers.
    fn ask_all(&self, requests: &[(Request, Arc<Vec<u8>>)]) -> crate::Result<Vec<Reply>> {
        let (replies, incarnation) =
            self.remote.converse_all(requests, |incarnation| self.remote.admit(incarnation))?;
        self.remote.rely_on(incarnation)?;
        Ok(replies)
    }

    /// Takes the answer to a block that was put.
    fn stored(&self, claim_owner: ClaimOwner, segments: &[SegmentEntry], reply: Reply) -> Result<Run> {
        match reply {
            Reply::Stored { run } if run.count as usize == segments.len() => {
                self.claims.resolve(claim_owner, segments.iter().map(|segment| segment.fingerprint));
                Ok(run)
            }
            _ => {
                let why = "PutBlock was not answered by a run of its segments".into();
                Err(self.error(self.remote.misbehaved(why)))
            }
        }
    }

    fn claim(&self, claim_owner: ClaimOwner, request: Request, fingerprints: &[Fingerprint]) -> Result<Vec<Answer>> {
        let answers = match self.ask(&request, &[]) {
            Ok(Reply::Answers { answers }) if answers.len() == fingerprints.len() => answers,
            Ok(_) => return Err(self.error(self.remote.misbehaved("fingerprints were not answered one by one".into()))),
            Err(error) => return Err(self.error(error)),
        };
        let sent = fingerprints.iter().zip(&answers).filter(|(_, answer)| **answer == Answer::Send);
        self.claims.add(claim_owner, sent.map(|(fingerprint, _)| *fingerprint));
        Ok(answers)
    }

    /// Fetches the run in one reply, or in two halves when it is too large for that.
    fn fetch(&self, run: Run) -> crate::Result<Vec<StoredBlock>> {
        match self.remote.call(&Request::Get { run }, &[]) {
            Ok((Reply::Blocks { blocks }, payload)) => self.unpack(blocks, payload),
            Ok(_) => Err(self.remote.misbehaved("Get was not answered by Blocks".into())),
            Err(error) if error.failure() == Some(FailureKind::Refused) && run.count > 1 => self.fetch_halves(run),
            Err(error) => Err(error),
        }
    }

    fn fetch_halves(&self, run: Run) -> crate::Result<Vec<StoredBlock>> {
        let half = run.count / 2;
        let mut blocks = self.fetch(Run { count: half, ..run })?;
        let rest = self.fetch(Run { first: run.first + half, count: run.count - half, ..run })?;
        // A block that spans the cut came twice.
        let known = rest.first().is_some_and(|block| blocks.last().is_some_and(|last| last.labels == block.labels));
        blocks.extend(rest.into_iter().skip(known as usize));
        Ok(blocks)
    }

    fn unpack(&self, headers: Vec<StoredBlockHeader>, payload: Vec<u8>) -> crate::Result<Vec<StoredBlock>> {
        let total: u64 = headers.iter().map(|placed| placed.header.stored_bytes as u64).sum();
        if total != payload.len() as u64 || !headers.iter().all(labels_fit) {
            return Err(self.remote.misbehaved("the blocks do not fit their payload or labels".into()));
        }
        if headers.len() == 1 {
            return Ok(headers.into_iter().zip([payload]).map(|(placed, payload)| address(placed, payload)).collect());
        }
        let mut rest = &payload[..];
        let mut cut = |placed: StoredBlockHeader| {
            let (head, tail) = rest.split_at(placed.header.stored_bytes as usize);
            rest = tail;
            address(placed, head.to_vec())
        };
        Ok(headers.into_iter().map(&mut cut).collect())
    }

    fn error(&self, error: crate::Error) -> Error {
        match self.remote.has_lost() {
            true => Error::Failed { why: error.to_string() },
            false => store_error(error, self.remote.address()),
        }
    }
}

impl SegmentStore for RemoteStore {
    fn missing(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> Result<Vec<Answer>> {
        let request = Request::FindMissing { owner: claim_owner.0, fingerprints: fingerprints.to_vec() };
        self.claim(claim_owner, request, fingerprints)
    }

    fn await_claims(&self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> Result<Vec<Answer>> {
        let request = Request::AwaitClaims { owner: claim_owner.0, fingerprints: fingerprints.to_vec() };
        self.claim(claim_owner, request, fingerprints)
    }

    fn put(&self, claim_owner: ClaimOwner, block: &Block) -> Result<Run> {
        let request =
            Request::PutBlock { owner: claim_owner.0, header: block.header, segments: block.segments.clone() };
        let reply = self.ask(&request, &[&block.payload]).map_err(|error| self.error(error))?;
        self.stored(claim_owner, &block.segments, reply)
    }

    fn put_all(&self, claim_owner: ClaimOwner, blocks: &mut dyn Iterator<Item = Block>) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        loop {
            let group = next_group(claim_owner, blocks);
            if group.is_empty() {
                return Ok(runs);
            }
            let replies = self.ask_all(&group).map_err(|error| self.error(error))?;
            for ((request, _), reply) in group.iter().zip(replies) {
                let Request::PutBlock { segments, .. } = request else { unreachable!("a group puts blocks") };
                runs.push(self.stored(claim_owner, segments, reply)?);
            }
        }
    }

    fn round_trip(&self) -> Duration {
        self.remote.round_trip()
    }

    fn is_remote(&self, _container: ContainerId) -> bool {
        true
    }

    fn release(&self, claim_owner: ClaimOwner) {
        if self.claims.forget(claim_owner) {
            // Claims of a node that does not answer now end with this process's last connection there; others wait for
            // them no longer than some seconds.
            let _ = self.remote.ask_once(&Request::Release { owner: claim_owner.0 });
        }
    }

    fn get(&self, run: Run) -> Result<Vec<StoredBlock>> {
        possible(run)?;
        self.fetch(run).map_err(|error| store_error(error, self.remote.address()))
    }

    fn get_each(&self, runs: &[Run], take: &mut dyn FnMut(Vec<StoredBlock>) -> bool) -> Result<()> {
        let runs = runs.iter().filter(|run| run.is_possible());
        let requests: Vec<_> = runs.map(|run| (Request::Get { run: *run }, Arc::default())).collect();
        let each = self.remote.obtain_each(&requests, &mut |reply, payload| match reply {
            Reply::Blocks { blocks } => self.unpack(blocks, payload).map(&mut *take),
            _ => Err(self.remote.misbehaved("Get was not answered by Blocks".into())),
        });
        each.map_err(|error| store_error(error, self.remote.address()))
    }

    fn entries(&self, run: Run) -> Result<Vec<SegmentEntry>> {
        possible(run)?;
        let entries = self.remote.obtain(&Request::Entries { run }, |reply| match reply {
            Reply::Entries { entries } if entries.len() == run.count as usize => Some(entries),
            _ => None,
        });
        entries.map_err(|error| store_error(error, self.remote.address()))
    }

    fn make_durable(&self) -> Result<()> {
        let done = |reply| matches!(reply, Reply::Done {}).then_some(());
        self.remote.obtain_durably(&Request::MakeDurable {}, done).map_err(|error| self.error(error))
    }
}

/// Takes so many blocks as travel at once.
fn next_group(claim_owner: ClaimOwner, blocks: &mut dyn Iterator<Item = Block>) -> Vec<(Request, Arc<Vec<u8>>)> {
    let (mut group, mut bytes) = (Vec::new(), 0);
    while bytes < GROUP_BYTES
        && let Some(Block { header, segments, payload }) = blocks.next()
    {
        bytes += payload.len();
        group.push((Request::PutBlock { owner: claim_owner.0, header, segments }, Arc::new(payload)));
    }
    group
}

/// Refuses impossible runs: a node hangs up on such a request, and a damaged manifest may cause one.
fn possible(run: Run) -> Result<()> {
    if !run.is_possible() {
        let what = format!("segment {} of container {}, a number that there is not,", run.first, run.container);
        return Err(Error::NotFound { what });
    }
    Ok(())
}

/// Returns whether the labels name each segment once and their numbers can be trusted.
fn labels_fit(placed: &StoredBlockHeader) -> bool {
    let named: u64 = placed.labels.iter().map(|label| label.count as u64).sum();
    named == placed.segments.len() as u64
        && placed.labels.iter().all(|label| label.first.checked_add(label.count).is_some())
}

fn address(placed: StoredBlockHeader, payload: Vec<u8>) -> StoredBlock {
    let block = Block { header: placed.header, segments: placed.segments, payload };
    StoredBlock { labels: placed.labels, block }
}
