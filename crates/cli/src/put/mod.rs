//! Trees into a store: one thread walks, as many as cores read and reduce, the caller's commits.
//!
//! Three stages with bounded queues between them. When a stage ends early, the queues it holds close and the others
//! stop at their next send or receive; there is no other signal. Earlier commits stay.

mod commits;
mod conditions;
mod content;
mod excluding;
mod links;
mod observed;
mod outcome;
mod queue;
mod replacing;
mod rounding;
mod snapshot;
mod sources;
mod walk;
mod worker;

use std::collections::HashSet;
use std::io::{ErrorKind, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;

use anyhow::Context;
use format::Rounding;
use policy::pipelining::Pipelining;
use repository::{BATCH_BYTES, BatchThreads, DedupMode, Packed, Packer, Repository};
use store::ClaimOwner;

use self::commits::Commits;
pub use self::commits::{CommitOptions, Stored, Summary};
pub use self::conditions::measure as measure_conditions;
pub use self::excluding::Exclusions;
use self::links::Links;
use self::queue::Queue;
use self::replacing::Replacing;
pub use self::replacing::versions_of;
pub use self::rounding::shown as shown_rounding;
use self::rounding::{FileRounding, end_not_whole};
use self::snapshot::SnapshotNames;
pub use self::snapshot::SnapshotOptions;
pub use self::sources::{Source, plan, total_bytes};
use self::walk::Walk;
use self::worker::{RereadReason, Shared, Worker};
use crate::error_code::fail;
use crate::output::Output;
use crate::progress::Progress;
use crate::signals::Interruption;

/// Units of work between the walk and the workers, and results between them and the commits.
const QUEUED_UNITS: usize = 64;

pub struct Options {
    pub commits: CommitOptions,
    /// Read files again even when they are as they were.
    pub force: bool,
    pub dedup: DedupMode,
    /// All sources are files of floats, and are rounded.
    pub rounding: Option<Rounding>,
    /// Threads that read and reduce.
    pub workers: usize,
    /// Device and inode of directories not to descend into: the store itself.
    pub avoid: HashSet<(u64, u64)>,
    /// Names to exclude.
    pub exclusions: Exclusions,
    /// Drop versions where a name becomes something else.
    pub replace: bool,
    /// Of a tree's snapshot.
    pub snapshot: SnapshotOptions,
    /// Once it has come, stored content is committed and the rest left.
    pub interruption: Interruption,
}

/// Puts the sources. Fails when the store does; a source that cannot be read is named in the summary.
pub fn put(
    repository: &Repository,
    sources: Vec<Source>,
    options: &Options,
    stored: &Stored,
    output: &Output,
) -> anyhow::Result<Summary> {
    // Lines and a bar do not share a terminal.
    let progress = if options.commits.verbose { Progress::hidden() } else { output.progress("put") };
    let queue = Queue::new(QUEUED_UNITS, options.workers);
    let (outcomes_in, outcomes_out) = sync_channel(QUEUED_UNITS);
    let links = Links::default();
    let replacing = Replacing::new(repository.catalog(), options.replace);
    let again = RereadReason { all: options.force, damage: repository.known_damage()? };
    let done = AtomicBool::new(false);
    let claim_owner = ClaimOwner(options.workers as u64 + 1);
    let snapshot = SnapshotNames::begin(repository, &sources, &options.snapshot, claim_owner)?;
    let pipelining = pipelining(repository, options.workers);
    let summary = std::thread::scope(|scope| {
        for number in 1..=options.workers as u64 {
            let (slot, outcomes) = (queue.slot(), outcomes_in.clone());
            let shared = Shared {
                repository,
                again: &again,
                links: &links,
                replacing: &replacing,
                interruption: &options.interruption,
                progress: &progress,
                dry_run: options.commits.dry_run,
                pipelining,
                dedup: options.dedup,
                rounding: options.rounding,
            };
            scope.spawn(move || Worker::new(scope, shared, slot, ClaimOwner(number), outcomes).run());
        }
        if progress.is_shown() {
            let (sources, done, progress) = (sources.clone(), &done, &progress);
            scope.spawn(move || {
                if let Some(bytes) = total_bytes(&sources, &options.exclusions, done) {
                    progress.set_total(bytes);
                }
            });
        }
        let sender = queue.sender();
        let targets = sources.iter().map(|source| source.target.clone()).collect();
        let walk = Walk::new(repository.catalog(), sender, outcomes_in, options, &replacing);
        scope.spawn(|| walk.run(sources));
        let commits = Commits::new(repository, targets, options.commits, stored, output).with_snapshot(snapshot);
        let summary = commits.run(outcomes_out, &options.interruption);
        done.store(true, Ordering::Relaxed);
        summary
    });
    progress.finish();
    summary
}

fn pipelining(repository: &Repository, workers: usize) -> Pipelining {
    Pipelining::over(repository.round_trip(), BATCH_BYTES, workers)
}

/// Puts what a stream holds as one file.
pub fn put_stream(
    repository: &Repository,
    stream: impl Read,
    source: &Source,
    (options, dedup, rounding): (CommitOptions, DedupMode, Option<Rounding>),
    stored: &Stored,
    output: &Output,
) -> anyhow::Result<Summary> {
    let progress = output.progress("put");
    let mut rounding = rounding.map(FileRounding::of_stream);
    let packed = std::thread::scope(|scope| {
        let Pipelining { batches, batch_bytes } = pipelining(repository, 1);
        let threads = BatchThreads::start(scope, repository, ClaimOwner(1), batches, batch_bytes);
        let float = rounding.as_ref().map(|rounding| rounding.request.float);
        let packer = Packer::new(repository, ClaimOwner(1)).with_threads(threads).with_dedup(dedup).with_rounded(float);
        pack_stream(packer, stream, rounding.as_mut(), &progress)
    })?;
    progress.finish();
    let target = source.target.clone();
    let is_new = repository.catalog().entry(&target)?.is_none();
    Commits::new(repository, vec![target.clone()], options, stored, output).stream(
        target,
        observed::of_stream(),
        (packed, rounding),
        is_new,
    )
}

fn pack_stream(
    mut packer: Packer<()>,
    mut stream: impl Read,
    mut rounding: Option<&mut FileRounding>,
    progress: &Progress,
) -> anyhow::Result<Packed<()>> {
    let mut buffer = vec![0; content::READ_BYTES];
    packer.store_beside(true);
    packer.begin();
    loop {
        let count = fill(&mut stream, &mut buffer).context("standard input")?;
        if count == 0 {
            break;
        }
        if let Some(rounding) = &mut rounding {
            if let Some(why) = end_not_whole(&rounding.request, count as u64) {
                fail!(ErrorBound: "standard input: the last {why} Nothing was put");
            }
            rounding.round(&mut buffer[..count]);
        }
        packer.data(&buffer[..count])?;
        progress.add(count as u64);
    }
    packer.end(())?;
    packer.flush()?;
    Ok(packer.take_finished().pop().expect("one file was begun, ended and flushed"))
}

/// Fills the buffer; fewer bytes come at the stream's end only.
fn fill(stream: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
