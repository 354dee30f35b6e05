//! Floats of arrays, rounded within a bound.

use format::{ErrorBound, ErrorCode, Rounding};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use segment::{ChunkType, Rounded, Rounder, ValueRange};

use crate::chunk::chunk_type;
use crate::error::{misuse, of_path, text, with_code};

/// Returns the rounded values, and the note on it as files of stores bear it.
#[pyfunction]
#[pyo3(signature = (raw, element, error_bound, missing_value=None))]
pub fn round_values<'py>(
    py: Python<'py>,
    raw: &[u8],
    element: &str,
    error_bound: &Bound<'py, PyAny>,
    missing_value: Option<f64>,
) -> PyResult<(Bound<'py, PyBytes>, String)> {
    let request = request(chunk_type(element)?, &text(error_bound, "error_bound")?, missing_value)?;
    let (values, rounded) = py.detach(|| rounded(request, raw));
    let note = String::from_utf8_lossy(&request.note(rounded.largest_error, None)).into_owned();
    Ok((PyBytes::new(py, &values), note))
}

/// Returns the kind of a bound and its number; an error for what is none.
#[pyfunction]
pub fn parse_error_bound(error_bound: &Bound<'_, PyAny>) -> PyResult<(&'static str, f64)> {
    Ok(match text(error_bound, "error_bound")?.parse().map_err(of_path)? {
        ErrorBound::Absolute(error) => ("absolute", error),
        ErrorBound::Relative(share) => ("relative", share),
        ErrorBound::Range(share) => ("range", share),
    })
}

/// Returns what rounds a chunk, of whose array nothing else is known.
pub fn chunk_rounder(known: ChunkType, error_bound: &str, missing_value: Option<f64>) -> PyResult<Rounder> {
    let request = request(known, error_bound, missing_value)?;
    Rounder::new(&request).ok_or_else(|| {
        with_code::<PyValueError>(
            ErrorCode::EncodingChoice,
            format_args!("{error_bound}: a chunk is not all of its array"),
        )
    })
}

fn request(known: ChunkType, error_bound: &str, missing: Option<f64>) -> PyResult<Rounding> {
    let bound = error_bound.parse().map_err(of_path)?;
    match known.float() {
        Some(float) => {
            // No number of the type is one that it cannot have; arrays of earlier builds may name one.
            let missing = missing.filter(|missing| float.bytes() == 8 || (*missing as f32).is_finite());
            Rounding { float, bound, missing }.checked().map_err(|error| misuse::<PyValueError>(&error))
        }
        None => Err(with_code::<PyTypeError>(
            ErrorCode::EncodingChoice,
            format_args!(
                "{error_bound}: an error bound is for floats of 32 or 64 bits; convert the array, or leave it out"
            ),
        )),
    }
}

fn rounded(request: Rounding, raw: &[u8]) -> (Vec<u8>, Rounded) {
    let mut values = raw.to_vec();
    let rounder = match request.bound {
        ErrorBound::Range(share) => {
            let mut range = ValueRange::new(&request);
            range.add(raw);
            range.bound(share).and_then(|bound| Rounder::new(&Rounding { bound, ..request }))
        }
        _ => Rounder::new(&request),
    };
    let rounded = rounder.map(|rounder| rounder.round(&mut values)).unwrap_or_default();
    (values, rounded)
}
