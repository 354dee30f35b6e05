//! A cluster on a virtual clock that drives the real policies: whole runs of data diffusion in seconds.
//!
//! Reading order: `testbed` (the constants), `workload` (what is to be done), `simulation` (what happens), under it
//! `store` and `network` (who gets how much bandwidth), `measures` (what came out), `figure` (how it went). The same
//! seed gives the same run. docs/simulation.md tells what is modelled and what is not.

mod agenda;
mod figure;
mod measures;
mod network;
mod nodes;
mod random;
mod simulation;
mod store;
mod svg;
mod testbed;
mod workload;

pub use figure::figure;
pub use measures::{Moment, Report};
pub use random::Random;
pub use simulation::{Settings, simulate};
pub use testbed::{CACHE_GB, Provisioning, Testbed};
pub use workload::{
    MAX_SECONDS, STACKING, TraceError, Workload, WorkloadTask, all_pairs, monotonic, profile, sine, stacking, trace,
};
