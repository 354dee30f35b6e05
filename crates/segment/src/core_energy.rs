//! How many watts a core that encodes takes here above an idle one, where processors count their energy. Each process measures it once, before it first
//! encodes in mode `energy`.

use std::sync::LazyLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use policy::{Compression, Encoding};

use crate::energy_counters::EnergyCounters;
use crate::{codec, core_speed};

/// A window of idleness and one of encoding make a round. Other programs begin and end between some of them, which several rounds show.
const WINDOW: Duration = Duration::from_millis(10);
const ROUNDS: usize = 3;

/// What is less or more is not a core's: it is chance, or other programs (W).
const MIN_WATTS: f64 = 1.0;
const MAX_WATTS: f64 = 100.0;

/// Rounds that differ by more have other programs in them.
const MAX_RATIO: f64 = 3.0;

static CORE_WATTS: LazyLock<Option<f32>> = LazyLock::new(|| {
    let (counters, text) = (EnergyCounters::of_machine()?, core_speed::text());
    measured_watts(&counters, &|| sleep(WINDOW), &|| encode_for(WINDOW, &text))
});

/// Returns what a core that encodes takes above an idle one (W); `None` where that cannot be measured. Takes a tenth of a second and more at the first
/// call, and no time where this process may not read counters.
pub fn core_watts() -> Option<f32> {
    *CORE_WATTS
}

fn measured_watts(counters: &EnergyCounters, rest: &dyn Fn(), encode: &dyn Fn()) -> Option<f32> {
    let mut rounds_watts = [0.0; ROUNDS];
    for watts in &mut rounds_watts {
        let idle_watts = counters.watts(rest)?;
        *watts = counters.watts(encode)? - idle_watts;
    }
    mean_if_plausible(rounds_watts)
}

fn mean_if_plausible(rounds_watts: [f64; ROUNDS]) -> Option<f32> {
    let least = rounds_watts.iter().copied().fold(f64::INFINITY, f64::min);
    let is_of_a_core = |watts: &f64| (MIN_WATTS..=MAX_WATTS.min(MAX_RATIO * least)).contains(watts);
    let mean = rounds_watts.iter().sum::<f64>() / ROUNDS as f64;
    rounds_watts.iter().all(is_of_a_core).then_some(mean as f32)
}

fn encode_for(duration: Duration, text: &[u8]) {
    let (begun, encoding) = (Instant::now(), Encoding::from(Compression::Zstd { level: 1 }));
    while begun.elapsed() < duration {
        codec::encoded_bytes(&encoding, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_powercap::MadePowercap;

    /// Windows are longer than on a machine of its own: tests share cores.
    fn measured_of(test: &str, idle_watts: f64, busy_watts: f64) -> Option<f32> {
        let powercap = MadePowercap::new(test);
        powercap.add_zone("intel-rapl:0", "package-0");
        let counters = EnergyCounters::in_directory(powercap.directory()).unwrap();
        powercap.while_counting(|meter| {
            let window_of = |watts| {
                meter.set_watts(watts);
                sleep(4 * WINDOW);
            };
            measured_watts(&counters, &|| window_of(idle_watts), &|| window_of(busy_watts))
        })
    }

    #[test]
    fn a_busy_core_is_told_from_an_idle_one() {
        // On a machine that others use, rounds may disagree.
        let watts = (0..5).find_map(|_| measured_of("busy", 2.0, 22.0));
        assert!(watts.is_some_and(|watts| (10.0..30.0).contains(&watts)), "{watts:?}");
    }

    #[test]
    fn what_is_no_cores_is_no_result() {
        assert_eq!(measured_of("more", 2.0, 400.0), None);
        assert_eq!(measured_of("less", 22.0, 2.0), None);
    }

    #[test]
    fn rounds_must_agree() {
        assert_eq!(mean_if_plausible([12.0, 10.0, 14.0]), Some(12.0));
        for implausible in [
            [12.0, -3.0, 11.0],
            [0.9, 1.1, 1.2],
            [90.0, 101.0, 95.0],
            [3.0, 30.0, 29.0],
            [f64::NAN, 12.0, 12.0],
            [12.0, -f64::NAN, 12.0],
        ] {
            assert_eq!(mean_if_plausible(implausible), None, "{implausible:?}");
        }
    }
}
