//! Recipes as commands: [`record`] runs one and keeps what it needs to be run again; [`compute`] runs those that make dropped
//! data again, and checks what they make. [`run_on_copies`] and [`store_run`] are the two halves of a record whose inputs are
//! on this machine already. What stores keep of recipes is in `repository/recipe`.
//!
//! A command runs in a fresh directory, where its inputs stand and its outputs are to be, with the environment that is kept
//! and no other, so that what is not kept is not used either.

mod check;
mod compute;
mod confinement;
mod copies;
mod environment;
mod error;
mod files;
mod process;
mod programs;
mod record;
mod schedule;
mod scratch;
mod statistics;
mod working_directory;

pub use check::Agreement;
pub use compute::{ComputeOptions, Computed, ComputedFile, compute, restore};
pub use copies::{UnstoredRun, run_on_copies, store_run};
pub use error::{Error, Result};
pub use process::{RunOptions, STANDARD_ERROR, STANDARD_OUTPUT};
pub use programs::obstacle;
pub use record::{FilePlace, RecordRequest, Recorded, ToleranceRequest, record};

/// Ends all commands of this process and removes their directories: for a process that ends at once.
pub fn abandon_all() {
    process::end_all();
    scratch::remove_all();
}
