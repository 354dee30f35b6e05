//! A node that can no longer rely on its store restarts in the same process: it has lost its lease, or a write or a sync
//! has failed.
//!
//! It runs its own program again (`execve`), with the listening socket it has: its memory is gone, as after a crash, and
//! clients do as they do then: they connect again, and send again what was not durable. Requests of a session that a
//! collection ended are refused. The process's number stays, so that its supervisor sees nothing of it.
//!
//! From the decision on nothing is accepted, neither connections nor requests, and no failure of the lost lease is
//! answered: clients that connect wait in the listening socket for the new image.
//!
//! A node that is asked to stop meanwhile stops: the signal stays pending, also for the new image (`signals.rs`).
//!
//! A node whose catalog or containers were removed or replaced under it ends instead: only the one who did that can say
//! what is to count.

use std::ffi::OsString;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use transfer::Server;

use super::Node;
use crate::log;

const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Between a failure of the store and the new beginning: clients are sent why their files failed, and a store that keeps
/// failing is not opened without pause.
const GOODBYE: Duration = Duration::from_secs(1);
/// Added to the arguments of a node that restarts, with the number of its listening socket.
const FLAG: &str = "--begin-anew";

/// Looks after the node until it stops.
pub(super) fn watch(node: &Arc<Node>, server: &Server) {
    let address = server.local_address();
    while !node.is_stopping() {
        std::thread::sleep(CHECK_INTERVAL);
        if let Some(why) = node.repository.displaced() {
            end(node, server, &why);
        }
        let Some(why) = node.repository.reopen_reason().filter(|_| !node.is_asked_to_stop()) else { continue };
        tracing::error!(peer = %address, "the node restarts, and clients send again what was not durable: {why}");
        // The near store has all that clients wrote: theirs has not failed.
        let is_upstreams = node.repository.upstream().is_some_and(|upstream| upstream.reopen_reason().is_some());
        if node.repository.lease().is_lost() || is_upstreams {
            server.cut_off();
        } else {
            server.suspend();
            node.report_failures();
            std::thread::sleep(GOODBYE);
            server.cut_off();
        }
        log::flush();
        if !node.is_asked_to_stop() {
            let error = restart(server.listener());
            tracing::error!(peer = %address, "could not restart, and ends: {error}");
            log::flush();
            std::process::abort();
        }
    }
}

/// Ends the process with an error that names what happened to its store.
fn end(node: &Arc<Node>, server: &Server, why: &str) -> ! {
    tracing::error!(peer = %server.local_address(), "the node ends: its store is not as it opened it: {why}");
    server.suspend();
    node.report_failures();
    std::thread::sleep(GOODBYE);
    server.cut_off();
    log::flush();
    // Without a farewell to the catalog: its files may be another's by now.
    std::process::exit(1)
}

/// Returns only when it fails.
fn restart(listener: &TcpListener) -> std::io::Error {
    // The file may have been replaced by a newer one meanwhile; then the link still leads to the old one.
    let program = std::env::current_exe().ok().filter(|program| program.exists());
    let program = program.unwrap_or_else(|| "/proc/self/exe".into());
    let mut given = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = given.next() {
        command.arg0(name);
    }
    if let Err(error) = fcntl_setfd(listener, FdFlags::empty()) {
        return error.into();
    }
    command.args(arguments(given, listener.as_raw_fd())).exec()
}

/// Returns the socket that the image before this one listened on.
///
/// # Errors
/// The number is no listening socket of this process: only a node that restarts gives it.
pub(super) fn inherited(listener: RawFd) -> std::io::Result<TcpListener> {
    rustix::net::sockopt::socket_acceptconn(unsafe { std::os::fd::BorrowedFd::borrow_raw(listener) })?;
    // SAFETY: the image before this one left it open for this use alone.
    let listener = TcpListener::from(unsafe { OwnedFd::from_raw_fd(listener) });
    fcntl_setfd(&listener, FdFlags::CLOEXEC)?;
    Ok(listener)
}

/// Those the node was started with, and its listening socket.
fn arguments(given: impl Iterator<Item = OsString>, listener: RawFd) -> Vec<OsString> {
    let is_flag = |argument: &OsString| argument.as_encoded_bytes().starts_with(FLAG.as_bytes());
    given.filter(|argument| !is_flag(argument)).chain([format!("{FLAG}={listener}").into()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_restarts_with_its_arguments_and_its_listening_socket() {
        for flag in [None, Some("--begin-anew=5")] {
            let given = ["--json", "node"].into_iter().chain(flag).chain(["--listen=host:0", "/st", "--share", "a=1"]);
            let found = arguments(given.map(OsString::from), 9);
            let wanted = ["--json", "node", "--listen=host:0", "/st", "--share", "a=1", "--begin-anew=9"];
            assert_eq!(found, wanted.map(OsString::from));
        }
    }
}
