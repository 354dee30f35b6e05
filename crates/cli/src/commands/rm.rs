//! `thalweg rm`: takes names away. The space comes back with `thalweg collect`.

use std::ffi::OsString;

use format::{Change, FileKind, StorePath};
use repository::{Access, Repository, TreeSnapshot};
use serde_json::{Value, json};

use super::{commit_names, list};
use crate::error_code::fail;
use crate::location::Location;
use crate::opening::open_store;
use crate::output::Output;
use crate::shown;
use crate::snapshots::{concerns, name_unreadable};

/// Remove files, with all their versions; all of them or none
#[derive(clap::Args)]
#[command(after_help = "Snapshots of nothing but what is removed go with it; others keep what they have.\n\n\
                        Example: thalweg rm -r /scratch/st::run1")]
pub struct Arguments {
    /// Files or directories to remove, each STORE::PATH
    #[arg(required = true, value_name = "STORE::PATH")]
    locations: Vec<OsString>,
    /// Directories too, with all below them
    #[arg(long, short)]
    recursive: bool,
}

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let locations = Location::parse_all(&arguments.locations)?;
    locations.iter().try_for_each(|location| location.refuse_root("removed"))?;
    let repository = open_store(&locations[0].store, Access::Remove)?;
    let (mut changes, mut names) = (Vec::new(), 0);
    for location in &locations {
        match repository.catalog().entry(&location.path)? {
            None => fail!(NoSuchPath: "{location}: no such file or directory in the store"),
            Some(entry) if entry.attributes.kind == FileKind::Directory && !arguments.recursive => {
                fail!(IsDirectory: "{location}: is a directory; -r removes it with all below it")
            }
            Some(entry) => {
                names += 1;
                if entry.attributes.kind == FileKind::Directory {
                    names += names_below(&repository, &location.path)?;
                }
                changes.push(Change::Remove { path: location.path.clone(), recursive: arguments.recursive });
            }
        }
    }
    let dropped = snapshots_of(&repository, &locations, output)?;
    if !dropped.is_empty() {
        changes.extend(repository.without_snapshots(&dropped)?);
    }
    commit_names(&repository, changes)?;
    repository.close()?;
    let and = match dropped.len() as u64 {
        0 => String::new(),
        count => format!(" and {} of them", shown::count(count, "snapshot")),
    };
    output.summary(format_args!("removed {}{and}", shown::count(names, "name")))?;
    let dropped: Vec<_> = dropped.into_iter().map(|snapshot| snapshot.id).collect();
    let removed = locations.iter().map(|location| Value::Object(shown::path_fields(location.path.as_bytes())));
    output.document(&json!({ "removed": removed.collect::<Vec<_>>(), "names": names, "snapshots": dropped }))
}

/// Returns the snapshots of nothing but these places, which go with them; notes those that keep some of it.
fn snapshots_of(repository: &Repository, places: &[Location], output: &Output) -> anyhow::Result<Vec<TreeSnapshot>> {
    let (mut dropped, mut keeping) = (Vec::new(), 0);
    let found = repository.snapshots()?;
    name_unreadable(&found, output);
    for snapshot in found.readable {
        let mut targets = snapshot.facts.sources.iter().map(|(_, target)| target);
        if targets.all(|target| places.iter().any(|place| target.is_within(&place.path))) {
            dropped.push(snapshot);
        } else if places.iter().any(|place| concerns(&snapshot, &place.path)) {
            keeping += 1;
        }
    }
    if keeping > 0 {
        let (keeping, them) = (shown::count(keeping, "snapshot"), if keeping == 1 { "it" } else { "them" });
        output.note(format_args!(
            "{keeping} may have some of what is removed and keep it; `thalweg forget --snapshot` drops {them}"
        ));
    }
    Ok(dropped)
}

fn names_below(repository: &Repository, directory: &StorePath) -> anyhow::Result<u64> {
    let mut names = 0;
    list(repository.catalog(), directory, true, |listed| {
        names += listed.len() as u64;
        Ok(())
    })?;
    Ok(names)
}
