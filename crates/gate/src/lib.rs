//! The gate: transparent fair proxies before unmodified data servers, after vPFS (Xu et al., PDSW 2010).
//!
//! One process, one thread: a current-thread runtime with a `LocalSet`, so that nothing here is locked. Begin with
//! `config.rs` (the administrator's file), `applications.rs` (who shares), `upstream_scheduler.rs` (whose request is
//! next), then a protocol: `s3`, `rpc`.

mod acknowledgements;
mod applications;
mod client_connections;
mod clock;
mod config;
mod error;
pub mod exchange;
mod flows;
mod gate;
mod listener;
mod metrics;
mod open_files;
mod outstanding;
mod reachability;
mod regular_file;
mod reload;
pub mod rpc;
pub mod s3;
mod socket;
mod tls;
mod upstream_scheduler;
mod wire;

use std::net::SocketAddr;
use std::path::Path;

use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};

pub use config::Config;
pub use error::{Error, Result};
pub use open_files::raise_limit as raise_open_file_limit;

/// Reads and checks a configuration, with the certificates it names.
pub fn check(path: &Path) -> Result<Config> {
    let config = Config::load(path)?;
    config.listens.iter().try_for_each(|listen| tls::TlsEnds::load(listen).map(drop))?;
    Ok(config)
}

/// Serves as the file says until `stop` is ready. Calls `ready` with the addresses that the gate listens at, in the
/// order of the file. The file is read again on SIGHUP and when it changes.
pub fn run(path: &Path, ready: impl FnOnce(&[SocketAddr]), stop: impl Future<Output = ()> + 'static) -> Result<()> {
    let failed = |error| Error::System { what: "starting the runtime", error };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    LocalSet::new().block_on(&runtime, async {
        let seen = reload::state_of(path);
        let gate = gate::Gate::open(&check(path)?)?;
        ready(&gate.addresses());
        let path = path.to_owned();
        spawn_local(async move { reload::watch(&path, seen, &gate).await });
        // In a task of its own: code here is polled again whenever any task has run.
        spawn_local(stop).await.expect("waiting for the end does not panic");
        Ok(())
    })
}

/// Ready when the process receives SIGTERM or SIGINT.
pub async fn termination_requested() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
