//! What a busy core takes above an idle one, for the energy of encodings and of mode `energy`: the same as stores on this machine go by.

use policy::compression::Conditions;

#[derive(Clone, Copy)]
pub enum CoreWatts {
    /// By the processors' counters of energy (W).
    Measured(f32),
    /// The model's, where there are no counters to read, or they made no sense.
    Assumed,
}

impl CoreWatts {
    pub fn of_machine() -> Self {
        segment::core_watts().map_or(CoreWatts::Assumed, CoreWatts::Measured)
    }

    /// Returns the usual conditions with such a core.
    pub fn conditions(self) -> Conditions {
        let usual = Conditions::default();
        match self {
            CoreWatts::Measured(core_watts) => Conditions { core_watts, ..usual },
            CoreWatts::Assumed => usual,
        }
    }

    /// Returns where the watts are from, for programs.
    pub fn source(self) -> &'static str {
        match self {
            CoreWatts::Measured(_) => "rapl",
            CoreWatts::Assumed => "model",
        }
    }

    /// Returns the same for people.
    pub fn legend(self) -> String {
        let source = match self {
            CoreWatts::Measured(_) => "measured here by RAPL",
            CoreWatts::Assumed => "assumed, not measured",
        };
        format!("energy is {:.1} W a busy core ({source}) and 200 nJ a stored byte", self.conditions().core_watts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::runs;
    use super::*;

    #[test]
    fn modes_are_compared_by_measured_watts() {
        let watts = |(_, conditions): &(_, Conditions)| conditions.core_watts;
        let runs = runs(&[1 << 20, 1 << 30], CoreWatts::Measured(4.25));
        assert_eq!(runs.iter().map(watts).collect::<Vec<_>>(), [4.25; 5]);
    }

    #[test]
    fn measured_watts_are_not_taken_for_the_models() {
        let (measured, assumed) = (CoreWatts::Measured(4.25), CoreWatts::Assumed);
        assert_eq!((measured.conditions().core_watts, assumed.conditions()), (4.25, Conditions::default()));
        assert_eq!((measured.source(), assumed.source()), ("rapl", "model"));
        assert_eq!(measured.legend(), "energy is 4.2 W a busy core (measured here by RAPL) and 200 nJ a stored byte");
        assert_eq!(assumed.legend(), "energy is 10.0 W a busy core (assumed, not measured) and 200 nJ a stored byte");
    }
}
