//! `thalweg run`: a program with the door in front of its MPI-IO, and nodes behind it.

mod application;
mod choices;
pub mod command;
mod environment;
mod hosts;
mod job;
mod leftovers;
mod nodes;
mod secret;
mod side_by_side;
mod welcome;

pub use side_by_side::NoAnswer;
