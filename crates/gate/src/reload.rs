//! Reading the file again: when SIGHUP comes, and within a second of a change. A wrong file changes nothing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::config::Config;
use crate::gate::Gate;

/// Looking is one stat: it sees changes through renames, links and network file systems alike.
const LOOK: Duration = Duration::from_secs(1);

/// Never ends. `seen` is the file's state before the gate read it.
pub(crate) async fn watch(path: &Path, mut seen: Option<FileState>, gate: &Rc<Gate>) {
    let mut hangups = signal(SignalKind::hangup()).ok();
    loop {
        let is_signalled = tokio::select! {
            is_signalled = hangup(&mut hangups) => is_signalled,
            () = tokio::time::sleep(LOOK) => false,
        };
        let found = state_of(path);
        // A file that is just being replaced is missing for a moment.
        if is_signalled || (found.is_some() && found != seen) {
            seen = found;
            reload(path, gate);
        }
    }
}

async fn hangup(hangups: &mut Option<tokio::signal::unix::Signal>) -> bool {
    match hangups {
        Some(hangups) => hangups.recv().await.is_some(),
        None => std::future::pending().await,
    }
}

/// Device, inode, size and time, by which two versions of a file differ.
pub(crate) type FileState = (u64, u64, u64, i64, i64);

pub(crate) fn state_of(path: &Path) -> Option<FileState> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

fn reload(path: &Path, gate: &Rc<Gate>) {
    match Config::load(path).and_then(|config| gate.apply(&config)) {
        Ok(()) => tracing::info!("{}: read again", path.display()),
        Err(error) => tracing::error!("the configuration stays as it was: {error} [{}]", error.code()),
    }
}
