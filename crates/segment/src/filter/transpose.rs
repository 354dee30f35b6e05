//! Squares of eight times eight, turned over in registers: no instructions but those of every processor.

/// Returns word j made of the bytes j of all words, in order. Twice is the same again.
#[inline(always)]
pub(super) fn bytes([mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h]: [u64; 8]) -> [u64; 8] {
    const MASK: u64 = 0x0000_0000_ffff_ffff;
    exchange(&mut a, &mut e, 32, MASK);
    exchange(&mut b, &mut f, 32, MASK);
    exchange(&mut c, &mut g, 32, MASK);
    exchange(&mut d, &mut h, 32, MASK);
    let [a, b, c, d] = halves([a, b, c, d]);
    let [e, f, g, h] = halves([e, f, g, h]);
    [a, b, c, d, e, f, g, h]
}

/// As [`bytes`], for two squares of four times four: in the low halves of the words, and in the high ones.
#[inline(always)]
pub(super) fn halves([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    exchange(&mut a, &mut c, 16, 0x0000_ffff_0000_ffff);
    exchange(&mut b, &mut d, 16, 0x0000_ffff_0000_ffff);
    exchange(&mut a, &mut b, 8, 0x00ff_00ff_00ff_00ff);
    exchange(&mut c, &mut d, 8, 0x00ff_00ff_00ff_00ff);
    [a, b, c, d]
}

/// Exchanges the masked bits of `second` with those `shift` higher of `first`.
#[inline(always)]
fn exchange(first: &mut u64, second: &mut u64, shift: u32, mask: u64) {
    let exchanged = ((*first >> shift) ^ *second) & mask;
    *second ^= exchanged;
    *first ^= exchanged << shift;
}

/// Returns byte j made of the bits j of all bytes, in order. Twice is the same again.
#[inline(always)]
pub(super) fn bits(mut word: u64) -> u64 {
    for (shift, mask) in [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)] {
        let exchanged = (word ^ (word >> shift)) & mask;
        word ^= exchanged ^ (exchanged << shift);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns() {
        let words: [u64; 8] =
            std::array::from_fn(|row| u64::from_le_bytes(std::array::from_fn(|at| (row * 16 + at) as u8)));
        for (row, word) in bytes(words).into_iter().enumerate() {
            assert_eq!(word.to_le_bytes(), std::array::from_fn(|at| (at * 16 + row) as u8));
        }
        assert_eq!(bytes(bytes(words)), words);
    }

    #[test]
    fn bit_j_of_byte_i_becomes_bit_i_of_byte_j() {
        for (byte, bit) in (0..8).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
            assert_eq!(bits(1 << (8 * byte + bit)), 1 << (8 * bit + byte));
        }
    }
}
