//! `thalweg mv`: renames, without touching content.

use std::ffi::OsString;

use anyhow::bail;
use format::{Change, FileKind, StorePath};
use repository::{Access, Repository};
use serde_json::{Value, json};

use super::commit_names;
use crate::opening::open_store;
use crate::output::Output;
use crate::place::Place;
use crate::shown;

/// Rename or move within a store; all of them or none
#[derive(clap::Args)]
#[command(after_help = "Example: thalweg mv /scratch/st::run1/out.dat /scratch/st::kept/")]
pub struct Arguments {
    /// What to move, and last where to: a new name, or a directory
    #[arg(required = true, num_args = 1..)]
    pub places: Vec<OsString>,
}

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let places = Place::parse_all(&arguments.places)?;
    let (to, from) = places.split_last().expect("the names were counted");
    from.iter().try_for_each(|place| place.refuse_root("moved"))?;
    let repository = open_store(&to.store, Access::Write)?;
    let into = is_into(&repository, to, from.len())?;
    let mut changes = Vec::new();
    for place in from {
        if repository.catalog().entry(&place.path)?.is_none() {
            bail!("{place}: no such file or directory in the store");
        }
        let target = if into { to.path.join(place.path.name())? } else { to.path.clone() };
        changes.push(Change::Rename { from: place.path.clone(), to: target });
    }
    let moved: Vec<_> = changes.iter().map(moved_fields).collect();
    commit_names(&repository, changes)?;
    repository.close()?;
    output.summary(format_args!("moved {}", shown::count(moved.len() as u64, "name")))?;
    output.document(&json!({ "moved": moved }))
}

fn is_into(repository: &Repository, to: &Place, sources: usize) -> anyhow::Result<bool> {
    let kind = repository.catalog().entry(&to.path)?.map(|entry| entry.attributes.kind);
    match kind {
        Some(FileKind::Directory) => Ok(true),
        Some(_) if to.into || sources > 1 => bail!("{to}: is not a directory"),
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
