//! The pages of a server at its metrics address: `/metrics` for Prometheus, `/health`, and a live page at `/`.
//!
//! The node and the gate use it. Each says what it counts; here is how that is written (`exposition.rs`, `view.rs`), what
//! it was over the last minutes (`history.rs`), and the web server (`server.rs`), which must never matter to the data.

mod exposition;
mod history;
mod process;
mod server;
mod view;

pub use exposition::Exposition;
pub use history::{History, Rates};
pub use process::Process;
pub use server::{Monitored, Page, serve, spawn};
pub use view::{Cell, Health, Kind, Plot, Table, View};
