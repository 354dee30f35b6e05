//! What a user allows to be lost of floats, as text: the bound on each value's error, and the note of it that a rounded
//! file bears as an extended attribute.

use std::fmt;
use std::str::FromStr;

use crate::{ElementId, Error, Result, corrupt};

/// The extended attribute of a rounded file; its value is the text of [`Rounding::note`].
pub const ROUNDING_ATTRIBUTE: &[u8] = b"user.thalweg.error_bound";

/// The length of floats and the order of their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatType {
    F32,
    F64,
    F32Be,
    F64Be,
}

impl FloatType {
    pub const ALL: [FloatType; 4] = [FloatType::F32, FloatType::F64, FloatType::F32Be, FloatType::F64Be];

    /// Returns the length of one value.
    pub fn bytes(self) -> usize {
        match self {
            FloatType::F32 | FloatType::F32Be => 4,
            FloatType::F64 | FloatType::F64Be => 8,
        }
    }

    /// Returns the type of elements of blocks, whatever the order of their bytes.
    pub fn element(self) -> ElementId {
        match self {
            FloatType::F32 | FloatType::F32Be => ElementId::F32,
            FloatType::F64 | FloatType::F64Be => ElementId::F64,
        }
    }

    pub fn is_big_endian(self) -> bool {
        matches!(self, FloatType::F32Be | FloatType::F64Be)
    }

    /// Returns the type of which a block's elements are, where they are floats that can be rounded.
    pub fn of_element(element: ElementId, is_big_endian: bool) -> Option<Self> {
        let is_such = |float: &FloatType| (float.element(), float.is_big_endian()) == (element, is_big_endian);
        FloatType::ALL.into_iter().find(is_such)
    }

    fn name(self) -> &'static str {
        ["f32", "f64", "f32be", "f64be"][self as usize]
    }
}

impl fmt::Display for FloatType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FloatType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match FloatType::ALL.into_iter().find(|float| float.name() == text) {
            Some(float) => Ok(float),
            None => corrupt("type", format!("{text:?} is none of f32, f64, f32be, f64be (big-endian)")),
        }
    }
}

/// The most by which a value may change; the number is finite and above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ErrorBound {
    /// In the values' unit.
    Absolute(f64),
    /// A share of each value, below 1.
    Relative(f64),
    /// A share of the greatest value less the least one, below 1.
    Range(f64),
}

impl ErrorBound {
    /// All that can be asked for, for people.
    pub const NAMES: &str = "absolute:E (in the values' unit), relative:E (a share of each value), range:E (a share of their range); E is above 0 and finite, shares are below 1";
}

impl fmt::Display for ErrorBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorBound::Absolute(error) => write!(f, "absolute:{error:?}"),
            ErrorBound::Relative(share) => write!(f, "relative:{share:?}"),
            ErrorBound::Range(share) => write!(f, "range:{share:?}"),
        }
    }
}

impl FromStr for ErrorBound {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, number) = text.split_once(':').unwrap_or((text, ""));
        let number = number.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        match (name, number) {
            ("absolute", Some(error)) => Ok(ErrorBound::Absolute(error)),
            ("relative", Some(share)) if share < 1.0 => Ok(ErrorBound::Relative(share)),
            ("range", Some(share)) if share < 1.0 => Ok(ErrorBound::Range(share)),
            _ => corrupt("error bound", format!("{text:?} is none of {}", ErrorBound::NAMES)),
        }
    }
}

/// A request to round all values of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounding {
    pub float: FloatType,
    pub bound: ErrorBound,
    /// The value that stands for missing ones: it stays as it is, and does not count in the range.
    pub missing: Option<f64>,
}

impl fmt::Display for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.float, self.bound)?;
        self.missing.map_or(Ok(()), |missing| write!(f, " except {missing:?}"))
    }
}

/// Ends a request in a note; the next request of a file that was rounded before begins behind [`NEXT`].
const LARGEST: &str = ", largest error ";
const NEXT: &str = "; ";

impl Rounding {
    /// Returns the request, unless files of the type cannot have its value for missing ones.
    pub fn checked(self) -> Result<Self> {
        let stored =
            self.missing.map(|missing| if self.float.bytes() == 4 { (missing as f32).into() } else { missing });
        match stored {
            Some(stored) if f64::is_infinite(stored) => {
                let missing = self.missing.unwrap_or_default();
                corrupt("missing value", format!("{missing:?} is no finite number of {}", self.float))
            }
            _ => Ok(self),
        }
    }

    /// Returns the note on a file that was rounded so: in the order of its roundings, each request and the largest error
    /// that was met. `before` is the note that the file bore already.
    pub fn note(&self, largest_error: f64, before: Option<&[u8]>) -> Vec<u8> {
        let note = format!("{self}{LARGEST}{largest_error:?}");
        match before {
            Some(before) if !is_of(before, self) => [before, NEXT.as_bytes(), note.as_bytes()].concat(),
            Some(before) => before.to_vec(),
            None => note.into_bytes(),
        }
    }
}

/// Returns whether the last rounding of a note was this one.
fn is_of(note: &[u8], rounding: &Rounding) -> bool {
    let note = String::from_utf8_lossy(note);
    let last = note.rsplit(NEXT).next().unwrap_or_default();
    last.split(LARGEST).next() == Some(&rounding.to_string())
}

/// Returns whether a file with these extended attributes was stored as it is now to be stored: rounded so, or not rounded.
pub fn is_rounded_as(extended: &[(Vec<u8>, Vec<u8>)], rounding: Option<&Rounding>) -> bool {
    match (rounding_note(extended), rounding) {
        (Some(note), Some(rounding)) => is_of(note, rounding),
        (note, rounding) => note.is_none() && rounding.is_none(),
    }
}

/// Returns the note on how a file with these extended attributes was rounded.
pub fn rounding_note(extended: &[(Vec<u8>, Vec<u8>)]) -> Option<&[u8]> {
    extended.iter().find(|(name, note)| name == ROUNDING_ATTRIBUTE && !note.is_empty()).map(|(_, note)| &note[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDING: Rounding =
        Rounding { float: FloatType::F64Be, bound: ErrorBound::Relative(1e-3), missing: Some(1e20) };

    #[test]
    fn what_is_written_is_read_back() {
        for bound in [ErrorBound::Absolute(2.5e300), ErrorBound::Relative(1e-3), ErrorBound::Range(5e-324)] {
            assert_eq!(bound.to_string().parse(), Ok(bound));
        }
        for float in FloatType::ALL {
            assert_eq!(float.to_string().parse(), Ok(float));
            assert_eq!(FloatType::of_element(float.element(), float.is_big_endian()), Some(float));
        }
        assert_eq!("relative:1e-3".parse::<ErrorBound>().unwrap().to_string(), "relative:0.001");
    }

    #[test]
    fn what_bounds_nothing_is_refused() {
        let refused = ["", "relative", "relative:", "relative:0", "relative:1", "range:1.5", "absolute:-1", "1e-3"];
        for text in refused.into_iter().chain(["absolute:inf", "absolute:nan", "absolute:1:2", "Absolute:1"]) {
            let error = text.parse::<ErrorBound>().unwrap_err().to_string();
            assert!(error.contains("absolute:E"), "{error}");
        }
        assert!("f16".parse::<FloatType>().is_err());
    }

    #[test]
    fn a_missing_value_that_no_file_can_have_is_refused() {
        let with = |float, missing| Rounding { float, missing: Some(missing), ..ROUNDING }.checked();
        assert!(with(FloatType::F64, 1e39).is_ok() && with(FloatType::F32, 1e20).is_ok());
        assert!(with(FloatType::F32, f64::NAN).is_ok());
        assert!(with(FloatType::F32, 1e39).unwrap_err().to_string().contains("1e39"));
        assert!(with(FloatType::F64, f64::INFINITY).is_err());
    }

    #[test]
    fn a_note_names_every_rounding_once() {
        let note = ROUNDING.note(0.25, None);
        assert_eq!(String::from_utf8_lossy(&note), "f64be relative:0.001 except 1e20, largest error 0.25");
        assert_eq!(ROUNDING.note(0.0, Some(&note)), note);
        let coarser = Rounding { bound: ErrorBound::Relative(0.1), missing: None, ..ROUNDING };
        let both = coarser.note(0.05, Some(&note));
        assert!(both.starts_with(&note) && both.ends_with(b"; f64be relative:0.1, largest error 0.05"));
        let extended = |note: &[u8]| vec![(ROUNDING_ATTRIBUTE.to_vec(), note.to_vec())];
        assert!(is_rounded_as(&extended(&both), Some(&coarser)) && !is_rounded_as(&extended(&both), Some(&ROUNDING)));
        assert!(!is_rounded_as(&extended(&note), None) && !is_rounded_as(&[], Some(&ROUNDING)));
        assert!(is_rounded_as(&[], None));
    }
}
