//! Asking several nodes at once: those that are silent cost their time once.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use format::ErrorCode;

use crate::error_code::{self, Coded};
use crate::failure::explained;

/// Nodes that are asked side by side.
const MAX_ASKED: usize = 64;

/// Why none of the nodes answered: an error of each.
#[derive(Debug)]
pub struct NoAnswer(pub Vec<anyhow::Error>);

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let errors: Vec<_> = self.0.iter().map(explained).collect();
        f.write_str(&errors.join("; "))
    }
}

impl std::error::Error for NoAnswer {}

impl NoAnswer {
    /// Returns the first node's: all are asked the same.
    pub fn code(&self) -> ErrorCode {
        self.0.first().map_or(ErrorCode::NodeUnreachable, error_code::of)
    }
}

/// Returns the first answer that is no error; else all errors.
pub(super) fn first_answer<T: Send + 'static>(
    nodes: &[String],
    ask: impl Fn(&str) -> anyhow::Result<T> + Clone + Send + 'static,
) -> Result<T, NoAnswer> {
    let mut errors = Vec::new();
    for answer in answers(nodes, ask)? {
        match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => errors.push(error),
        }
    }
    Err(NoAnswer(errors))
}

/// Returns all answers that are no errors and come within `timeout`; when there is none, all errors. The rest is not
/// waited for.
pub(super) fn all_answers<T: Send + 'static>(
    nodes: &[String],
    timeout: Duration,
    ask: impl Fn(&str) -> anyhow::Result<T> + Clone + Send + 'static,
) -> Result<Vec<T>, NoAnswer> {
    let deadline = Instant::now() + timeout;
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    let answers = answers(nodes, ask)?;
    loop {
        match answers.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Ok(answer)) => found.push(answer),
            Ok(Err(error)) => errors.push(error),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let silent = nodes.len().min(MAX_ASKED) - found.len() - errors.len();
                let seconds = timeout.as_secs_f32();
                let nodes = nodes.join(", ");
                let why = format!("{nodes}: {silent} did not answer within {seconds} s");
                errors.push(Coded::new(ErrorCode::NodeUnreachable, why).into());
                break;
            }
        }
    }
    if found.is_empty() { Err(NoAnswer(errors)) } else { Ok(found) }
}

/// Returns what `work` does, if it is done within `timeout`.
pub(super) fn within<T: Send + 'static>(timeout: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, done) = mpsc::channel();
    let work = move || {
        // The receiver is gone where it took too long.
        let _ = sender.send(work());
    };
    std::thread::Builder::new().name("asks a node".into()).spawn(work).ok()?;
    done.recv_timeout(timeout).ok()
}

/// As they come.
fn answers<T: Send + 'static>(
    nodes: &[String],
    ask: impl Fn(&str) -> anyhow::Result<T> + Clone + Send + 'static,
) -> Result<mpsc::Receiver<anyhow::Result<T>>, NoAnswer> {
    let (sender, answers) = mpsc::channel();
    for node in nodes.iter().take(MAX_ASKED) {
        let (node, sender, ask) = (node.clone(), sender.clone(), ask.clone());
        let ask = move || {
            // The receiver is gone where another node was quicker.
            let _ = sender.send(ask(&node));
        };
        let started = std::thread::Builder::new().name("asks a node".into()).spawn(ask);
        started.map_err(|error| NoAnswer(vec![anyhow::Error::new(error).context("starting a thread")]))?;
    }
    Ok(answers)
}
