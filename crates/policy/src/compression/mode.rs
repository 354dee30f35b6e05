//! What a user wants of compression: one cost function each, of what an encoding of a block stores and takes.

/// What is to be least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The time until the bytes are where they go.
    Performance,
    /// Time of both directions and bytes, at a fixed price of bytes.
    #[default]
    Balanced,
    /// The bytes, as long as encoding keeps to a least speed.
    Archival,
    /// The energy of processor and transfer, by a model of what a busy core and a stored byte take.
    Energy,
}

/// What encoding a block is expected to give, or gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Stored / raw bytes.
    pub share: f32,
    /// By one core, a raw byte.
    pub encode_ns: f32,
    pub decode_ns: f32,
}

/// Where encoded bytes go, and what is there to encode them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Of the link or disk.
    pub bytes_per_second: f32,
    /// Idle ones.
    pub cores: f32,
    /// What a busy core takes above an idle one (W).
    pub core_watts: f32,
}

impl Default for Conditions {
    /// A local disk, and one core of a server.
    fn default() -> Self {
        Conditions { bytes_per_second: 500e6, cores: 1.0, core_watts: WATTS_PER_CORE }
    }
}

/// Nanoseconds that a stored byte is worth to those who have not said what they want: 10 MB/s, a core's share of a
/// file system that many use, since bytes stay and are read again.
const BALANCED_NS_PER_STORED_BYTE: f32 = 100.0;

/// Slower encodings are not for archives either: 1 MB/s of one core.
const ARCHIVAL_MOST_NS_PER_BYTE: f32 = 1000.0;

/// Of two that store the same the faster one is taken: a microsecond a byte is worth a thousandth of the bytes.
const ARCHIVAL_SHARE_PER_NS: f32 = 1e-6;

/// A busy core of a server's processor, above an idle one, where nobody measured it (W).
const WATTS_PER_CORE: f32 = 10.0;

/// Network and disk together for a byte that passes both, twice: about 5 W at 100 MB/s each (nJ).
const NANOJOULES_PER_STORED_BYTE: f32 = 200.0;

impl Mode {
    /// Whether what is best depends on how fast the machine is; else the same bytes are encoded the same everywhere.
    pub fn follows_machine(self) -> bool {
        matches!(self, Mode::Performance | Mode::Energy)
    }

    /// Returns what is to be least, for each raw byte.
    pub fn cost(self, outcome: &Outcome, conditions: &Conditions) -> f32 {
        let Outcome { share, encode_ns, decode_ns } = *outcome;
        match self {
            Mode::Performance => encode_ns / conditions.cores + share * 1e9 / conditions.bytes_per_second,
            Mode::Balanced => encode_ns + decode_ns + share * BALANCED_NS_PER_STORED_BYTE,
            Mode::Archival => {
                let too_slow = (encode_ns - ARCHIVAL_MOST_NS_PER_BYTE).max(0.0);
                share + encode_ns * ARCHIVAL_SHARE_PER_NS + too_slow
            }
            Mode::Energy => conditions.core_watts * (encode_ns + decode_ns) + share * NANOJOULES_PER_STORED_BYTE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Outcome = Outcome { share: 0.6, encode_ns: 2.0, decode_ns: 0.5 };
    const SMALL: Outcome = Outcome { share: 0.4, encode_ns: 300.0, decode_ns: 3.0 };
    const AS_IT_IS: Outcome = Outcome { share: 1.0, encode_ns: 0.0, decode_ns: 0.0 };

    fn is_first_cheaper(mode: Mode, first: &Outcome, second: &Outcome, bytes_per_second: f32) -> bool {
        let conditions = Conditions { bytes_per_second, ..Conditions::default() };
        mode.cost(first, &conditions) < mode.cost(second, &conditions)
    }

    #[test]
    fn performance_follows_the_link() {
        assert!(is_first_cheaper(Mode::Performance, &SMALL, &QUICK, 100e3));
        assert!(is_first_cheaper(Mode::Performance, &QUICK, &AS_IT_IS, 100e6));
        assert!(is_first_cheaper(Mode::Performance, &AS_IT_IS, &QUICK, 2e9));
    }

    #[test]
    fn archives_are_small_but_not_at_any_price() {
        assert!(is_first_cheaper(Mode::Archival, &SMALL, &QUICK, 2e9));
        let endless = Outcome { encode_ns: 5000.0, ..SMALL };
        assert!(is_first_cheaper(Mode::Archival, &QUICK, &endless, 2e9));
        let as_small = Outcome { encode_ns: 200.0, ..SMALL };
        assert!(is_first_cheaper(Mode::Archival, &as_small, &SMALL, 2e9));
    }

    #[test]
    fn energy_follows_what_a_core_takes() {
        let cost =
            |outcome, core_watts| Mode::Energy.cost(outcome, &Conditions { core_watts, ..Conditions::default() });
        assert!(cost(&SMALL, 0.1) < cost(&QUICK, 0.1) && cost(&QUICK, 10.0) < cost(&SMALL, 10.0));
        assert!(cost(&AS_IT_IS, 100.0) < cost(&QUICK, 100.0));
        assert_eq!(cost(&QUICK, 10.0), Mode::Energy.cost(&QUICK, &Conditions::default()));
    }

    #[test]
    fn balance_and_energy_lie_between() {
        for mode in [Mode::Balanced, Mode::Energy] {
            assert!(is_first_cheaper(mode, &QUICK, &AS_IT_IS, 2e9) && is_first_cheaper(mode, &QUICK, &SMALL, 2e9));
        }
    }
}
