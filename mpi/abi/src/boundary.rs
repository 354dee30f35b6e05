//! Where Rust ends: failures become codes and a sentence, panics become failures.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use format::ErrorCode;
use transfer::client::OpenError;
use transfer::message::FailureKind;

/// The numbers of `thalweg_code`; they never change meaning.
pub const OK: c_int = 0;
const NOT_FOUND: c_int = 1;
const EXISTS: c_int = 2;
const REFUSED: c_int = 3;
const UNAVAILABLE: c_int = 4;
const FULL: c_int = 5;
const CORRUPT: c_int = 6;
const IO: c_int = 7;
const CONFIGURATION: c_int = 8;

pub struct Failure {
    code: c_int,
    text: String,
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs a call; its failure is kept for [`last_error`].
pub fn answer(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let text = format!("internal error: {}", said.unwrap_or("no reason given"));
        Err(Failure { code: IO, text: ErrorCode::Internal.after(text) })
    });
    match outcome {
        Ok(()) => OK,
        Err(failure) => {
            // Programs print it, and a node may have sent it. Without control characters there is no NUL either.
            let text = CString::new(transfer::one_line(&failure.text)).unwrap_or_default();
            LAST.with(|last| *last.borrow_mut() = text);
            failure.code
        }
    }
}

/// Valid until the thread's next call.
pub fn last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

impl Failure {
    pub fn refused(code: ErrorCode, text: &str) -> Self {
        Failure { code: REFUSED, text: code.after(text) }
    }
}

impl From<transfer::Error> for Failure {
    fn from(error: transfer::Error) -> Self {
        let code = match &error {
            transfer::Error::Unavailable { .. } => UNAVAILABLE,
            transfer::Error::Refused(..) => REFUSED,
            transfer::Error::Protocol { .. } | transfer::Error::Replaced { .. } => IO,
            transfer::Error::Failed(failure) => code_of(failure.kind),
        };
        Failure { code, text: error.code().after(&error) }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Configuration(_) => Failure { code: CONFIGURATION, text: error.code().after(&error) },
            OpenError::Transfer(error) => error.into(),
        }
    }
}

fn code_of(kind: FailureKind) -> c_int {
    match kind {
        FailureKind::NotFound => NOT_FOUND,
        FailureKind::Exists => EXISTS,
        FailureKind::Refused | FailureKind::DataDropped => REFUSED,
        FailureKind::Unavailable => UNAVAILABLE,
        FailureKind::Full => FULL,
        FailureKind::Corrupt => CORRUPT,
        _ => IO,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn a_panic_becomes_a_code_and_a_sentence() {
        assert_eq!(answer(|| panic!("seven")), IO);
        // SAFETY: no other call of this thread comes between.
        let text = unsafe { CStr::from_ptr(last_error()) }.to_str().unwrap();
        assert!(text.contains("seven"), "{text}");
        assert_eq!(answer(|| Ok(())), OK);
    }

    #[test]
    fn what_a_node_says_does_not_steer_the_terminal_of_the_program() {
        answer(|| Err(Failure::refused(ErrorCode::CallRefused, "\u{1b}]0;mine\u{7} \0\nrm")));
        // SAFETY: no other call of this thread comes between.
        let text = unsafe { CStr::from_ptr(last_error()) }.to_str().unwrap();
        assert_eq!(text, "\\x1b]0;mine\\x07 \\x00\\x0arm [TW-602]");
    }
}
