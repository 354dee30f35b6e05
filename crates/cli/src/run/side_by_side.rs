//! Asking several nodes at once: those that are silent cost their time once.

use std::sync::mpsc;

use anyhow::Context;

/// Nodes that are asked side by side.
const MAX_ASKED: usize = 64;

/// The first answer that is no error; else the last error.
pub(super) fn first_answer<T: Send + 'static>(
    nodes: &[String],
    ask: impl Fn(&str) -> anyhow::Result<T> + Clone + Send + 'static,
) -> anyhow::Result<T> {
    let (sender, answers) = mpsc::channel();
    for node in nodes.iter().take(MAX_ASKED) {
        let (node, sender, ask) = (node.clone(), sender.clone(), ask.clone());
        let ask = move || {
            // Nobody listens where another node was quicker.
            let _ = sender.send(ask(&node));
        };
        std::thread::Builder::new().name("asks a node".into()).spawn(ask).context("starting a thread")?;
    }
    drop(sender);
    let mut failure = anyhow::anyhow!("no node was named");
    for answer in answers {
        match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
