//! `thalweg sessions`: what is being written now, and what interrupted jobs left behind.

use std::ffi::OsString;

use repository::Access;
use serde_json::Value;

use super::checkpointed;
use crate::location::store_of_argument;
use crate::opening::open_store;
use crate::output::Output;
use crate::shown;

/// List live and interrupted sessions
#[derive(clap::Args)]
#[command(after_help = "`thalweg recover` makes a version of what an interrupted session had checkpointed.\n\n\
                        Example: thalweg sessions /scratch/st")]
pub struct Arguments {
    /// The store (default: $THALWEG_STORE)
    store: Option<OsString>,
}

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let store = store_of_argument(arguments.store.as_deref())?;
    let repository = open_store(&store, Access::Read)?;
    let mut array = output.array();
    let mut none = true;
    for session in repository.catalog().path_sessions()? {
        let (size, checkpoints) = checkpointed(repository.catalog(), &session)?;
        array.push(&Value::Object(shown::session_fields(&session, size, checkpoints)))?;
        output.line(format_args!(
            "{} {:<11} {} {size:>14} {}",
            session.id,
            shown::state(&session),
            shown::time(session.opened_ns),
            shown::path(&session.path)
        ))?;
        none = false;
    }
    if none {
        output.summary("no sessions")?;
    }
    array.finish()?;
    repository.close()?;
    Ok(())
}
