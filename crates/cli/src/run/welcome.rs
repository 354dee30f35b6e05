//! Before the program starts: whether any of its nodes is there and welcomes this user. A program would find out after
//! minutes of work, at its first file.

use std::time::{Duration, Instant};

use transfer::{Credentials, Error, Remote};

use super::side_by_side::first_answer;

/// A node may be being started.
const START_TIMEOUT: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);

pub(super) fn wait_for(nodes: &[String], credentials: &Credentials) -> anyhow::Result<()> {
    let credentials = credentials.clone();
    first_answer(nodes, move |node| Ok(ask(node, &credentials)?))
}

/// One that refuses will refuse again.
fn ask(node: &str, credentials: &Credentials) -> transfer::Result<()> {
    let begun = Instant::now();
    loop {
        match Remote::connect_with(credentials.clone(), node, transfer::random_number()?, "", "") {
            Err(Error::Unavailable { .. }) if begun.elapsed() < START_TIMEOUT => std::thread::sleep(PAUSE),
            welcomed => return welcomed.map(drop),
        }
    }
}
