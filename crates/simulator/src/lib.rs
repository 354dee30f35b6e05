//! A cluster on a virtual clock that drives the real policies: whole runs of data diffusion in seconds.
//!
//! Reading order: `testbed` (the constants), `workload` (the tasks), `simulation` (the run), under it `store` and
//! `network` (the sharing of bandwidth), `measures` (the results), `figure` (the plot). The same seed gives the same
//! run. docs/simulation.md says what is modelled and what is not.

mod agenda;
mod figure;
mod measures;
mod network;
mod nodes;
mod random;
mod simulation;
mod store;
mod testbed;
mod workload;

pub use self::random::Random;
pub use figure::figure;
pub use measures::{Moment, Report};
pub use simulation::{Settings, simulate};
pub use testbed::{CACHE_GB, Provisioning, Testbed};
pub use workload::{
    MAX_SECONDS, STACKING, TraceError, Workload, WorkloadTask, all_pairs, monotonic, profile, sine, stacking, trace,
};
