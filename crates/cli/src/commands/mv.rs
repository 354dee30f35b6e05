//! `thalweg mv`: renames, without touching content.

use std::ffi::OsString;

use format::{Change, FileKind, StorePath};
use repository::{Access, Repository};
use serde_json::{Value, json};

use super::commit_names;
use crate::error_code::fail;
use crate::failure::misuse;
use crate::location::Location;
use crate::opening::open_store;
use crate::output::Output;
use crate::put::versions_of;
use crate::shown;

/// Rename or move within a store; all of them or none
#[derive(clap::Args)]
#[command(
    override_usage = "thalweg mv [OPTIONS] <STORE::PATH>... <STORE::PATH>",
    after_help = "Example: thalweg mv /scratch/st::run1/out.dat /scratch/st::kept/"
)]
pub struct Arguments {
    /// Files or directories to move, then their destination: a new name, or a directory
    #[arg(required = true, num_args = 1.., value_name = "STORE::PATH")]
    pub locations: Vec<OsString>,
    /// Drop a file that has the new name, with all its versions
    #[arg(long)]
    replace: bool,
}

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let locations = Location::parse_all(&arguments.locations)?;
    let (to, from) = locations.split_last().expect("the names were counted");
    from.iter().try_for_each(|location| location.refuse_root("moved"))?;
    let repository = open_store(&to.store, Access::Write)?;
    let into = is_into(&repository, to, from.len())?;
    let mut changes = Vec::new();
    for location in from {
        let Some(moved) = repository.catalog().entry(&location.path)? else {
            fail!(NoSuchPath: "{location}: no such file or directory in the store");
        };
        let target = if into { to.path.join(location.path.name())? } else { to.path.clone() };
        if changes.iter().any(|change| matches!(change, Change::Rename { to, .. } if *to == target)) {
            misuse!(SameTarget: "{location}: another source becomes {}::{} too", to.store, shown::path(&target));
        }
        let present = repository.catalog().entry(&target)?.filter(|present| present.file != moved.file);
        if present.is_some_and(|present| present.head.is_some() && present.links == 1) {
            check_replaced(&repository, to, &target, arguments.replace, output)?;
        }
        changes.push(Change::Rename { from: location.path.clone(), to: target });
    }
    let moved: Vec<_> = changes.iter().map(moved_fields).collect();
    commit_names(&repository, changes)?;
    repository.close()?;
    output.summary(format_args!("moved {}", shown::count(moved.len() as u64, "name")))?;
    output.document(&json!({ "moved": moved }))
}

/// A file's versions go with its last name: that must be meant.
fn check_replaced(
    repository: &Repository,
    to: &Location,
    target: &StorePath,
    is_meant: bool,
    output: &Output,
) -> anyhow::Result<()> {
    let (what, store, shown) = (versions_of(repository.catalog(), target)?, &to.store, shown::path(target));
    if !is_meant {
        fail!(NameTaken: "{store}::{shown}: is there, {what}, which would be dropped; --replace drops them");
    }
    output.note(format_args!("{store}::{shown}: {what} is dropped"));
    Ok(())
}

fn is_into(repository: &Repository, to: &Location, sources: usize) -> anyhow::Result<bool> {
    let kind = repository.catalog().entry(&to.path)?.map(|entry| entry.attributes.kind);
    match kind {
        Some(FileKind::Directory) => Ok(true),
        Some(_) if to.into || sources > 1 => fail!(NotDirectory: "{to}: is not a directory"),
        _ => Ok(to.into || sources > 1),
    }
}

fn moved_fields(change: &Change) -> Value {
    let fields = |path: &StorePath| Value::Object(shown::path_fields(path.as_bytes()));
    match change {
        Change::Rename { from, to } => json!({ "from": fields(from), "to": fields(to) }),
        _ => unreachable!("only renames are made here"),
    }
}
