//! Variables of the environment. A value that makes no sense is refused and named, and never taken for none.

use std::env;
use std::ffi::OsString;

use format::ErrorCode;

use crate::message::MAX_NAME_BYTES;
use crate::{Error, Result};

/// Returns the value of a variable, empty where it is not set. Refuses one that is not UTF-8.
pub fn variable(name: &str) -> Result<String> {
    utf8(name, env::var_os(name).unwrap_or_default())
}

fn utf8(name: &str, value: OsString) -> Result<String> {
    value.into_string().map_err(|value| {
        let shown = value.as_encoded_bytes().escape_ascii();
        Error::Refused(
            ErrorCode::EnvironmentVariable,
            format!("the environment variable {name} is \"{shown}\"; it must be UTF-8"),
        )
    })
}

/// As [`variable`], of one that names a job or an application.
pub fn name_in_variable(name: &str) -> Result<String> {
    let value = variable(name)?;
    check_name(&format!("the environment variable {name}"), &value)?;
    Ok(value)
}

/// Refuses the name of a job or an application that no node takes.
pub fn check_name(what: &str, value: &str) -> Result<()> {
    if value.len() > MAX_NAME_BYTES {
        let bytes = value.len();
        return Err(Error::Refused(
            ErrorCode::EnvironmentVariable,
            format!("{what} has {bytes} bytes; {MAX_NAME_BYTES} are the most"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn values_that_are_no_text_or_too_long_are_refused_and_named() {
        let error = utf8("THALWEG_X", OsString::from_vec(b"6\xff".to_vec())).unwrap_err().to_string();
        assert!(error.contains("THALWEG_X") && error.contains("6\\xff"), "{error}");
        assert_eq!(utf8("THALWEG_X", "60".into()).unwrap(), "60");
        check_name("--application", &"n".repeat(MAX_NAME_BYTES)).unwrap();
        let error = check_name("--application", &"n".repeat(MAX_NAME_BYTES + 1)).unwrap_err().to_string();
        assert!(error.contains("--application has 1025 bytes"), "{error}");
    }
}
