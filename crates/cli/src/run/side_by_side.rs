//! Asking several nodes at once: those that are silent cost their time once.

use std::sync::mpsc;

use crate::failure::explained;

/// Nodes that are asked side by side.
const MAX_ASKED: usize = 64;

/// Why none of the nodes answered: an error of each.
#[derive(Debug)]
pub(super) struct NoAnswer(pub Vec<anyhow::Error>);

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let errors: Vec<_> = self.0.iter().map(explained).collect();
        f.write_str(&errors.join("; "))
    }
}

impl std::error::Error for NoAnswer {}

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

/// Returns all answers that are no errors; when there is none, all errors.
pub(super) fn all_answers<T: Send + 'static>(
    nodes: &[String],
    ask: impl Fn(&str) -> anyhow::Result<T> + Clone + Send + 'static,
) -> Result<Vec<T>, NoAnswer> {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for answer in answers(nodes, ask)? {
        match answer {
            Ok(answer) => found.push(answer),
            Err(error) => errors.push(error),
        }
    }
    if found.is_empty() { Err(NoAnswer(errors)) } else { Ok(found) }
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
