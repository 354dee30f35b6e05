//! `thalweg collect`: frees what nothing refers to.

use std::ffi::OsString;

use format::ErrorCode;
use repository::{Access, collect};
use serde_json::json;

use super::journal_is_whole;
use crate::error_code::Coded;
use crate::failure::Incomplete;
use crate::location::{StoreAddress, store_of_argument};
use crate::opening::directory;
use crate::output::Output;
use crate::shown;

/// Free what no kept version needs, safely beside writers
#[derive(clap::Args)]
#[command(
    after_help = "Files that a running reader or writer may still need wait for the next collection. Damaged containers \
                        are replaced where all that is needed of them can be read, there or in copies. \
                        Exits with 3 when the disk is too full to rewrite what is partly dead.\n\n\
                        Example: thalweg collect /scratch/st"
)]
pub struct Arguments {
    /// The store's directory (default: $THALWEG_STORE)
    store: Option<OsString>,
}

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let store = store_of_argument(arguments.store.as_deref())?;
    let repository = repository::open(directory(&store, "collect")?, Access::Remove)?;
    let is_open_elsewhere = repository.is_open_elsewhere();
    let collected = collect(&repository).map_err(|error| named(&store, error))?;
    repository.close()?;
    output.document(&json!({
        "condemned": collected.condemned,
        "rewritten": collected.rewritten,
        "replaced": collected.replaced,
        "journaled_paths": collected.journaled_paths,
        "deleted": collected.deleted,
        "freed_bytes": collected.freed_bytes(),
        "open_elsewhere": is_open_elsewhere,
        "written_bytes": collected.written_bytes,
        "waiting": collected.waiting,
        "open": collected.open,
        "open_bytes": collected.open_bytes,
        "short_of_room": collected.short_of_room,
        "not_freed_bytes": collected.not_freed_bytes,
    }))?;
    output.summary(format_args!(
        "freed {}: {} deleted, {} rewritten, {} kept for processes that may still read them",
        shown::size(collected.freed_bytes()),
        shown::count(collected.deleted, "container"),
        collected.rewritten,
        collected.waiting
    ))?;
    if collected.deleted > 0 && is_open_elsewhere {
        output.summary(
            "other processes have the store open: the room of deleted containers that they had read is free once they \
             close them, within some 30 s",
        )?;
    }
    if collected.waiting > 0 {
        let lease_s = repository::LEASE_MS / 1000;
        output.summary(format!(
            "collect again to free those: 20 s from now for what a running node had in use, after the end of commands and \
             jobs that run now, and {lease_s} s after a process was killed"
        ))?;
    }
    if collected.replaced > 0 {
        let replaced = shown::count(collected.replaced, "damaged container");
        output.summary(format!("{replaced} replaced by whole ones"))?;
    }
    if collected.journaled_paths > 0 {
        output.summary(journal_is_whole(collected.journaled_paths))?;
    }
    if collected.open > 0 {
        let open = shown::count(collected.open, "container");
        let bytes = shown::size(collected.open_bytes);
        output.summary(format!(
            "{open} ({bytes}) still written by a node, command or Python process, and left as they are: collect again 30 s \
             after its last write, or after its end"
        ))?;
    }
    if collected.short_of_room == 0 {
        return Ok(());
    }
    let files = shown::count(collected.short_of_room, "container");
    let bytes = shown::size(collected.not_freed_bytes);
    let why = format!(
        "{store}: the disk is too full to rewrite {files}, which would free some {bytes}; make room, and run it again"
    );
    Err(Incomplete(why).into())
}

/// Puts the store's own name into commands that give versions up.
fn named(store: &StoreAddress, error: repository::Error) -> anyhow::Error {
    match error {
        repository::Error::LostManifests(lost) => {
            Coded::new(ErrorCode::ManifestsDamaged, lost.explained(&store.to_string())).into()
        }
        other => other.into(),
    }
}
