//! How the job's processes use its nodes: an option goes before the variable of the same meaning, that before the default.

use std::ffi::OsString;

use format::ErrorCode;
use transfer::client::{Acknowledge, OpenError, Reduction, Settings};
use transfer::{check_name, variable};

use super::application;
use crate::failure::{UsageError, misuse};
use crate::log;

pub(super) const REDUCE: Choice = Choice { variable: "THALWEG_REDUCE", possible: &Reduction::NAMES, otherwise: "auto" };
pub(super) const ACK: Choice = Choice { variable: "THALWEG_ACK", possible: &Acknowledge::NAMES, otherwise: "durable" };
const APPLICATION_VARIABLE: &str = "THALWEG_APPLICATION";

pub(super) struct Choice {
    variable: &'static str,
    pub possible: &'static [&'static str],
    otherwise: &'static str,
}

impl Choice {
    /// Returns what the option says, which was checked, or else the variable.
    pub fn of(&self, option: Option<&str>) -> anyhow::Result<String> {
        let variable = if option.is_none() { set(self.variable)? } else { String::new() };
        self.of_either(option, variable)
    }

    fn of_either(&self, option: Option<&str>, variable: String) -> anyhow::Result<String> {
        let given = option.map_or(variable, str::to_owned);
        match given.as_str() {
            "" => Ok(self.otherwise.to_owned()),
            known if self.possible.contains(&known) => Ok(given),
            other => misuse!(EnvironmentVariable: "the environment variable {} is {other:?}; it must be {}",
                self.variable,
                self.possible.join(" or ")
            ),
        }
    }
}

/// Returns the application that the option or the variable names, or else the program.
pub(super) fn application(option: Option<&str>, command: &[OsString]) -> anyhow::Result<String> {
    let given = match option {
        Some(given) => Some(given.to_owned()),
        None => Some(set(APPLICATION_VARIABLE)?).filter(|given| !given.is_empty()),
    };
    let Some(given) = given else { return Ok(application::of_command(command)) };
    let what = if option.is_some() { "--application" } else { APPLICATION_VARIABLE };
    let code = if option.is_some() { ErrorCode::Usage } else { ErrorCode::EnvironmentVariable };
    check_name(what, &given).map_err(|error| UsageError { code, text: error.to_string() })?;
    Ok(given)
}

/// Refuses values of variables that go to the program, and to the job's own node, as they are. Otherwise the program would
/// run for long until its first open fails.
pub(super) fn check_environment() -> anyhow::Result<()> {
    let wrong = |error: OpenError| UsageError { code: ErrorCode::EnvironmentVariable, text: error.to_string() };
    Settings::transport_from_environment().map_err(wrong)?;
    log::check_variable()
}

fn set(name: &str) -> anyhow::Result<String> {
    Ok(variable(name).map_err(|error| UsageError { code: error.code(), text: error.to_string() })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_goes_before_the_variable_and_that_before_the_default() {
        let of = |option, variable: &str| REDUCE.of_either(option, variable.to_owned());
        assert_eq!(of(None, "").unwrap(), "auto");
        assert_eq!(of(None, "node").unwrap(), "node");
        assert_eq!(of(Some("client"), "node").unwrap(), "client");
        let error = of(None, "nod").unwrap_err().to_string();
        assert!(error.contains("THALWEG_REDUCE") && error.contains("node or client or auto"), "{error}");
        assert_eq!(ACK.of_either(None, "received".into()).unwrap(), "received");
        assert_eq!(ACK.of_either(None, String::new()).unwrap(), "durable");
    }

    #[test]
    fn a_program_is_an_application_of_its_own_name() {
        assert_eq!(application(Some("climate"), &["./app".into()]).unwrap(), "climate");
        assert!(application(Some(&"n".repeat(1025)), &["./app".into()]).is_err());
    }
}
