//! What a job left behind: sessions that were never committed.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context;
use catalog::{Catalog, PathSession};
use transfer::{Credentials, Remote, RemoteCatalog};

use crate::output::Output;

/// A node that was killed at the job's end is being started again.
const RESTART_TIMEOUT: Duration = Duration::from_secs(3);
/// A commit that a process asked for before it ended may still go on.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);
/// Nodes that are asked side by side.
const MAX_ASKED: usize = 64;

type Answer = anyhow::Result<Vec<PathSession>>;

/// The job's sessions that are not ended, as the first node says that answers. All are asked side by side: the silent ones
/// cost their time once.
pub(super) fn of_job(nodes: &[String], job: &str, credentials: &Credentials) -> Answer {
    let (sender, answers) = mpsc::channel();
    for node in nodes.iter().take(MAX_ASKED) {
        let (node, job) = (node.clone(), job.to_owned());
        let (sender, credentials) = (sender.clone(), credentials.clone());
        let ask = move || {
            // Nobody listens where another node was quicker.
            let _ = sender.send(ask_until_settled(&node, &job, &credentials));
        };
        std::thread::Builder::new().name("leftovers".into()).spawn(ask).context("starting a thread")?;
    }
    drop(sender);
    let mut failure = anyhow::anyhow!("no node was named");
    for answer in answers {
        match answer {
            Ok(sessions) => return Ok(of(job, sessions)),
            Err(error) => failure = error,
        }
    }
    Err(failure.context("looking for what the job left open"))
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
