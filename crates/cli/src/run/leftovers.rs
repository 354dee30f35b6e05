//! What a job left behind: sessions that were never committed.

use std::time::{Duration, Instant};

use anyhow::Context;
use catalog::{Catalog, PathSession};
use transfer::{Credentials, Remote, RemoteCatalog};

use super::side_by_side::first_answer;
use crate::output::Output;

/// A node that was killed at the job's end is being started again.
const RESTART_TIMEOUT: Duration = Duration::from_secs(3);
/// A commit that a process asked for before it ended may still go on.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);
/// A node that stands still is not waited for: the job has ended, and its user waits.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(3);

type Answer = anyhow::Result<Vec<PathSession>>;

/// The job's sessions that are not ended, as the first node says that answers.
pub(super) fn of_job(nodes: &[String], job: &str, credentials: &Credentials) -> Answer {
    let (of_job, credentials) = (job.to_owned(), credentials.clone());
    let ask = move |node: &str| ask_until_settled(node, &of_job, &credentials);
    let sessions = first_answer(nodes, ask).context("looking for what the job left open")?;
    Ok(of(job, sessions))
}

fn of(job: &str, sessions: Vec<PathSession>) -> Vec<PathSession> {
    sessions.into_iter().filter(|session| session.job == job).collect()
}

/// Asks again while the node is being started, and while it may be ending what the job's last processes asked for.
fn ask_until_settled(node: &str, job: &str, credentials: &Credentials) -> Answer {
    let begun = Instant::now();
    loop {
        match sessions(node, credentials) {
            Err(_) if begun.elapsed() < RESTART_TIMEOUT => {}
            Ok(found) if is_ending(job, &found) && begun.elapsed() < COMMIT_TIMEOUT => {}
            answer => return answer,
        }
        std::thread::sleep(PAUSE);
    }
}

fn is_ending(job: &str, sessions: &[PathSession]) -> bool {
    sessions.iter().any(|session| session.job == job && !session.interrupted)
}

fn sessions(node: &str, credentials: &Credentials) -> Answer {
    let remote = Remote::connect_within(WELCOME_TIMEOUT, credentials.clone(), node, transfer::random_number()?)?;
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
