//! Before the program starts: whether any of its nodes is there and welcomes this user. A program would find out after
//! minutes of work, at its first file.

use std::time::{Duration, Instant};

use format::ErrorCode;
use transfer::{Credentials, Error, Remote};

use super::side_by_side::{NoAnswer, first_answer};

/// A node may be being started.
const START_TIMEOUT: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);

pub(super) fn wait_for(nodes: &[String], credentials: &Credentials, program: &str) -> anyhow::Result<()> {
    let (asked_with, has_secret) = (credentials.clone(), credentials.secret.is_some());
    first_answer(nodes, move |node| Ok(ask(node, &asked_with)?)).map_err(|errors| refusal(program, has_secret, errors))
}

/// A node that answers and refuses is there, and is not to be looked for.
fn refusal(program: &str, has_secret: bool, errors: NoAnswer) -> anyhow::Error {
    let is_away = |error: &anyhow::Error| matches!(error.downcast_ref(), Some(Error::Unavailable { .. }));
    let is_refused =
        |error: &anyhow::Error| matches!(error.downcast_ref(), Some(Error::Refused(ErrorCode::SecretRefused, _)));
    let why = if errors.0.iter().all(is_away) { "no node is there for it" } else { "no node lets it in" };
    let advice = match !has_secret && errors.0.iter().any(is_refused) {
        true => " (`thalweg run` takes a secret from THALWEG_SECRET_FILE or --secret-file FILE)",
        false => "",
    };
    anyhow::Error::new(errors).context(format!("{program} was not started, since {why}{advice}"))
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
