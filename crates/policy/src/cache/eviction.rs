//! The order of eviction from a full cache: one number a replica, and the lowest goes.
//!
//! The source had LRU, FIFO, random and LFU classes, of which only the first two ran; size-aware is GreedyDual-Size
//! with unit cost (Cao and Irani, 1997): a replica is worth the cache's inflation plus one over its size.

use std::str::FromStr;

/// The order in which replicas leave a full cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The one used longest ago.
    Lru,
    /// The one used least often; among equals the one used longest ago.
    Lfu,
    /// The one that came first: the baseline.
    Fifo,
    /// Any, by a seeded draw when it comes.
    Random,
    /// The largest of those not used for long: GreedyDual-Size.
    SizeAware,
}

impl Eviction {
    pub const ALL: [Eviction; 5] =
        [Eviction::Lru, Eviction::Lfu, Eviction::Fifo, Eviction::Random, Eviction::SizeAware];

    pub fn name(self) -> &'static str {
        match self {
            Eviction::Lru => "lru",
            Eviction::Lfu => "lfu",
            Eviction::Fifo => "fifo",
            Eviction::Random => "random",
            Eviction::SizeAware => "size-aware",
        }
    }
}

impl FromStr for Eviction {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Eviction::ALL.into_iter().find(|eviction| eviction.name() == name);
        found.ok_or_else(|| format!("no eviction is named {name}: lru, lfu, fifo, random or size-aware"))
    }
}

/// Hands out priorities: stamps that only grow, and draws.
pub(super) struct Priorities {
    eviction: Eviction,
    stamp: u64,
    draws: u64,
}

/// Bits of an LFU priority that order equals by their last use; 2⁴⁰ uses of all caches together.
const STAMP_BITS: u32 = 40;

impl Priorities {
    pub fn new(eviction: Eviction, seed: u64) -> Self {
        Priorities { eviction, stamp: 0, draws: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// For a replica of `bytes` that comes into a cache of this inflation.
    pub fn of_new(&mut self, bytes: u64, inflation: u64) -> u64 {
        self.stamp += 1;
        match self.eviction {
            Eviction::Lru | Eviction::Fifo => self.stamp,
            Eviction::Lfu => 1 << STAMP_BITS | self.stamp,
            Eviction::Random => self.draw(),
            Eviction::SizeAware => tuner(bytes, inflation),
        }
    }

    /// For a replica that was used once more; `before` is what it had.
    pub fn of_used(&mut self, before: u64, bytes: u64, inflation: u64) -> u64 {
        match self.eviction {
            Eviction::Fifo | Eviction::Random => before,
            Eviction::Lru => {
                self.stamp += 1;
                self.stamp
            }
            Eviction::Lfu => {
                self.stamp += 1;
                ((before >> STAMP_BITS) + 1) << STAMP_BITS | self.stamp
            }
            Eviction::SizeAware => tuner(bytes, inflation),
        }
    }

    /// For a replica whose item is of another size than was known.
    pub fn of_resized(&self, before: u64, bytes: u64, inflation: u64) -> u64 {
        if self.eviction == Eviction::SizeAware { tuner(bytes, inflation) } else { before }
    }

    /// Returns a cache's inflation after a replica of this priority leaves it.
    pub fn inflation(&self, before: u64, victim: u64) -> u64 {
        if self.eviction == Eviction::SizeAware { before.max(victim) } else { before }
    }

    /// xorshift64* (Vigna, 2016).
    fn draw(&mut self) -> u64 {
        self.draws ^= self.draws >> 12;
        self.draws ^= self.draws << 25;
        self.draws ^= self.draws >> 27;
        self.draws.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// Bits of a positive double are ordered as the double is.
fn tuner(bytes: u64, inflation: u64) -> u64 {
    (f64::from_bits(inflation) + 1.0 / bytes.max(1) as f64).to_bits()
}
