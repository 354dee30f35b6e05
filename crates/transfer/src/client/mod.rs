//! The process-level client of path sessions: what an MPI rank links, through `thalweg.h`.
//!
//! Bytes are copied once, into frames that are kept until they are durable; at most two threads per process send
//! them, and send them again after a break. Nothing written is given up silently: when the timeout for a node has passed, the
//! file fails, and stays failed.
//!
//! From above: [`Client`] → [`File`] → session (where bytes go) → send queue (bytes in order) → stream (what a connection
//! must bring) → stream connection (a stream as its thread drives it) → reactor (the threads), over `NodeConnection` (the
//! socket).

mod background;
mod closing;
mod digest_offers;
mod failed_files;
mod file;
mod frame;
mod names;
mod oneshot;
mod operation;
mod read_ahead_ranges;

mod encoding_mode;
mod pending_frames;
mod piece;
mod process;
mod reactor;
mod read_ahead;
mod read_parts;
mod reduce;
mod reduction;
mod request_ahead;
mod secrets;
mod send_queue;
mod session;
mod session_status;
mod settings;
mod shared_pointer;
mod stream;
mod stream_choice;
mod stream_connection;
mod stripe_streams;
#[cfg(test)]
mod tests;
mod ticket;
mod waker;
mod window;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use format::{ErrorCode, HandleKey};

pub use crate::OpenError;
pub use file::File;
pub use names::{CONFIGURATION_VARIABLE, configuration_file};
pub use operation::Operation;
pub use piece::Piece;
pub use reduce::{Reducer, ZEROS};
pub use reduction::{AdaptiveReducer, PolicySource};
pub use settings::{AUTO, Acknowledge, Reduction, Settings};
pub use shared_pointer::PointerStart;
pub use ticket::{TICKET_BYTES, Ticket};

use crate::message::{Reply, Request};
use crate::random::random_bytes;
use crate::{Error, TlsClient, read_secret};

type Result<T, E = Error> = std::result::Result<T, E>;
use failed_files::{FailedFile, is_loss};
use names::Resolved;
use process::Process;
use send_queue::REACH_TIMEOUT;
use stream::Stream;

/// Open flags, as in `thalweg.h`.
pub const READ: u32 = 1;
pub const WRITE: u32 = 2;
pub const CREATE: u32 = 4;
pub const EXCLUSIVE: u32 = 8;

/// One per process. Threads begin with the first file.
pub struct Client {
    settings: Settings,
    reducer: Option<AdaptiveReducer>,
    process: Mutex<Option<Arc<Process>>>,
    /// When the first call began, whose timeout is partly used up.
    begun: Mutex<Option<Instant>>,
}

impl Client {
    /// Makes a client. Without a `reducer` segments are reduced at the nodes, whatever the settings say; with one its
    /// policy decides.
    pub fn new(settings: Settings, reducer: Option<AdaptiveReducer>) -> Self {
        Client { settings, reducer, process: Mutex::default(), begun: Mutex::default() }
    }

    /// Starts the timeout of the first request at `begun`: the work since then was for that request.
    pub fn with_first_call_begun(self, begun: Instant) -> Self {
        *self.begun.lock().expect("noting the time does not panic") = Some(begun);
        self
    }

    /// Begins to connect to the nodes of a name that will be opened or attached to, and returns at once. The call
    /// that uses the name reports errors of the name and its nodes. `processes`: how many of the job, this one included,
    /// may share the link to them.
    pub fn connect(&self, name: &[u8], processes: u32) {
        let Ok(found) = names::resolve(name, &self.settings.nodes) else { return };
        if check_addresses(&found.nodes).is_err() || self.learn_credentials(name, &found.nodes).is_err() {
            return;
        }
        let Ok(process) = self.process() else { return };
        let sharers = processes.saturating_mul(found.nodes.len() as u32);
        for node in &found.nodes {
            process.streams.reach(node, process.streams.counts.share(node, sharers));
        }
    }

    /// Joins or begins the live session of a file. Every process that uses it attaches with the ticket; a ticket that
    /// no process attaches with goes to [`Client::abandon`].
    pub fn open(&self, name: &[u8], flags: u32) -> Result<Ticket, OpenError> {
        if flags & (READ | WRITE) == 0 || flags & !(READ | WRITE | CREATE | EXCLUSIVE) != 0 {
            let name = String::from_utf8_lossy(name);
            return Err(Error::Refused(
                ErrorCode::CallRefused,
                format!("{name}: {flags} is no combination of open flags"),
            )
            .into());
        }
        let found = names::resolve(name, &self.settings.nodes)?;
        check_addresses(&found.nodes)?;
        self.learn_credentials(name, &found.nodes)?;
        let key = HandleKey(random_bytes()?);
        let request = Request::OpenPath {
            path: found.path.clone(),
            flags,
            job: self.settings.job.clone(),
            nodes: found.nodes.clone(),
            stripe_bytes: self.settings.stripe_bytes,
            key,
        };
        let answer = self.ask_any(&found.nodes, &request);
        let answer = answer.inspect_err(|error| self.report_unopened(&found, flags, error))?;
        let kind = answer.kind();
        Ticket::of(name.to_vec(), flags, key, answer)
            .ok_or_else(|| unexpected(&found.nodes[0], "an opening", kind).into())
    }

    fn report_unopened(&self, found: &Resolved, flags: u32, error: &Error) {
        if flags & WRITE == 0 || !is_loss(error) {
            return;
        }
        if let Ok(process) = self.process() {
            let (nodes, path) = (found.nodes.clone(), found.path.clone());
            let is_away = matches!(error, Error::Unavailable { .. });
            process.report_failed(FailedFile { nodes, path, why: error.to_string() }, is_away);
        }
    }

    /// Returns a ticket unused: no process attached with it.
    pub fn abandon(&self, ticket: &Ticket) -> Result<()> {
        if ticket.flags & WRITE != 0 {
            let (nodes, path) = (ticket.session.nodes.clone(), ticket.session.path.clone());
            let why = "no process of the job could use it".to_owned();
            self.process()?.report_failed(FailedFile { nodes, path, why }, false);
        }
        let leave = Request::Leave { session: ticket.session.id, key: ticket.key };
        self.ask_any(&ticket.session.nodes, &leave).map(drop)
    }

    /// Attaches this process to the session; returns when its nodes have accepted it.
    pub fn attach(&self, ticket: &Ticket, flags: u32) -> Result<File> {
        self.learn_credentials(&ticket.name, &ticket.session.nodes)?;
        File::attach(&self.process()?, ticket, flags)
    }

    /// Removes a name.
    pub fn delete(&self, name: &[u8]) -> Result<(), OpenError> {
        let found = names::resolve(name, &self.settings.nodes)?;
        check_addresses(&found.nodes)?;
        self.learn_credentials(name, &found.nodes)?;
        // A commit still running in the background would create the name again.
        let process = self.process()?;
        process.background.wait();
        process.failed_files.forget(&found.path);
        self.ask_any(&found.nodes, &Request::Delete { path: found.path })?;
        Ok(())
    }

    /// Waits for background work; reports the first failure.
    pub fn finalize(&self) -> Result<()> {
        let process = self.process.lock().expect("nothing panics while it holds the process").clone();
        process.map_or(Ok(()), |process| {
            let finished = process.background.finish();
            process.report_unsent();
            finished
        })
    }

    /// Waits for background work, and leaves its failures to [`Client::finalize`].
    pub fn wait_for_background(&self) {
        let process = self.process.lock().expect("nothing panics while it holds the process").clone();
        process.inspect(|process| process.background.wait());
    }

    /// Asks the first of the nodes that can be reached. All are tried at once, so that those out of reach cost three
    /// seconds together. Each that is asked gets its part of the timeout, so that those that are reached and answer
    /// nothing cost one timeout together. Nodes that were not reached come last: they may be starting.
    fn ask_any(&self, nodes: &[String], request: &Request) -> Result<Reply> {
        let process = self.process()?;
        let first = self.begun.lock().expect("taking the time does not panic").take();
        let begun = first.unwrap_or_else(Instant::now);
        let streams: Vec<_> = nodes.iter().map(|node| process.streams.get(node, 0)).collect();
        let is_reached = |stream: &Stream| nodes.len() == 1 || stream.is_reached_by(begun + REACH_TIMEOUT * 4 / 3);
        if nodes.len() > 1 {
            streams.iter().for_each(|stream| stream.try_reach());
        }
        let mut left = nodes.len();
        let mut ask = |node: &str| {
            let timeout = self.settings.timeout.saturating_sub(begun.elapsed()) / left as u32;
            left -= 1;
            process.ask_node_and_wait(node, request.clone(), timeout).map(|answer| answer.reply)
        };
        let mut unreached = Vec::new();
        let mut failure = None;
        for (node, stream) in nodes.iter().zip(&streams) {
            if !is_reached(stream) {
                unreached.push(node);
            } else if begun.elapsed() < self.settings.timeout {
                match ask(node) {
                    Err(error @ Error::Unavailable { .. }) => failure = Some(error),
                    answer => return answer,
                }
            }
        }
        for node in unreached {
            match ask(node) {
                Err(error @ Error::Unavailable { .. }) => failure = Some(error),
                answer => return answer,
            }
        }
        Err(failure.expect("a name has nodes, and the first was asked"))
    }

    /// Remembers the secret and the authorities that the name's alias has for its nodes, if it has any.
    fn learn_credentials(&self, name: &[u8], nodes: &[String]) -> Result<()> {
        let (secret_file, tls_ca) = names::credential_files(name);
        if secret_file.is_some() || tls_ca.is_some() {
            let secret = secret_file.as_deref().map(read_secret).transpose()?;
            let tls = tls_ca.as_deref().map(TlsClient::load).transpose()?;
            self.process()?.secrets.learn(nodes, secret, tls);
        }
        Ok(())
    }

    fn process(&self) -> Result<Arc<Process>> {
        let mut process = self.process.lock().expect("nothing panics while it holds the process");
        if process.is_none() {
            *process = Some(Process::start(self.settings.clone(), self.reducer.clone())?);
        }
        Ok(process.as_ref().expect("just started").clone())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(process) = self.process.get_mut().expect("nothing panics while it holds the process") {
            process.stop();
        }
    }
}

fn unexpected(peer: &str, request: &str, kind: u16) -> Error {
    let why = format!("message {kind:#x} is no answer to {request}, or one without content");
    Error::Protocol { peer: peer.to_owned(), source: format::Error::Corrupt { what: "reply", why } }
}

/// Refuses malformed addresses at once, before any wait.
fn check_addresses(nodes: &[String]) -> Result<(), OpenError> {
    nodes.iter().try_for_each(|node| crate::resolve::check(node)).map_err(|error| {
        OpenError::Configuration(format!("{error} (in THALWEG_NODES, or where the name's alias is set)"))
    })
}
