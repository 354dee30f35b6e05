//! The draws of the workloads and nodes: the figures of docs/simulation.md rest on them.

#[derive(Clone, Debug)]
pub struct Random(random::Random);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(random::Random::new(seed ^ 0x2545_f491_4f6c_dd1d))
    }

    pub fn below(&mut self, limit: u32) -> u32 {
        (((self.0.next() >> 32) * u64::from(limit)) >> 32) as u32
    }

    pub fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.0.unit()
    }
}
