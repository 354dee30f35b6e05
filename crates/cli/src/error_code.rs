//! The code of any error that ends a command, or a part of it.

use std::error::Error;
use std::fmt;

use format::ErrorCode;
use rustix::io::Errno;

use crate::failure::{Incomplete, Interrupted, UsageError};
use crate::run::NoAnswer;

/// An error of the command's own with its code; also the context of an error that has no code, or not this one.
#[derive(Debug)]
pub struct Coded {
    code: ErrorCode,
    text: String,
}

impl Coded {
    pub fn new(code: ErrorCode, text: impl Into<String>) -> Self {
        Coded { code, text: text.into() }
    }
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Coded {}

/// `bail!` with a [`Coded`], as in `fail!(NoSuchPath: "{path}: no such file")`.
macro_rules! fail {
    ($code:ident: $($text:tt)*) => {
        return Err($crate::error_code::Coded::new(format::ErrorCode::$code, format!($($text)*)).into())
    };
}
pub(crate) use fail;

/// Returns the code of the outermost cause that has one.
pub fn of(error: &anyhow::Error) -> ErrorCode {
    let own = error.downcast_ref().map(|Coded { code, .. }| *code);
    own.or_else(|| error.chain().find_map(of_cause)).unwrap_or(ErrorCode::Unclassified)
}

fn of_cause(cause: &(dyn Error + 'static)) -> Option<ErrorCode> {
    let own = of_command(cause).or_else(|| of_crates(cause));
    own.or_else(|| of_system(cause))
}

fn of_command(cause: &(dyn Error + 'static)) -> Option<ErrorCode> {
    let usage = cause.downcast_ref().map(|UsageError { code, .. }| *code);
    let incomplete = cause.is::<Incomplete>().then_some(ErrorCode::Incomplete);
    usage.or(incomplete).or(cause.is::<Interrupted>().then_some(ErrorCode::Interrupted))
}

fn of_crates(cause: &(dyn Error + 'static)) -> Option<ErrorCode> {
    macro_rules! first_of {
        ($($error:ty),+) => {
            None$(.or_else(|| cause.downcast_ref().map(<$error>::code)))+
        };
    }
    let trace = || cause.is::<simulator::TraceError>().then_some(ErrorCode::Trace);
    first_of!(
        repository::Error,
        catalog::Error,
        store::Error,
        address::Error,
        transfer::Error,
        transfer::client::OpenError,
        segment::Error,
        format::Error,
        recipe::Error,
        gate::Error,
        NoAnswer
    )
    .or_else(trace)
}

/// Of what the operating system said.
fn of_system(cause: &(dyn Error + 'static)) -> Option<ErrorCode> {
    let io = cause.downcast_ref().map(|error: &std::io::Error| ErrorCode::of_io(error.kind()));
    io.or_else(|| cause.downcast_ref().copied().map(of_errno))
}

pub fn of_errno(error: Errno) -> ErrorCode {
    ErrorCode::of_io(std::io::Error::from(error).kind())
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use anyhow::Context;

    use super::*;

    #[test]
    fn the_code_is_that_of_the_outermost_cause_that_has_one() {
        let io = || std::io::Error::from(ErrorKind::PermissionDenied);
        let store = || anyhow::Error::from(store::Error::Io { path: "c/01".into(), source: io() });
        assert_eq!(of(&store()), ErrorCode::PermissionDenied);
        assert_eq!(of(&store().context("putting a")), ErrorCode::PermissionDenied);
        let coded =
            Err::<(), _>(io()).context(Coded::new(ErrorCode::Trace, "no trace")).context("reading").unwrap_err();
        assert_eq!(of(&coded), ErrorCode::Trace);
        let path = format::StorePath::new(b"a").unwrap();
        let of_catalog = repository::Error::from(catalog::Error::NotFound { path });
        assert_eq!(of(&of_catalog.into()), ErrorCode::NoSuchPath);
        assert_eq!(of(&Errno::NOSPC.into()), ErrorCode::DiskFull);
        assert_eq!(of(&UsageError::new("twice").into()), ErrorCode::Usage);
        assert_eq!(of(&anyhow::anyhow!("something else")), ErrorCode::Unclassified);
    }
}
