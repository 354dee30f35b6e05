//! Data for tests: the same for the same seed, on every machine.

/// A stream of random numbers: xorshift64* (Vigna, 2016).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }
}

pub fn random_bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..length).map(|_| (random.next() >> 56) as u8).collect()
}

/// Returns words drawn from a small vocabulary, the first ones far more often: compresses about as text does.
pub fn text(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut text = Vec::with_capacity(length + 16);
    while text.len() < length {
        let rank = random.below(40) * random.below(40);
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
        let noise = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        bytes.extend((300.0 + 20.0 * (cell as f64 * 0.001).sin() + 0.01 * noise).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
