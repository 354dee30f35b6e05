//! Floats of a file, rounded between the disk and the packer.

use std::os::fd::BorrowedFd;

use format::{ErrorBound, ROUNDING_ATTRIBUTE, Rounding, rounding_note};
use rustix::io::Result;
use segment::{Rounded, Rounder, ValueRange};

use super::content;
use crate::shown;

/// The rounding of one file, and what it came to so far.
#[derive(Clone, Copy, Debug)]
pub struct FileRounding {
    pub request: Rounding,
    /// None where all values are the same, of whose range nothing is a share.
    rounder: Option<Rounder>,
    pub met: Rounded,
}

impl FileRounding {
    /// Begins a file of `bytes` bytes; reads it all once where the bound is a share of its values' range.
    pub fn of_file(request: Rounding, file: BorrowedFd, bytes: u64, buffer: &mut [u8]) -> Result<Self> {
        let ErrorBound::Range(share) = request.bound else { return Ok(FileRounding::of_stream(request)) };
        let (mut range, mut offset) = (ValueRange::new(&request), 0);
        while offset < bytes {
            let most = (bytes - offset).min(buffer.len() as u64) as usize;
            let count = content::fill(file, &mut buffer[..most], offset)?;
            range.add(&buffer[..count]);
            offset += count as u64;
            if count < most {
                break;
            }
        }
        let rounder = range.bound(share).and_then(|bound| Rounder::new(&Rounding { bound, ..request }));
        Ok(FileRounding { request, rounder, met: Rounded::default() })
    }

    /// Begins what can be read once only. A share of the range rounds nothing then: callers refuse it.
    pub fn of_stream(request: Rounding) -> Self {
        FileRounding { request, rounder: Rounder::new(&request), met: Rounded::default() }
    }

    /// Rounds the next values.
    pub fn round(&mut self, values: &mut [u8]) {
        if let Some(rounder) = &self.rounder {
            self.met.add(rounder.round(values));
        }
    }

    /// Leaves a note in the file's extended attributes, which are in the order of their names.
    pub fn note_in(&self, extended: &mut Vec<(Vec<u8>, Vec<u8>)>) {
        let note = self.request.note(self.met.largest_error, rounding_note(extended));
        extended.retain(|(name, _)| name != ROUNDING_ATTRIBUTE);
        extended.push((ROUNDING_ATTRIBUTE.to_vec(), note));
        extended.sort();
    }
}

/// Returns why the end of what comes in so many bytes at last is no whole value.
pub fn end_not_whole(request: &Rounding, bytes: u64) -> Option<String> {
    not_whole(request, bytes % request.float.bytes() as u64)
}

/// Returns why so many bytes are not whole values.
pub fn not_whole(request: &Rounding, bytes: u64) -> Option<String> {
    let value_bytes = request.float.bytes() as u64;
    (!bytes.is_multiple_of(value_bytes)).then(|| {
        let bytes = shown::count(bytes, "byte");
        format!("{bytes} are not whole values of {} ({value_bytes} bytes each); is --type right?", request.float)
    })
}

/// `1048576 values altered, largest error 9.8e-4`.
pub fn shown(rounded: &Rounded) -> String {
    let altered = shown::count(rounded.altered, "value");
    format!("{altered} altered, largest error {}", at_least(rounded.largest_error))
}

/// Two digits of a number that is nowhere less than it.
fn at_least(error: f64) -> String {
    let near = format!("{error:.1e}");
    let is_below = near.parse::<f64>().is_ok_and(|near| near < error);
    let (digits, exponent) = near.split_once('e').unwrap_or((&near, "0"));
    match digits.parse::<f64>() {
        // 9.9 becomes 10.0, which is as right and as readable.
        Ok(digits) if is_below => format!("{:.1}e{exponent}", digits + 0.1),
        _ => near,
    }
}

#[cfg(test)]
mod tests {
    use super::at_least;

    #[test]
    fn an_error_is_never_printed_smaller_than_it_is() {
        for (error, printed) in
            [(0.0, "0e0"), (9.8e-4, "9.8e-4"), (9.81e-4, "9.9e-4"), (0.25, "2.5e-1"), (9.95e5, "1.0e6")]
        {
            let shown = at_least(error);
            assert!(shown.parse::<f64>().unwrap() >= error, "{shown}");
            assert_eq!(shown.parse::<f64>().unwrap(), printed.parse::<f64>().unwrap(), "{shown}");
        }
    }
}
