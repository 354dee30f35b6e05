//! Files that this process's job wrote and that became no version: the reason is sent to a node, and `thalweg run`
//! fetches it at the job's end. A program may ignore the results of open and close, and the session may be gone by
//! then.
//!
//! Reports that no node accepted are sent again when the process finalizes.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use format::StorePath;

use super::oneshot::{Completion, OneShot};
use super::process::Process;
use crate::Error;
use crate::message::{FailureKind, MAX_NAME_BYTES, Request};

/// The call that failed has taken its time already.
const REPORT_TIMEOUT: Duration = Duration::from_secs(3);
/// Beyond, the job's outcome is known to be a failure anyway.
const MAX_UNSENT: usize = 64;

#[derive(Clone)]
pub(super) struct FailedFile {
    pub nodes: Vec<String>,
    pub path: StorePath,
    pub why: String,
}

#[derive(Default)]
pub(super) struct FailedFiles {
    unsent: Mutex<Vec<FailedFile>>,
}

impl FailedFiles {
    fn keep(&self, failed: FailedFile) {
        let mut unsent = self.unsent();
        unsent.retain(|known| known.path != failed.path);
        if unsent.len() < MAX_UNSENT {
            unsent.push(failed);
        }
    }

    /// Drops the report of a file that was stored after all.
    pub fn forget(&self, path: &StorePath) {
        self.unsent().retain(|known| known.path != *path);
    }

    fn unsent(&self) -> MutexGuard<'_, Vec<FailedFile>> {
        self.unsent.lock().expect("noting a failure does not panic")
    }
}

/// Returns whether a file that could not be opened is lost to its program. An existing or missing name is an answer, no
/// loss.
pub(super) fn is_loss(error: &Error) -> bool {
    match error {
        Error::Unavailable { .. } | Error::Protocol { .. } | Error::Replaced { .. } => true,
        Error::Failed(failure) => {
            use FailureKind::{DataDropped, Exists, NotFound, Refused};
            !matches!(failure.kind, NotFound | Exists | Refused | DataDropped)
        }
        Error::Refused(..) => false,
    }
}

impl Process {
    /// Sends it to a node, unless no `thalweg run` will fetch it, or no node answered just now; `done` is called when
    /// that has ended.
    pub fn report_failed_then(&self, mut failed: FailedFile, is_away: bool, done: Box<dyn FnOnce() + Send>) {
        if self.settings.job.is_empty() {
            return done();
        }
        cut(&mut failed.why);
        if is_away {
            self.failed_files.keep(failed);
            return done();
        }
        let (request, failed_files) = (request(&failed), self.failed_files.clone());
        let node = failed.nodes[0].clone();
        let sent: Completion = Box::new(move |answer| {
            if answer.is_err() {
                failed_files.keep(failed);
            }
            done();
        });
        self.ask_node(&node, request, REPORT_TIMEOUT.min(self.settings.timeout), sent);
    }

    pub fn report_failed(&self, failed: FailedFile, is_away: bool) {
        let reported = OneShot::new();
        let done = reported.sender();
        self.report_failed_then(failed, is_away, Box::new(move || done(())));
        reported.wait();
    }

    /// Sends reports that no node accepted to the nodes. Where still none answers, `thalweg run` gets no answer from
    /// them either.
    pub fn report_unsent(&self) {
        let unsent = std::mem::take(&mut *self.failed_files.unsent());
        let is_sent = |failed: &FailedFile| {
            let timeout = REPORT_TIMEOUT.min(self.settings.timeout) / failed.nodes.len() as u32;
            failed.nodes.iter().any(|node| self.ask_node_and_wait(node, request(failed), timeout).is_ok())
        };
        // Nodes that do not answer for one report cost their time once.
        let _ = unsent.iter().all(is_sent);
    }
}

fn request(failed: &FailedFile) -> Request {
    Request::ReportFailure { path: failed.path.clone(), why: failed.why.clone() }
}

fn cut(why: &mut String) {
    let end = (0..=MAX_NAME_BYTES.min(why.len())).rev().find(|at| why.is_char_boundary(*at));
    why.truncate(end.unwrap_or(0));
}
