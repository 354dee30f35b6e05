//! `thalweg tag`: words to find snapshots by.

use std::collections::BTreeSet;
use std::ffi::OsString;

use format::MAX_TAGS;
use repository::Access;
use serde_json::{Value, json};

use super::commit_names;
use crate::error_code::fail;
use crate::failure::misuse;
use crate::opening::open_store;
use crate::output::Output;
use crate::shown;
use crate::snapshots::{check_place, choose, place_of, tag};

/// Add tags to snapshots, or take them away
#[derive(clap::Args)]
#[command(
    after_help = "`thalweg snapshots --tag TAG` lists those with a tag, and `forget --keep-snapshots tag=TAG` keeps them.\n\n\
                        Example: thalweg tag /scratch/st::run1 --snapshot 1f2e3d4c --add published"
)]
pub struct Arguments {
    /// The store, or a place in it, STORE::PATH (default: $THALWEG_STORE)
    #[arg(value_name = "STORE[::PATH]")]
    place: Option<OsString>,
    /// This snapshot of the place, by the beginning of its name; `latest`: the newest (repeatable)
    #[arg(long, value_name = "ID", required = true)]
    snapshot: Vec<String>,
    /// Add this tag (repeatable)
    #[arg(long, value_name = "TAG", value_parser = tag)]
    add: Vec<String>,
    /// Take this tag away (repeatable)
    #[arg(long, value_name = "TAG")]
    remove: Vec<String>,
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    if arguments.add.is_empty() && arguments.remove.is_empty() {
        misuse!("say which tag: --add TAG, --remove TAG, or both");
    }
    let (store, path) = place_of(arguments.place.as_deref())?;
    let repository = open_store(&store, Access::Write)?;
    let (mut tagged, mut changes) = (Vec::new(), Vec::new());
    for id in &arguments.snapshot {
        let snapshot = choose(&repository, id, &path)?;
        check_place(&snapshot, &path)?;
        let has = |tag: &&String| snapshot.facts.tags.contains(*tag);
        for absent in arguments.remove.iter().filter(|tag| !has(tag)) {
            output.note(format_args!("snapshot {} has no tag {absent}", snapshot.id));
        }
        let old = snapshot.facts.tags.iter().filter(|tag| !arguments.remove.contains(tag));
        let tags: BTreeSet<String> = old.chain(&arguments.add).cloned().collect();
        if tags.len() > MAX_TAGS {
            fail!(TooManyTags: "snapshot {} would have {} tags; {MAX_TAGS} is the most; nothing was tagged",
                snapshot.id,
                tags.len()
            );
        }
        changes.push(snapshot.with_tags(tags.into_iter().collect()));
        tagged.push(Value::from(snapshot.id));
    }
    commit_names(&repository, changes)?;
    repository.close()?;
    output.summary(format_args!("tagged {}", shown::count(tagged.len() as u64, "snapshot")))?;
    output.document(&json!({ "snapshots": tagged }))
}
