//! `thalweg cat`: files of a store on standard output.

use std::ffi::OsString;

use anyhow::Context;
use catalog::FileEntry;
use repository::{Access, Repository};

use crate::error_code::fail;
use crate::failure::misuse;
use crate::get::{Range, print};
use crate::location::Location;
use crate::opening::open_store;
use crate::output::Output;
use crate::recipes::{ReadArguments, Reading};
use crate::signals::Interruption;
use crate::tree_view::{TreeView, ViewArguments};

/// Print files, one after the other
#[derive(clap::Args)]
#[command(after_help = "Example: thalweg cat /scratch/st::run1/log | less")]
pub struct Arguments {
    /// The files, each STORE::PATH
    #[arg(required = true, value_name = "STORE::PATH")]
    locations: Vec<OsString>,
    #[command(flatten)]
    view: ViewArguments,
    #[command(flatten)]
    dropped: ReadArguments,
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        misuse!("cat prints the files themselves; --json has no meaning here");
    }
    let locations = Location::parse_all(&arguments.locations)?;
    // Before the store's threads, which must not get the signals.
    let interruption = match arguments.dropped.is_asked_for() {
        true => Interruption::watch().context("starting the thread that waits for signals")?,
        false => Interruption::default(),
    };
    let repository = open_store(&locations[0].store, Access::Read)?;
    let views = locations.iter().map(|location| arguments.view.open(&repository, &location.path));
    let views: Vec<TreeView> = views.collect::<anyhow::Result<_>>()?;
    // One that is missing is an error behind those that can be printed.
    let entries: Vec<_> = views.iter().zip(&locations).map(|(view, location)| view.expect(location)).collect();
    let found =
        views.iter().zip(&locations).zip(&entries).filter_map(|(named, entry)| Some((named, entry.as_ref().ok()?)));
    let reading = found.filter(|(_, entry)| entry.head.is_some()).map(|((view, location), entry)| Reading {
        view,
        entries: vec![(&location.path, entry)],
        is_read: &|_| true,
    });
    let reading: Vec<_> = reading.collect();
    let _computed = arguments.dropped.compute(&repository, &reading, &interruption, output)?;
    drop(reading);
    let mut wanted = locations.iter().zip(entries);
    let done = wanted.try_for_each(|(location, entry)| print_one(&repository, location, &entry?, output));
    repository.close()?;
    done
}

fn print_one(repository: &Repository, location: &Location, entry: &FileEntry, output: &Output) -> anyhow::Result<()> {
    let Some(head) = &entry.head else { fail!(WrongKind: "{location}: only regular files can be printed") };
    print(repository, &head.record, Range::WHOLE, output).with_context(|| location.to_string())?;
    Ok(())
}
