//! Records into planes: the first bytes of all records, then their second bytes, and so on.
//!
//! Columns of eight, four or two bytes go through a transposition of 8 x 8 bytes in registers, others byte by byte.

/// Rows of a transposition, and bytes of each.
const SIDE: usize = 8;

pub(super) fn encode(from: &[u8], record_bytes: usize, to: &mut [u8]) {
    match record_bytes {
        _ if record_bytes.is_multiple_of(8) => encode_columns::<8>(from, record_bytes, to),
        _ if record_bytes.is_multiple_of(4) => encode_columns::<4>(from, record_bytes, to),
        _ if record_bytes.is_multiple_of(2) => encode_columns::<2>(from, record_bytes, to),
        _ => encode_bytes(from, record_bytes, to),
    }
}

pub(super) fn decode(from: &[u8], record_bytes: usize, to: &mut [u8]) {
    match record_bytes {
        _ if record_bytes.is_multiple_of(8) => decode_columns::<8>(from, record_bytes, to),
        _ if record_bytes.is_multiple_of(4) => decode_columns::<4>(from, record_bytes, to),
        _ if record_bytes.is_multiple_of(2) => decode_columns::<2>(from, record_bytes, to),
        _ => decode_bytes(from, record_bytes, to),
    }
}

fn encode_bytes(from: &[u8], record_bytes: usize, to: &mut [u8]) {
    for (byte, plane) in to.chunks_exact_mut(from.len() / record_bytes).enumerate() {
        for (to, record) in plane.iter_mut().zip(from.chunks_exact(record_bytes)) {
            *to = record[byte];
        }
    }
}

fn decode_bytes(from: &[u8], record_bytes: usize, to: &mut [u8]) {
    for (byte, plane) in from.chunks_exact(from.len() / record_bytes).enumerate() {
        for (record, from) in to.chunks_exact_mut(record_bytes).zip(plane) {
            record[byte] = *from;
        }
    }
}

/// Takes `W` bytes of each record at a time. Each of the eight registers holds those of `8 / W` records, eight apart, so
/// that it is full: after the transposition a register is eight neighbours in a plane.
fn encode_columns<const W: usize>(from: &[u8], record_bytes: usize, to: &mut [u8]) {
    let records = from.len() / record_bytes;
    let group = SIDE * (SIDE / W);
    for column in (0..record_bytes).step_by(W) {
        for first in (0..records / group).map(|number| number * group) {
            let mut rows = [0u64; SIDE];
            for (k, row) in rows.iter_mut().enumerate() {
                for lane in 0..SIDE / W {
                    let at = (first + lane * SIDE + k) * record_bytes + column;
                    *row |= load::<W>(&from[at..at + W]) << (8 * W * lane);
                }
            }
            for (j, row) in transposed(rows).iter().enumerate() {
                let at = (column + j % W) * records + first + j / W * SIDE;
                to[at..at + SIDE].copy_from_slice(&row.to_le_bytes());
            }
        }
        for record in records / group * group..records {
            for byte in column..column + W {
                to[byte * records + record] = from[record * record_bytes + byte];
            }
        }
    }
}

fn decode_columns<const W: usize>(from: &[u8], record_bytes: usize, to: &mut [u8]) {
    let records = from.len() / record_bytes;
    let group = SIDE * (SIDE / W);
    for column in (0..record_bytes).step_by(W) {
        for first in (0..records / group).map(|number| number * group) {
            let rows = std::array::from_fn(|j| {
                let at = (column + j % W) * records + first + j / W * SIDE;
                load::<SIDE>(&from[at..at + SIDE])
            });
            for (k, row) in transposed(rows).iter().enumerate() {
                for lane in 0..SIDE / W {
                    let at = (first + lane * SIDE + k) * record_bytes + column;
                    to[at..at + W].copy_from_slice(&(row >> (8 * W * lane)).to_le_bytes()[..W]);
                }
            }
        }
        for record in records / group * group..records {
            for byte in column..column + W {
                to[record * record_bytes + byte] = from[byte * records + record];
            }
        }
    }
}

fn load<const W: usize>(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..W].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Returns rows of which byte `k` of row `j` is byte `j` of row `k`: squares of 4, 2 and 1 bytes change sides.
fn transposed(mut rows: [u64; SIDE]) -> [u64; SIDE] {
    for (apart, mask) in [(4, 0x0000_0000_ffff_ffff), (2, 0x0000_ffff_0000_ffff), (1, 0x00ff_00ff_00ff_00ff)] {
        for row in (0..SIDE).filter(|row| row & apart == 0) {
            let moved = (rows[row] >> (8 * apart) ^ rows[row + apart]) & mask;
            rows[row + apart] ^= moved;
            rows[row] ^= moved << (8 * apart);
        }
    }
    rows
}
