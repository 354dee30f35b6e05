//! Snapshots that go: by name, or all that no rule keeps.

use std::collections::BTreeMap;

use repository::{SnapshotDirectory, TreeSnapshot};
use serde_json::json;

use super::access;
use crate::clock::now_ns;
use crate::commands::{commit_names, snapshots};
use crate::location::Location;
use crate::opening::open_store;
use crate::output::Output;
use crate::shown;
use crate::snapshot_retention::{Candidate, SnapshotRetention};
use crate::snapshots::{check_place, choose, name_unreadable};

pub fn by_name(location: &Location, names: &[String], is_dry_run: bool, output: &Output) -> anyhow::Result<()> {
    let repository = open_store(&location.store, access(is_dry_run))?;
    let (mut dropped, mut ids, mut changes) = (Vec::<TreeSnapshot>::new(), Vec::new(), Vec::new());
    for name in names {
        let snapshot = match choose(&repository, name, &location.path) {
            Ok(snapshot) => snapshot,
            // One that is damaged cannot be chosen, and keeps the others from being read.
            Err(error) => {
                changes.push(repository.without_unreadable_snapshot(name)?.ok_or(error)?);
                ids.push(name.clone());
                continue;
            }
        };
        check_place(&snapshot, &location.path)?;
        if !dropped.contains(&snapshot) {
            dropped.push(snapshot);
        }
    }
    if !dropped.is_empty() {
        changes.extend(repository.without_snapshots(&dropped)?);
    }
    if !is_dry_run {
        commit_names(&repository, changes)?;
    }
    repository.close()?;
    ids.extend(dropped.into_iter().map(|snapshot| snapshot.id));
    let verb = if is_dry_run { "would forget" } else { "forgot" };
    output.summary(format_args!("{verb} {}", shown::count(ids.len() as u64, "snapshot")))?;
    output.document(&json!({ "snapshots": ids }))
}

pub fn by_rules(
    location: &Location,
    rules: &SnapshotRetention,
    is_dry_run: bool,
    output: &Output,
) -> anyhow::Result<()> {
    let repository = open_store(&location.store, access(is_dry_run))?;
    let found = repository.snapshots()?;
    name_unreadable(&found, output);
    let (dropped, kept) = divide(found, location, rules);
    if !is_dry_run && !dropped.is_empty() {
        commit_names(&repository, repository.without_snapshots(&dropped)?)?;
    }
    repository.close()?;
    if is_dry_run && !output.is_json() {
        dropped.iter().try_for_each(|snapshot| output.line(snapshots::line(snapshot)))?;
    }
    if dropped.is_empty() && kept.is_empty() {
        output.note(format_args!("{location}: no snapshot is of this place alone; `thalweg snapshots` lists all"));
    }
    let verb = if is_dry_run { "would forget" } else { "forgot" };
    let count = shown::count(dropped.len() as u64, "snapshot");
    output.summary(format_args!("{verb} {count}, kept {}", kept.len()))?;
    let ids =
        |snapshots: &[TreeSnapshot]| -> Vec<String> { snapshots.iter().map(|snapshot| snapshot.id.clone()).collect() };
    output.document(&json!({ "snapshots": ids(&dropped), "kept": ids(&kept) }))
}

/// Returns the snapshots of the place that go, and those that stay: the rules are about each tree by itself.
fn divide(
    found: SnapshotDirectory,
    location: &Location,
    rules: &SnapshotRetention,
) -> (Vec<TreeSnapshot>, Vec<TreeSnapshot>) {
    let mut trees = BTreeMap::<_, Vec<TreeSnapshot>>::new();
    for snapshot in found.readable {
        // Not those of a tree of which the place is only a part.
        if snapshot.facts.sources.iter().all(|(_, target)| target.is_within(&location.path)) {
            let tree = (snapshot.facts.host.clone(), snapshot.facts.sources.clone());
            trees.entry(tree).or_default().push(snapshot);
        }
    }
    let now_ns = now_ns();
    let (mut dropped, mut kept) = (Vec::new(), Vec::new());
    for snapshots in trees.into_values() {
        let stays = rules.kept(&snapshots.iter().map(candidate).collect::<Vec<_>>(), now_ns);
        for (snapshot, stays) in snapshots.into_iter().zip(stays) {
            if stays { &mut kept } else { &mut dropped }.push(snapshot);
        }
    }
    (dropped, kept)
}

fn candidate(snapshot: &TreeSnapshot) -> Candidate<'_> {
    Candidate { taken: snapshot.taken, is_complete: snapshot.facts.missing == 0, tags: &snapshot.facts.tags }
}
