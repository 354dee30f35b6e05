//! `thalweg cat`: files of a store on standard output.

use std::ffi::OsString;

use anyhow::{Context, bail};
use repository::{Access, Repository};

use crate::failure::misuse;
use crate::get::{Range, print};
use crate::opening::open_store;
use crate::output::Output;
use crate::place::Place;

/// Print files, one after the other
#[derive(clap::Args)]
#[command(after_help = "Example: thalweg cat /scratch/st::run1/log | less")]
pub struct Arguments {
    /// The files, each STORE::PATH
    #[arg(required = true, value_name = "STORE::PATH")]
    places: Vec<OsString>,
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        misuse!("cat prints the files themselves; --json has no meaning here");
    }
    let places = Place::parse_all(&arguments.places)?;
    let repository = open_store(&places[0].store, Access::Read)?;
    let done = places.iter().try_for_each(|place| print_one(&repository, place, output));
    repository.close()?;
    done
}

fn print_one(repository: &Repository, place: &Place, output: &Output) -> anyhow::Result<()> {
    let entry = repository.catalog().entry(&place.path)?;
    let entry = entry.with_context(|| format!("{place}: no such file or directory in the store"))?;
    let Some(head) = &entry.head else { bail!("{place}: only regular files can be printed") };
    print(repository, &head.record, Range::WHOLE, output).with_context(|| place.to_string())?;
    Ok(())
}
