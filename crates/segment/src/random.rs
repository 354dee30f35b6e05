//! Data for tests: the same for the same seed, on every machine.

use random::Random;

pub fn random_bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..length).map(|_| (random.next() >> 56) as u8).collect()
}

/// Returns words drawn from a small vocabulary, the first ones far more often: compresses about as text does.
pub fn text(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut text = Vec::with_capacity(length + 16);
    while text.len() < length {
        let rank = random.index(40) * random.index(40);
        let word = Random::new(rank as u64 + 1).next();
        text.extend((0..2 + rank % 7).map(|letter| b'a' + (word >> (8 * letter)) as u8 % 26));
        text.push(b' ');
    }
    text.truncate(length);
    text
}

/// Returns doubles along a wave, with noise far below its height: a simulation's field.
pub fn field(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(length + 8);
    for cell in 0..length.div_ceil(8) {
        let noise = random.unit();
        bytes.extend((300.0 + 20.0 * (cell as f64 * 0.001).sin() + 0.01 * noise).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
