//! `thalweg snapshots`: the trees that puts recorded.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroUsize;

use format::StorePath;
use repository::{Access, TreeSnapshot};
use serde_json::{Map, Value, json};

use crate::failure::Incomplete;
use crate::opening::open_store;
use crate::output::Output;
use crate::shown;
use crate::snapshots::{concerns, name_unreadable, place_of};

/// List the snapshots of a store, or of a place in it
#[derive(clap::Args)]
#[command(
    after_help = "Each put of a directory records one. `get --snapshot ID` fetches it, `ls --snapshot ID` lists it, and \
                        `forget --snapshot ID` drops it.\n\n\
                        Example: thalweg snapshots /scratch/st::run1 --tag nightly"
)]
pub struct Arguments {
    /// The store, or a place in it, STORE::PATH (default: $THALWEG_STORE)
    #[arg(value_name = "STORE[::PATH]")]
    place: Option<OsString>,
    /// Only those with this tag (repeatable: with any of them)
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Of each tree only the newest so many
    #[arg(long, value_name = "N")]
    latest: Option<NonZeroUsize>,
    /// Only those of this machine
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    let (store, path) = place_of(arguments.place.as_deref())?;
    let repository = open_store(&store, Access::Read)?;
    let mut array = output.array();
    let mut count = 0;
    let found = repository.snapshots()?;
    let mut listed: Vec<&TreeSnapshot> =
        found.readable.iter().filter(|snapshot| is_listed(snapshot, arguments, &path)).collect();
    if let Some(count) = arguments.latest {
        listed = newest_of_each_tree(listed, count.get());
    }
    for snapshot in listed {
        array.push(&Value::Object(fields(snapshot)))?;
        output.line(line(snapshot))?;
        count += 1;
    }
    if count == 0 {
        output.summary("no snapshots")?;
    }
    array.finish()?;
    repository.close()?;
    name_unreadable(&found, output);
    match found.unreadable.len() as u64 {
        0 => Ok(()),
        count => Err(Incomplete(format!("{} cannot be read", shown::count(count, "snapshot"))).into()),
    }
}

fn is_listed(snapshot: &TreeSnapshot, arguments: &Arguments, path: &StorePath) -> bool {
    let facts = &snapshot.facts;
    concerns(snapshot, path)
        && arguments.host.as_ref().is_none_or(|host| *host == facts.host)
        && (arguments.tag.is_empty() || arguments.tag.iter().any(|tag| facts.tags.contains(tag)))
}

/// Keeps the order.
fn newest_of_each_tree(snapshots: Vec<&TreeSnapshot>, count: usize) -> Vec<&TreeSnapshot> {
    let mut counts = BTreeMap::<_, usize>::new();
    let mut newest: Vec<&TreeSnapshot> = snapshots.into_iter().rev().collect();
    newest.retain(|snapshot| {
        let of_tree = counts.entry((&snapshot.facts.host, &snapshot.facts.sources)).or_default();
        *of_tree += 1;
        *of_tree <= count
    });
    newest.reverse();
    newest
}

pub fn line(snapshot: &TreeSnapshot) -> String {
    let facts = &snapshot.facts;
    let (time, size) = (shown::file_time(snapshot.taken), shown::size(facts.content_bytes));
    let mut line =
        format!("{} {time} {} {:>9} names {size:>10}", snapshot.id, shown::escaped(facts.host.as_bytes()), facts.names);
    for (from, target) in &facts.sources {
        line += &format!(" {} -> ::{}", shown::escaped(from), shown::path(target));
    }
    if !facts.tags.is_empty() {
        line += &format!(" [{}]", shown::escaped(facts.tags.join(", ").as_bytes()));
    }
    if facts.missing > 0 {
        line += &format!(" (incomplete: {} could not be read)", shown::count(facts.missing, "name"));
    }
    line
}

pub fn fields(snapshot: &TreeSnapshot) -> Map<String, Value> {
    let facts = &snapshot.facts;
    let source = |(from, target): &(Vec<u8>, StorePath)| {
        let mut fields = shown::path_fields(target.as_bytes());
        fields.insert("source".into(), shown::path_fields(from).into());
        Value::Object(fields)
    };
    let fields = json!({
        "id": snapshot.id,
        "time": shown::exact_time(snapshot.taken),
        "host": facts.host,
        "sources": facts.sources.iter().map(source).collect::<Vec<_>>(),
        "tags": facts.tags,
        "names": facts.names,
        "bytes": facts.content_bytes,
        "missing": facts.missing,
    });
    match fields {
        Value::Object(fields) => fields,
        _ => unreachable!("it was written as an object"),
    }
}
