//! What a job left behind: sessions that were never committed.

use std::time::Duration;

use catalog::{Catalog, PathSession};
use transfer::{Credentials, Remote, RemoteCatalog};

use crate::output::Output;

/// A node that was killed at the job's end is being started again.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(100);

/// The job's sessions that are not ended, asked of the first node that answers.
pub(super) fn of_job(nodes: &[String], job: &str, credentials: &Credentials) -> anyhow::Result<Vec<PathSession>> {
    let mut failure = None;
    for attempt in 0..ATTEMPTS {
        for node in nodes {
            match sessions(node, credentials) {
                Ok(sessions) => return Ok(sessions.into_iter().filter(|session| session.job == job).collect()),
                Err(error) => failure = Some(error),
            }
        }
        std::thread::sleep(PAUSE * attempt);
    }
    Err(failure.unwrap_or_else(|| anyhow::anyhow!("no node was named")).context("looking for what the job left open"))
}

fn sessions(node: &str, credentials: &Credentials) -> anyhow::Result<Vec<PathSession>> {
    let remote = Remote::connect_with(credentials.clone(), node, std::process::id() as u64, "", "")?;
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
