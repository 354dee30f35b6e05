//! `thalweg repair`: lets copies stand in for what is lost, and names what stays lost.

use std::ffi::OsString;

use repository::{Access, LostRange, is_snapshot, repair};
use serde_json::{Value, json};

use super::journal_is_whole;
use crate::failure::Incomplete;
use crate::location::{StoreAddress, store_of_argument};
use crate::opening::directory;
use crate::output::Output;
use crate::shown;

/// Find copies of what is lost, and name what stays lost
#[derive(clap::Args)]
#[command(
    after_help = "Reads all content of all versions. Exits with 3 when something is lost, and names path, version and \
                        bytes; putting the same content again heals it, under any name.\n\n\
                        Example: thalweg repair /scratch/st"
)]
pub struct Arguments {
    /// The store's directory (default: $THALWEG_STORE)
    store: Option<OsString>,
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    let store = store_of_argument(arguments.store.as_deref())?;
    let repository = repository::open(directory(&store, "repair")?, Access::Write)?;
    let repaired = repair(&repository)?;
    repository.close()?;
    output.notes(&repaired.lost, line, |more| shown::count(more as u64, "range"));
    output.document(&json!({
        "versions": repaired.versions,
        "healed_segments": repaired.healed_segments,
        "journaled_paths": repaired.journaled_paths,
        "lost": repaired.lost.iter().map(fields).collect::<Vec<_>>(),
    }))?;
    let healed = shown::count(repaired.healed_segments, "segment");
    let next = if repaired.healed_segments > 0 { "; `thalweg collect` replaces the damaged containers" } else { "" };
    let versions = shown::count(repaired.versions, "version");
    output.summary(format!("read {versions}; copies stand in for {healed}{next}"))?;
    if repaired.journaled_paths > 0 {
        output.summary(journal_is_whole(repaired.journaled_paths))?;
    }
    if repaired.lost.is_empty() {
        return Ok(());
    }
    Err(Incomplete(format!("{store}: {}", summary(&store, &repaired.lost))).into())
}

/// Says how much is lost, and what the user can do about it.
fn summary(store: &StoreAddress, lost: &[LostRange]) -> String {
    let (snapshots, files): (Vec<&LostRange>, Vec<&LostRange>) = lost.iter().partition(|lost| is_snapshot(&lost.path));
    let mut parts = Vec::new();
    if !files.is_empty() {
        let bytes = files.iter().map(|lost| lost.range.end - lost.range.start).fold(0, u64::saturating_add);
        // Ranges of one version follow each other.
        let versions = files.chunk_by(|one, other| (&one.path, one.version) == (&other.path, other.version)).count();
        parts.push(format!(
            "{} lost, {} in {}; put the same files again to heal them, and `thalweg rm` or `forget`, then \
             `thalweg collect`, gives up what is nowhere else",
            shown::count(files.len() as u64, "range"),
            shown::size(bytes),
            shown::count(versions as u64, "version")
        ));
    }
    if let Some(first) = snapshots.first() {
        let count = snapshots.chunk_by(|one, other| one.path == other.path).count() as u64;
        parts.push(format!(
            "{} cannot be read whole: putting the same files again heals their content, not their lists of names; `thalweg \
             forget {store}:: --snapshot {}` gives one up",
            shown::count(count, "snapshot"),
            shown::escaped(first.path.name())
        ));
    }
    parts.join("; ")
}

fn line(lost: &LostRange) -> String {
    let LostRange { path, version, range, why } = lost;
    if is_snapshot(path) {
        let id = shown::escaped(path.name());
        return format!("snapshot {id}: bytes {} to {} are lost: {why}", range.start, range.end);
    }
    format!("{} version {version}: bytes {} to {} are lost: {why}", shown::path(path), range.start, range.end)
}

fn fields(lost: &LostRange) -> Value {
    let mut fields = shown::path_fields(lost.path.as_bytes());
    fields.insert("version".into(), lost.version.into());
    fields.insert("start".into(), lost.range.start.into());
    fields.insert("end".into(), lost.range.end.into());
    fields.insert("why".into(), lost.why.clone().into());
    Value::Object(fields)
}
