//! Hilbert's curve over a square of 2^bits: places near each other on it are near each other in the square.

/// Returns where on the curve the cell (x, y) lies (Warren, Hacker's Delight, 16–2, in its iterative form).
pub(super) fn distance(bits: u32, mut x: u32, mut y: u32) -> u64 {
    let mut distance = 0;
    for bit in (0..bits).rev() {
        let side = 1 << bit;
        let (right, upper) = (x & side != 0, y & side != 0);
        let quarter = (3 * u64::from(right)) ^ u64::from(upper);
        distance += quarter << (2 * bit);
        if !upper {
            if right {
                let last = (side << 1).wrapping_sub(1);
                (x, y) = (last.wrapping_sub(x) & last, last.wrapping_sub(y) & last);
            }
            std::mem::swap(&mut x, &mut y);
        }
        x &= side - 1;
        y &= side - 1;
    }
    distance
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn the_curve_visits_each_cell_once_and_steps_to_a_neighbour() {
        for bits in 1..=5 {
            let side = 1u32 << bits;
            let mut cells: Vec<(u64, u32, u32)> = (0..side * side)
                .map(|cell| (distance(bits, cell % side, cell / side), cell % side, cell / side))
                .collect();
            cells.sort_unstable();
            for (at, pair) in cells.windows(2).enumerate() {
                assert_eq!(pair[0].0, at as u64);
                assert_eq!(pair[0].1.abs_diff(pair[1].1) + pair[0].2.abs_diff(pair[1].2), 1);
            }
        }
    }
}
