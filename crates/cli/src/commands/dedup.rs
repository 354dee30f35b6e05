//! `thalweg dedup`: finds what is stored more than once, and frees all copies but one.

use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

use repository::{Access, CollectReport, DedupReport, DedupScope, Repository, collect, deduplicate};
use serde_json::{Value, json};

use crate::failure::Incomplete;
use crate::location::{StoreAddress, store_of_argument};
use crate::opening::directory;
use crate::output::Output;
use crate::pacing::{Pace, rate};
use crate::shown;

/// Find what is stored more than once, and free all copies but one
#[derive(clap::Args)]
#[command(
    after_help = "Meant for stores that were filled with `put --dedup off`. Runs beside readers and writers, and collects at \
                        its end. Versions keep their numbers, times and contents. A run that was killed is gone on with by \
                        running it again. Exits with 3 when a version cannot be read whole.\n\n\
                        Example: thalweg dedup /scratch/st --limit-rate 50M\n\
                        Example: thalweg dedup /scratch/st --by files"
)]
pub struct Arguments {
    /// The store's directory (default: $THALWEG_STORE)
    store: Option<OsString>,
    /// What is compared: all segments, or only those of files whose whole content is there more than once
    #[arg(long, value_name = "WHAT", value_enum, default_value = "segments")]
    by: By,
    /// Go through no more content in a second: 512K, 10M or 1.5G (KiB, MiB, GiB)
    #[arg(long, value_name = "RATE", value_parser = rate)]
    limit_rate: Option<u64>,
}

/// `--by`.
#[derive(Clone, Copy, clap::ValueEnum)]
enum By {
    Segments,
    Files,
}

impl From<By> for DedupScope {
    fn from(by: By) -> Self {
        match by {
            By::Segments => DedupScope::Segments,
            By::Files => DedupScope::Files,
        }
    }
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    let (store, begun) = (store_of_argument(arguments.store.as_deref())?, Instant::now());
    let path = directory(&store, "dedup")?;
    let repository = repository::open(path, Access::Write)?;
    let before_bytes = container_bytes(&repository)?;
    let deduplicated = run(&repository, arguments, output)?;
    repository.close()?;
    // Collection has the reserve, and its own lease: nothing that was read here holds it back.
    drop(repository);
    let freed = free(path);
    // What was found is committed, whether or not its containers could be freed.
    let result = Freed { deduplicated, before_bytes, collected: freed.as_ref().ok().copied() };
    output.document(&result.fields(begun))?;
    output.summary(result.line())?;
    result.notes(&store).try_for_each(|note| output.summary(note))?;
    freed?;
    judge(&store, &deduplicated)
}

/// Frees what no version needs; returns the length of the containers that stay, too.
fn free(path: &Path) -> anyhow::Result<(CollectReport, u64)> {
    let repository = repository::open(path, Access::Remove)?;
    let collected = collect(&repository)?;
    let after_bytes = container_bytes(&repository)?;
    repository.close()?;
    Ok((collected, after_bytes))
}

fn run(repository: &Repository, arguments: &Arguments, output: &Output) -> anyhow::Result<DedupReport> {
    let (progress, mut pace) = (output.progress("dedup"), Pace::new(arguments.limit_rate));
    progress.set_total(repository.local_catalog()?.statistics()?.logical_bytes);
    let deduplicated = deduplicate(repository, arguments.by.into(), &mut |bytes| {
        progress.add(bytes);
        pace.spend(bytes);
    });
    progress.finish();
    Ok(deduplicated?)
}

/// Returns the length of the container files that are not being written.
fn container_bytes(repository: &Repository) -> anyhow::Result<u64> {
    Ok(repository.local_catalog()?.statistics()?.container_bytes)
}

struct Freed {
    deduplicated: DedupReport,
    before_bytes: u64,
    /// And the length of the containers afterwards; unknown where freeing failed.
    collected: Option<(CollectReport, u64)>,
}

impl Freed {
    fn saved_bytes(&self) -> u64 {
        self.collected.map_or(0, |(_, after_bytes)| self.before_bytes.saturating_sub(after_bytes))
    }

    fn fields(&self, begun: Instant) -> Value {
        let collected = self.collected.map(|(collected, _)| collected);
        json!({
            "versions": self.deduplicated.versions,
            "changed": self.deduplicated.changed,
            "damaged": self.deduplicated.damaged,
            "skipped": self.deduplicated.skipped,
            "unlisted_segments": self.deduplicated.unlisted_segments,
            "duplicate_segments": self.deduplicated.duplicate_segments,
            "duplicate_bytes": self.deduplicated.duplicate_bytes,
            "before_bytes": self.before_bytes,
            "after_bytes": self.collected.map(|(_, after_bytes)| after_bytes),
            "saved_bytes": self.saved_bytes(),
            "rewritten": collected.map(|collected| collected.rewritten),
            "deleted": collected.map(|collected| collected.deleted),
            "waiting": collected.map(|collected| collected.waiting),
            "seconds": begun.elapsed().as_secs_f64(),
        })
    }

    fn line(&self) -> String {
        let found = &self.deduplicated;
        if found.duplicate_segments == 0 {
            let listed =
                if found.unlisted_segments > 0 { "no duplicates that the store knows yet" } else { "no duplicates" };
            return format!("nothing to do: {} have {listed}", shown::count(found.versions, "version"));
        }
        let freed = match self.collected {
            Some((collected, after_bytes)) if collected.deleted > 0 => {
                format!("{} of containers became {}", shown::size(self.before_bytes), shown::size(after_bytes))
            }
            _ => "no container is freed yet".to_owned(),
        };
        format!(
            "found {} twice ({}) in {} of {}: {freed}",
            shown::count(found.duplicate_segments, "segment"),
            shown::size(found.duplicate_bytes),
            found.changed,
            shown::count(found.versions, "version"),
        )
    }

    /// Returns what is to be done later.
    fn notes(&self, store: &StoreAddress) -> impl Iterator<Item = String> {
        let waiting = self.collected.map_or(0, |(collected, _)| collected.waiting);
        let unlisted = self.deduplicated.unlisted_segments;
        let waiting = (waiting > 0).then(|| {
            let waiting = shown::count(waiting, "container");
            format!("{waiting} kept for processes that may still read them; `thalweg collect` frees them")
        });
        let unlisted = (unlisted > 0).then(|| {
            let unlisted = shown::count(unlisted, "segment");
            format!(
                "{unlisted} not compared: a node or another process still writes them, or they are damaged; run it again \
                 later, and where nothing writes, `thalweg verify {store}`"
            )
        });
        waiting.into_iter().chain(unlisted)
    }
}

fn judge(store: &StoreAddress, found: &DedupReport) -> anyhow::Result<()> {
    if found.damaged == 0 {
        return Ok(());
    }
    let damaged = shown::count(found.damaged, "version");
    let why = format!(
        "{store}: {damaged} cannot be read whole and stayed unchanged; `thalweg verify {store} --data` names the damage"
    );
    Err(Incomplete(why).into())
}
