//! The settings of a client process, read from its environment; see `docs/operating.md` for the variables.

use std::time::Duration;

use super::OpenError;
use crate::{Credentials, environment};

/// Where segments are cut out and fingerprinted (rule 9 of the design).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    Node,
    Client,
    Auto,
}

impl Reduction {
    /// The words of the variable and of `thalweg run --reduce`.
    pub const NAMES: [&str; 3] = ["node", "client", "auto"];

    fn named(name: &str) -> Option<Self> {
        let all = [Reduction::Node, Reduction::Client, Reduction::Auto];
        Self::NAMES.iter().zip(all).find(|(known, _)| **known == name).map(|(_, reduction)| reduction)
    }
}

/// When a commit counts as done for the program (rule 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// When the nodes hold everything; the commit goes on in the background until `finalize`.
    Received,
    /// When the version is there.
    Durable,
}

impl Acknowledge {
    /// The words of the variable and of `thalweg run --ack`.
    pub const NAMES: [&str; 2] = ["received", "durable"];

    fn named(name: &str) -> Option<Self> {
        let all = [Acknowledge::Received, Acknowledge::Durable];
        Self::NAMES.iter().zip(all).find(|(known, _)| **known == name).map(|(_, acknowledge)| acknowledge)
    }
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses used for names without an alias; may be empty.
    pub nodes: Vec<String>,
    /// TCP connections to each node, 1 to 8; none: as many as are right for the link.
    pub streams: Option<u32>,
    /// Most bytes the process holds that are not durable yet.
    pub window_bytes: usize,
    /// How long a node may be away before operations fail.
    pub timeout: Duration,
    /// Length of the file ranges that belong to one node, for sessions this process begins (bytes).
    pub stripe_bytes: u64,
    pub job: String,
    /// The application whose share of the nodes' bandwidth the process uses.
    pub application: String,
    pub reduction: Reduction,
    pub acknowledge: Acknowledge,
    /// Credentials that nodes must prove to have, and demand: for `nodes`, and for aliases that set none.
    pub credentials: Credentials,
    /// Used instead for the nodes of `nodes`, where they are a job's own.
    pub job_credentials: Option<Credentials>,
}

const STREAMS_VARIABLE: &str = "THALWEG_STREAMS";
/// The word for as many streams as are right for the link.
pub const AUTO: &str = "auto";
const STRIPE_UNIT_BYTES: u64 = 64 << 10;
/// A window below this could not hold the frames of a few streams.
const MIN_WINDOW_MIB: u64 = 4;

impl Default for Settings {
    fn default() -> Self {
        Settings {
            nodes: Vec::new(),
            streams: None,
            window_bytes: 64 << 20,
            timeout: Duration::from_secs(60),
            stripe_bytes: 4 << 20,
            job: String::new(),
            application: String::new(),
            reduction: Reduction::Node,
            acknowledge: Acknowledge::Durable,
            credentials: Credentials::default(),
            job_credentials: None,
        }
    }
}

impl Settings {
    /// Returns the credentials for the nodes of `nodes`.
    pub fn credentials_of_nodes(&self) -> &Credentials {
        self.job_credentials.as_ref().unwrap_or(&self.credentials)
    }

    /// Refuses a variable with a value that has no meaning.
    pub fn from_environment() -> Result<Self, OpenError> {
        let transport = Settings::transport_from_environment()?;
        Ok(Settings {
            nodes: addresses(&text("THALWEG_NODES")?),
            job: name("THALWEG_JOB")?,
            application: name("THALWEG_APPLICATION")?,
            reduction: choice("THALWEG_REDUCE", &Reduction::NAMES, Reduction::named)?.unwrap_or(transport.reduction),
            acknowledge: choice("THALWEG_ACK", &Acknowledge::NAMES, Acknowledge::named)?
                .unwrap_or(transport.acknowledge),
            credentials: Credentials::of_environment().map_err(|error| OpenError::Configuration(error.to_string()))?,
            job_credentials: Credentials::of_job().map_err(|error| OpenError::Configuration(error.to_string()))?,
            ..transport
        })
    }

    /// Reads only what `thalweg run` passes on to its program as it is: streams, window, timeout and stripe length.
    pub fn transport_from_environment() -> Result<Self, OpenError> {
        let default = Settings::default();
        let stripe_bytes = number("THALWEG_STRIPE_BYTES", STRIPE_UNIT_BYTES..=1 << 40)?.unwrap_or(default.stripe_bytes);
        if !stripe_bytes.is_multiple_of(STRIPE_UNIT_BYTES) {
            return refuse("THALWEG_STRIPE_BYTES", &stripe_bytes.to_string(), "a multiple of 65536");
        }
        Ok(Settings {
            streams: streams()?,
            window_bytes: number("THALWEG_WINDOW_MIB", MIN_WINDOW_MIB..=1 << 20)?
                .map_or(default.window_bytes, |mib| (mib as usize) << 20),
            timeout: number("THALWEG_TIMEOUT_S", 1..=1 << 20)?.map_or(default.timeout, Duration::from_secs),
            stripe_bytes,
            ..default
        })
    }
}

/// Splits `host:port,host:port` into a list.
pub(super) fn addresses(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|address| !address.is_empty()).map(str::to_owned).collect()
}

pub(super) fn text(variable: &str) -> Result<String, OpenError> {
    environment::variable(variable).map_err(|error| OpenError::Configuration(error.to_string()))
}

fn name(variable: &str) -> Result<String, OpenError> {
    environment::name_in_variable(variable).map_err(|error| OpenError::Configuration(error.to_string()))
}

fn number(variable: &str, range: std::ops::RangeInclusive<u64>) -> Result<Option<u64>, OpenError> {
    let text = text(variable)?;
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(number) if range.contains(&number) => Ok(Some(number)),
        _ => refuse(variable, &text, &format!("a number from {} to {}", range.start(), range.end())),
    }
}

fn streams() -> Result<Option<u32>, OpenError> {
    if text(STREAMS_VARIABLE)? == AUTO {
        return Ok(None);
    }
    Ok(number(STREAMS_VARIABLE, 1..=8)?.map(|streams| streams as u32))
}

/// Returns the word's meaning; none where the variable is empty or not set.
fn choice<T>(variable: &str, names: &[&str], named: fn(&str) -> Option<T>) -> Result<Option<T>, OpenError> {
    let text = text(variable)?;
    match named(&text) {
        None if !text.is_empty() => refuse(variable, &text, &names.join(" or ")),
        meant => Ok(meant),
    }
}

fn refuse<T>(variable: &str, found: &str, expected: &str) -> Result<T, OpenError> {
    Err(OpenError::Configuration(format!("the environment variable {variable} is {found:?}; it must be {expected}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_addresses_forgive_blanks() {
        assert_eq!(addresses(" a:1, b:2,,"), ["a:1", "b:2"]);
        assert!(addresses("").is_empty());
    }
}
