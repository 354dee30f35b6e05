//! `thalweg forget`: drops old versions and snapshots by rules. The space comes back with `thalweg collect`.

mod snapshots;

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;

use catalog::FileEntry;
use format::{Change, FileId, FileKind, StorePath};
use repository::{Access, Repository};
use serde_json::{Value, json};

use super::{commit_names, list};
use crate::clock::now_ns;
use crate::error_code::fail;
use crate::failure::misuse;
use crate::location::Location;
use crate::opening::open_store;
use crate::output::Output;
use crate::retention::Retention;
use crate::shown;
use crate::snapshot_retention::SnapshotRetention;

/// Drop old versions of a file or of all files below a directory, or snapshots
#[derive(clap::Args)]
#[command(after_help = "A version stays if any of the rules keeps it; the newest always stays. \
                        Content that a snapshot holds stays with it. Units are s, m, h, d, w and y.\n\n\
                        Example: thalweg forget /scratch/st::run1 --keep last=3,within=30d\n\
                        Example: thalweg forget /scratch/st::run1 --snapshot 1f2e3d4c\n\
                        Example: thalweg forget /scratch/st:: -n --keep-snapshots daily=7,weekly=5,monthly=12,tag=published")]
pub struct Arguments {
    /// A file or directory, STORE::PATH
    #[arg(required = true, value_name = "STORE::PATH")]
    location: OsString,
    /// last=N, within=SPAN, or both with a comma between
    #[arg(long, value_name = "RULES")]
    keep: Option<Retention>,
    /// This version of one file, which must not be the newest (repeatable)
    #[arg(long, value_name = "N", conflicts_with = "keep", value_parser = clap::value_parser!(u64).range(1..))]
    version: Vec<u64>,
    /// This snapshot of the place, by the beginning of its name (repeatable); no file and no version goes, but for those that
    /// had left the place and were kept for snapshots
    #[arg(long, value_name = "ID", conflicts_with_all = ["keep", "version"])]
    snapshot: Vec<String>,
    /// All snapshots of the place but those that a rule keeps: last=N, the newest of each of the last N hours, days … that have
    /// any with hourly=N, daily=N, weekly=N, monthly=N, yearly=N, within=SPAN, tag=NAME, several with commas between; of each
    /// tree the newest stays, and the newest that is complete
    #[arg(long, value_name = "RULES", conflicts_with_all = ["keep", "version", "snapshot"])]
    keep_snapshots: Option<SnapshotRetention>,
    /// Only say what would go
    #[arg(long, short = 'n')]
    dry_run: bool,
}

/// Changes committed at once.
const BATCH: usize = 4096;

fn access(is_dry_run: bool) -> Access {
    if is_dry_run { Access::Read } else { Access::Remove }
}

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let location = Location::parse(&arguments.location)?;
    match &arguments.keep_snapshots {
        Some(rules) => return snapshots::by_rules(&location, rules, arguments.dry_run, output),
        None if !arguments.snapshot.is_empty() => {
            return snapshots::by_name(&location, &arguments.snapshot, arguments.dry_run, output);
        }
        None => {}
    }
    if arguments.keep.is_none() && arguments.version.is_empty() {
        misuse!(
            "{location}: say what to keep, as in --keep last=3,within=30d or --keep-snapshots daily=7, or drop single ones \
             with --version N or --snapshot ID"
        );
    }
    let repository = open_store(&location.store, access(arguments.dry_run))?;
    let Some(entry) = repository.catalog().entry(&location.path)? else {
        fail!(NoSuchPath: "{location}: no such file or directory in the store");
    };
    let mut forgetting = Forgetting {
        repository: &repository,
        is_dry_run: arguments.dry_run,
        seen: HashSet::new(),
        forgotten: Vec::new(),
        versions: 0,
    };
    match &arguments.keep {
        _ if !arguments.version.is_empty() => forgetting.these(&location, &entry, &arguments.version)?,
        Some(keep) => forgetting.run(&location.path, &entry, keep)?,
        None => {}
    }
    let Forgetting { forgotten, versions, .. } = forgetting;
    repository.close()?;
    output.summary(format_args!(
        "{} {} of {}",
        if arguments.dry_run { "would forget" } else { "forgot" },
        shown::count(versions, "version"),
        shown::count(forgotten.len() as u64, "file")
    ))?;
    output.document(&json!({ "versions": versions, "files": forgotten }))
}

/// Returns the path whose change the catalog refuses, because something else is there than was listed, or nothing.
fn refused_path(error: &anyhow::Error) -> Option<&StorePath> {
    match error.downcast_ref()? {
        repository::Error::Catalog(catalog::Error::NotFound { path } | catalog::Error::Refused { path, .. }) => {
            Some(path)
        }
        _ => None,
    }
}

/// Checks that the named versions are those of the file that is there now.
fn check_versions(
    repository: &Repository,
    location: &Location,
    entry: &FileEntry,
    versions: &[u64],
) -> anyhow::Result<()> {
    let Some(head) = &entry.head else { fail!(WrongKind: "{location}: --version is for regular files") };
    let known = repository.catalog().versions(&location.path)?;
    for number in versions {
        if *number == head.number {
            fail!(NewestVersionStays: "{location}: version {number} is the newest, which stays; `thalweg rm` removes the file");
        }
        if !known.iter().any(|version| version.number == *number) {
            fail!(NoSuchVersion: "{location}: there is no version {number}; `thalweg stat` lists them");
        }
    }
    Ok(())
}

struct Forgetting<'a> {
    repository: &'a Repository,
    is_dry_run: bool,
    /// A file with several names is checked once.
    seen: HashSet<FileId>,
    forgotten: Vec<Value>,
    versions: u64,
}

impl Forgetting<'_> {
    fn run(&mut self, path: &StorePath, entry: &FileEntry, keep: &Retention) -> anyhow::Result<()> {
        if entry.attributes.kind != FileKind::Directory {
            return self.forget(vec![(path.clone(), entry.clone())], keep);
        }
        let catalog = self.repository.catalog();
        match list(catalog, path, true, |entries| self.forget(entries, keep)) {
            // Removed meanwhile: nothing in it is left to forget.
            Err(error) if refused_path(&error) == Some(path) && catalog.entry(path)?.is_none() => Ok(()),
            listed => listed,
        }
    }

    fn these(&mut self, location: &Location, entry: &FileEntry, versions: &[u64]) -> anyhow::Result<()> {
        check_versions(self.repository, location, entry, versions)?;
        let versions: BTreeSet<u64> = versions.iter().copied().collect();
        self.commit(vec![(location.path.clone(), entry.file, versions.into_iter().collect())])
    }

    fn forget(&mut self, entries: Vec<(StorePath, FileEntry)>, keep: &Retention) -> anyhow::Result<()> {
        let now_ns = now_ns();
        let mut changes = Vec::new();
        for (path, entry) in entries.into_iter().filter(|(_, entry)| entry.head.is_some()) {
            if !self.seen.insert(entry.file) {
                continue;
            }
            let versions = match self.repository.catalog().versions(&path) {
                // Removed since it was listed.
                Err(catalog::Error::NotFound { .. }) => continue,
                other => other?,
            };
            // The path may lead to another file by now, whose versions have the same numbers.
            if !versions.iter().any(|version| entry.head.as_ref() == Some(version)) {
                continue;
            }
            let dropped = keep.dropped(&versions, now_ns);
            if !dropped.is_empty() {
                changes.push((path, entry.file, dropped));
            }
        }
        changes.chunks(BATCH).try_for_each(|changes| self.commit(changes.to_vec()))
    }

    /// Commits without the files that were removed, or written under their names again, since they were listed.
    fn commit(&mut self, mut forgotten: Vec<(StorePath, FileId, Vec<u64>)>) -> anyhow::Result<()> {
        while !forgotten.is_empty() {
            let changes = forgotten.iter().cloned();
            let changes = changes.map(|(path, file, versions)| Change::Forget { path, file, versions });
            let done = if self.is_dry_run { Ok(()) } else { commit_names(self.repository, changes.collect()) };
            let Err(error) = done else {
                forgotten.iter().for_each(|(path, _, versions)| self.note(path, versions));
                return Ok(());
            };
            let before = forgotten.len();
            if let Some(gone) = refused_path(&error) {
                forgotten.retain(|(path, ..)| path != gone);
            }
            if forgotten.len() == before {
                return Err(error);
            }
        }
        Ok(())
    }

    fn note(&mut self, path: &StorePath, dropped: &[u64]) {
        let mut fields = shown::path_fields(path.as_bytes());
        fields.insert("forgotten".into(), json!(dropped));
        self.forgotten.push(Value::Object(fields));
        self.versions += dropped.len() as u64;
    }
}
