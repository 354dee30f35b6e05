//! Measurements made by hand, for tests.

use policy::compression::{CANDIDATES, Data};

use crate::{Measured, Measurement};

pub const MEASURED: Measured = Measured { stored_bytes: 500, encode_ns: 2000, decode_ns: 1000 };

/// Returns a block that the named candidates store in so many bytes, each a microsecond slower than the one before.
pub fn measurement(raw_bytes: usize, stored: &[(usize, usize)]) -> Measurement {
    let mut measured = [None; CANDIDATES.len()];
    for (candidate, stored_bytes) in stored {
        let encode_ns = 1000 * (*candidate as u64 + 1);
        measured[*candidate] = Some(Measured { stored_bytes: *stored_bytes, encode_ns, ..MEASURED });
    }
    Measurement { raw_bytes, data: Data::default(), features: [0.0; segment::FEATURES], measured }
}
