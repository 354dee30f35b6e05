//! `thalweg find`: names of a store that have what is asked for.

use std::ffi::OsString;

use catalog::FileEntry;
use clap::ValueEnum;
use format::{FileKind, StorePath};
use glob::Pattern;
use repository::Access;
use serde_json::Value;

use crate::byte_size;
use crate::failure::misuse;
use crate::location::Location;
use crate::moment::CutoffTime;
use crate::opening::open_store;
use crate::output::{Array, Output};
use crate::recipes::dropped_content;
use crate::shown;
use crate::tree_view::ViewArguments;

/// Find names below a directory
#[derive(clap::Args)]
#[command(after_help = "All conditions that are given must hold. Names are printed as `get` takes them, but for \
                        characters that a terminal does not show: they are written \\xNN, and -0 prints them as they are.\n\n\
                        Example: thalweg find /scratch/st::run1 --name '*.h5' --min-size 10M\n\
                        Example: thalweg find -0 /scratch/st::run1 --name '*.log' | xargs -0 thalweg rm")]
pub struct Arguments {
    /// A directory or file, STORE::PATH
    #[arg(value_name = "STORE::PATH")]
    location: OsString,
    /// Names that match, without their directories: `*.h5`, `ions.000?`
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    name: Option<Pattern>,
    /// Only this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<Kind>,
    /// Files of at least this size: bytes, or 512K, 10M, 1.5G (KiB, MiB, GiB)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    min_size: Option<u64>,
    /// Files whose newest version was committed since: 2026-11-21, or 12h for the last 12 hours
    #[arg(long, value_name = "TIME")]
    since: Option<CutoffTime>,
    /// Files whose data was dropped
    #[arg(long)]
    dropped: bool,
    /// Names as they are, with a zero byte behind each instead of a line's end, for `xargs -0`
    #[arg(short = '0', long)]
    print0: bool,
    #[command(flatten)]
    view: ViewArguments,
}

/// The root alone has an empty name.
fn pattern(written: &str) -> Result<Pattern, String> {
    if written.is_empty() {
        return Err("the pattern is empty".into());
    }
    Pattern::new(written).map_err(|error| error.to_string())
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    File,
    Directory,
    Symlink,
}

impl From<Kind> for FileKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::File => FileKind::Regular,
            Kind::Directory => FileKind::Directory,
            Kind::Symlink => FileKind::Symlink,
        }
    }
}

fn size(text: &str) -> Result<u64, String> {
    byte_size::parse(text).ok_or_else(|| format!("{text:?} is no size: write bytes, or 512K, 10M, 1.5G"))
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    let location = Location::parse(&arguments.location)?;
    if arguments.print0 && output.is_json() {
        misuse!("--json and --print0 are two forms of the same names; give one");
    }
    let repository = open_store(&location.store, Access::Read)?;
    let mut array = output.array();
    let view = arguments.view.open(&repository, &location.path)?;
    let entry = view.expect(&location)?;
    let mut take = |path: &StorePath, entry: &FileEntry| match arguments.holds(path, entry) {
        true => arguments.print(Location { path: path.clone(), ..location.clone() }, entry, &mut array, output),
        false => Ok(()),
    };
    take(&location.path, &entry)?;
    if entry.attributes.kind == FileKind::Directory {
        view.list(&location.path, true, |entries| entries.iter().try_for_each(|(path, entry)| take(path, entry)))?;
    }
    array.finish()?;
    repository.close()?;
    Ok(())
}

impl Arguments {
    fn holds(&self, path: &StorePath, entry: &FileEntry) -> bool {
        let name = String::from_utf8_lossy(path.name());
        let head = entry.head.as_ref();
        self.name.as_ref().is_none_or(|pattern| pattern.matches(&name))
            && self.kind.is_none_or(|kind| entry.attributes.kind == kind.into())
            && (!self.dropped || dropped_content(entry).is_some())
            && self.min_size.is_none_or(|least| head.is_some_and(|head| head.record.size >= least))
            && self.since.is_none_or(|since| head.is_some_and(|head| since.is_before(head.committed_ns)))
    }

    fn print(&self, found: Location, entry: &FileEntry, array: &mut Array<'_>, output: &Output) -> anyhow::Result<()> {
        if output.is_json() {
            return array.push(&Value::Object(shown::entry_fields(&found.path, entry)));
        }
        match self.print0 {
            true => output.content(&[&found.to_bytes(), &b"\0"[..]].concat()),
            false => output.line(found),
        }
    }
}
