//! What a job left behind: sessions that were never committed.

use catalog::{Catalog, PathSession};
use transfer::{Remote, RemoteCatalog};

use crate::output::Output;

/// The job's sessions that are not ended, asked of the first node that answers.
pub(super) fn of_job(nodes: &[String], job: &str) -> anyhow::Result<Vec<PathSession>> {
    let mut failure = None;
    for node in nodes {
        match sessions(node) {
            Ok(sessions) => return Ok(sessions.into_iter().filter(|session| session.job == job).collect()),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(|| anyhow::anyhow!("no node was named")).context("looking for what the job left open"))
}

fn sessions(node: &str) -> anyhow::Result<Vec<PathSession>> {
    let remote = Remote::connect(node, std::process::id() as u64, "")?;
    Ok(RemoteCatalog::new(remote).path_sessions()?)
}

/// Names each file that was not committed, and how to get at what was checkpointed.
pub(super) fn report(left: &[PathSession], output: &Output) {
    for session in left {
        output.note(format!(
            "{} was not closed: nothing of this session is a version; `thalweg recover` makes one of its last checkpoint",
            session.path
        ));
    }
}
