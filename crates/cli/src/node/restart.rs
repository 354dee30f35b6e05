//! A node that can no longer rely on its store begins anew, in the same process: it has lost its lease, or a write or a sync
//! has failed.
//!
//! It runs its own program again (`execve`), with the address it has: whatever it held in memory is gone, as after a
//! crash, and clients do what they do then: they connect again, and send again what was not durable. What they must
//! not go on with (a session that a collection ended) they are refused. The process's number stays, so that
//! its supervisor sees nothing of it.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::{Node, log};

const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Between the failure and the new beginning: clients are sent why their files failed, and a store that keeps failing is
/// not opened without pause.
const FAREWELL: Duration = Duration::from_secs(1);
/// Added to the arguments of a node that begins anew.
const FLAG: &str = "--begin-anew";

/// Looks after the node until it stops.
pub(super) fn watch(node: &Arc<Node>, address: SocketAddr) {
    while !node.is_stopping() {
        std::thread::sleep(CHECK_INTERVAL);
        let Some(why) = node.repository.must_be_opened_anew() else { continue };
        tracing::error!(peer = %address, "the node begins anew, and clients send again what was not durable: {why}");
        node.report_failures();
        std::thread::sleep(FAREWELL);
        log::flush();
        if !node.is_stopping() {
            let error = begin_anew(address);
            tracing::error!(peer = %address, "could not begin anew, and ends: {error}");
            log::flush();
            std::process::abort();
        }
    }
}

/// Returns only when it fails.
fn begin_anew(address: SocketAddr) -> std::io::Error {
    // The file may have been replaced by a newer one meanwhile; then the link still leads to the old one.
    let program = std::env::current_exe().ok().filter(|program| program.exists());
    let program = program.unwrap_or_else(|| "/proc/self/exe".into());
    let mut given = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = given.next() {
        command.arg0(name);
    }
    command.args(arguments(given, &address.to_string())).exec()
}

/// Those the node was started with, but for the address.
fn arguments(given: impl Iterator<Item = OsString>, address: &str) -> Vec<OsString> {
    let mut given = given.filter(|argument| argument != FLAG);
    let mut kept = Vec::new();
    while let Some(argument) = given.next() {
        if argument == "--listen" {
            given.next();
        } else if !argument.as_encoded_bytes().starts_with(b"--listen=") {
            kept.push(argument);
        }
    }
    kept.extend(["--listen".into(), address.into(), FLAG.into()]);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_begins_anew_with_its_arguments_and_the_address_it_has() {
        for listen in [vec!["--listen", "host:0"], vec!["--listen=host:0"], vec![], vec!["--begin-anew"]] {
            let given = ["--json", "node"].into_iter().chain(listen).chain(["/st", "--share", "a=1"]);
            let found = arguments(given.map(OsString::from), "1.2.3.4:5");
            let wanted = ["--json", "node", "/st", "--share", "a=1", "--listen", "1.2.3.4:5", "--begin-anew"];
            assert_eq!(found, wanted.map(OsString::from));
        }
    }
}
