//! Chunks of arrays, for codecs of Zarr and numcodecs.

use format::{CodecChoice, ElementId};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use segment::ChunkType;

use crate::error::{misuse, numbered, of_path, text};
use crate::rounding::chunk_rounder;

/// `element` is a type as docs/format.md lists them, such as f64, with `be` behind it where it is big-endian. With an error bound, absolute or relative, it is one of floats, which
/// are rounded first; `is_rounded` says that floats were rounded before, and changes the choice of the codec only.
#[pyfunction]
#[pyo3(signature = (raw, element, record_length, codec, error_bound=None, missing_value=None, is_rounded=false))]
#[allow(clippy::too_many_arguments)]
pub fn encode_chunk<'py>(
    py: Python<'py>,
    raw: &[u8],
    element: &str,
    record_length: u32,
    codec: &str,
    error_bound: Option<&str>,
    missing_value: Option<f64>,
    is_rounded: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let choice = choice(codec)?;
    let known = ChunkType { record_length, ..chunk_type(element)? };
    if raw.len() > segment::MAX_BLOCK_BYTES {
        let (bytes, limit) = (raw.len(), segment::MAX_BLOCK_BYTES);
        let why = format!("a chunk of {bytes} bytes is longer than {limit}: make the array's chunks smaller");
        return Err(misuse::<PyValueError>(why));
    }
    let rounder = error_bound.map(|bound| chunk_rounder(known, bound, missing_value)).transpose()?;
    let encoded = py.detach(|| match rounder {
        Some(rounder) => segment::encode_rounded_chunk(raw, &rounder, known, choice),
        None if is_rounded => segment::encode_chunk_of_rounded(raw, known, choice),
        None => segment::encode_chunk(raw, known, choice),
    });
    Ok(PyBytes::new(py, &encoded))
}

/// An error where there are more than `max_bytes`.
#[pyfunction]
pub fn decode_chunk<'py>(py: Python<'py>, chunk: &[u8], max_bytes: usize) -> PyResult<Bound<'py, PyBytes>> {
    let raw = py
        .detach(|| segment::decode_chunk(chunk, max_bytes))
        .map_err(|error| numbered(libc::EIO, error.code(), &error))?;
    Ok(PyBytes::new(py, &raw))
}

/// Refuses a codec's name that this program does not have.
#[pyfunction]
pub fn check_codec(codec: &Bound<'_, PyAny>) -> PyResult<()> {
    choice(&text(codec, "codec")?).map(drop)
}

fn choice(codec: &str) -> PyResult<CodecChoice> {
    codec.parse().map_err(of_path)
}

/// Returns what chunks of elements with this name consist of.
pub fn chunk_type(name: &str) -> PyResult<ChunkType> {
    let (little, is_big_endian) = match name.strip_suffix("be") {
        Some(little) => (little, true),
        None => (name, false),
    };
    let is_named = |element: &ElementId| format!("{element:?}").eq_ignore_ascii_case(little);
    match ElementId::ALL.into_iter().find(is_named) {
        Some(element) if !(is_big_endian && element == ElementId::U8) => {
            Ok(ChunkType { element, is_big_endian, record_length: 0 })
        }
        _ => Err(misuse::<PyValueError>(format_args!("{name:?} is no element type: see docs/format.md, blocks"))),
    }
}
