//! Where this process's encoded bytes go, as its doors measured it, and what a core takes.

use std::sync::{PoisonError, RwLock};

use policy::compression::{Conditions, Mode};

use crate::core_energy;

static NOW: RwLock<Option<Conditions>> = RwLock::new(None);

/// Says how fast the link or disk is and how many cores are idle; mode `performance` weighs them. What a core takes is
/// measured where mode `energy` weighs it, whatever is said here.
pub fn set_conditions(conditions: Conditions) {
    *NOW.write().unwrap_or_else(PoisonError::into_inner) = Some(conditions);
}

/// Returns what `mode` weighs.
pub(crate) fn now(mode: Mode) -> Conditions {
    let said = NOW.read().unwrap_or_else(PoisonError::into_inner).unwrap_or_default();
    weighed(mode, said, core_energy::core_watts)
}

/// Only mode `energy` waits for a measurement.
fn weighed(mode: Mode, said: Conditions, measured_core_watts: impl FnOnce() -> Option<f32>) -> Conditions {
    let core_watts = if mode == Mode::Energy { measured_core_watts() } else { None };
    Conditions { core_watts: core_watts.unwrap_or(said.core_watts), ..said }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: Conditions = Conditions { bytes_per_second: 1e6, cores: 3.0, core_watts: 10.0 };

    #[test]
    fn energy_weighs_measured_watts_where_there_are_some() {
        assert_eq!(weighed(Mode::Energy, SAID, || Some(4.0)), Conditions { core_watts: 4.0, ..SAID });
        assert_eq!(weighed(Mode::Energy, SAID, || None), SAID);
    }

    #[test]
    fn other_modes_do_not_wait_for_a_measurement() {
        for mode in [Mode::Performance, Mode::Balanced, Mode::Archival] {
            assert_eq!(weighed(mode, SAID, || panic!("{mode:?} measures")), SAID);
        }
    }
}
