//! How long a phase's output takes to be written, and what slows it: unreduced, or reduced by the nodes that write.
//!
//! Stages of one pipeline overlap, so that the slowest counts, after **DDiHA** (Chen, Bastnagel, Chen 2013), equation (5), and
//! `policy::reduction`, which decides by the same sums for one client. Cores of the program do not overlap with it: they add.

use super::machine::Machine;

/// What reduction makes of the data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// The share of the bytes that deduplication leaves.
    pub left_share: f64,
    /// The share of those that compression leaves.
    pub encoded_share: f64,
    /// What a core encodes of them.
    pub encode_mb_per_s: f64,
}

/// What a pipeline waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Network,
    Cores,
    Storage,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteTime {
    pub seconds: f64,
    /// The stage that takes longest.
    pub slowest: Stage,
}

impl Reduction {
    /// Neither deduplication nor compression.
    pub const NONE: Reduction = Reduction { left_share: 1.0, encoded_share: 1.0, encode_mb_per_s: f64::INFINITY };

    /// Returns stored bytes for each raw byte.
    pub fn stored_share(&self) -> f64 {
        self.left_share * self.encoded_share
    }

    /// Returns the seconds that a core takes for a MB: all is cut and fingerprinted, what is new is encoded.
    pub fn core_s_per_mb(&self, fingerprint_mb_per_s: f64) -> f64 {
        1.0 / fingerprint_mb_per_s + self.left_share / self.encode_mb_per_s
    }
}

/// Returns the time to write a phase's output as it is.
pub fn unreduced(machine: &Machine) -> WriteTime {
    slowest([(carrying_s(machine, 1.0), Stage::Network), (storing_s(machine, 1.0), Stage::Storage)])
}

/// Returns the time to write it when the nodes that write reduce it: on idle cores beside sending and storing, or else on all
/// cores, before that.
pub fn reduced_by_writers(machine: &Machine, reduction: &Reduction) -> WriteTime {
    let stored = reduction.stored_share();
    let onwards = [(carrying_s(machine, stored), Stage::Network), (storing_s(machine, stored), Stage::Storage)];
    let core_s = machine.written_mb() * reduction.core_s_per_mb(machine.fingerprint_mb_per_s);
    if machine.idle_cores > 0.0 {
        let [carrying, storing] = onwards;
        return slowest([carrying, storing, (core_s / (machine.nodes * machine.idle_cores), Stage::Cores)]);
    }
    let reducing_s = core_s / (machine.nodes * machine.cores);
    let WriteTime { seconds, slowest: stage } = slowest(onwards);
    let slowest = if reducing_s > seconds { Stage::Cores } else { stage };
    WriteTime { seconds: seconds + reducing_s, slowest }
}

fn carrying_s(machine: &Machine, share: f64) -> f64 {
    machine.written_mb() * share / (machine.nodes * machine.link_mb_per_s)
}

fn storing_s(machine: &Machine, share: f64) -> f64 {
    machine.written_mb() * share / machine.storage_mb_per_s_of(machine.nodes)
}

fn slowest<const COUNT: usize>(stages: [(f64, Stage); COUNT]) -> WriteTime {
    let longest = stages.into_iter().max_by(|one, other| one.0.total_cmp(&other.0));
    let (seconds, slowest) = longest.expect("a pipeline has stages");
    WriteTime { seconds, slowest }
}

/// Returns the joules of a phase of so many seconds: all nodes, busy cores above idle ones, and stored bytes.
pub fn phase_joules(machine: &Machine, reduction: &Reduction, phase_s: f64) -> f64 {
    let written_mb = machine.written_mb();
    let is_reduced = *reduction != Reduction::NONE;
    let core_s = if is_reduced { written_mb * reduction.core_s_per_mb(machine.fingerprint_mb_per_s) } else { 0.0 };
    let stored_bytes = written_mb * 1e6 * reduction.stored_share();
    let nodes_j = machine.nodes * machine.node_watts * phase_s;
    nodes_j + machine.core_watts * core_s + machine.stored_nanojoules * 1e-9 * stored_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::machine::Program;

    /// 10 nodes of 4 cores write 1 TB over 1 GB/s each into 2 GB/s.
    fn machine() -> Machine {
        let program = Program { compute_s: 1000.0, written_gb: 1000.0, phases: 10.0 };
        let of_nodes = Machine { nodes: 10.0, cores: 4.0, fingerprint_mb_per_s: 1000.0, program, ..Machine::default() };
        Machine { link_mb_per_s: 1000.0, storage_mb_per_s: 2000.0, node_storage_mb_per_s: 500.0, ..of_nodes }
    }

    const HALF: Reduction = Reduction { left_share: 0.5, encoded_share: 0.5, encode_mb_per_s: 250.0 };

    #[test]
    fn unreduced_data_wait_for_the_storage_or_the_network() {
        assert_eq!(unreduced(&machine()), WriteTime { seconds: 500.0, slowest: Stage::Storage });
        let slow_links = Machine { link_mb_per_s: 100.0, ..machine() };
        assert_eq!(unreduced(&slow_links), WriteTime { seconds: 1000.0, slowest: Stage::Network });
        let few = Machine { nodes: 2.0, ..machine() };
        assert_eq!(unreduced(&few).seconds, 1000.0, "two nodes get 500 MB/s each");
    }

    #[test]
    fn cores_of_the_program_add_and_idle_ones_overlap() {
        // A MB takes a core 1/1000 + 0.5/250 s: 3000 core s; a quarter is stored.
        let busy = reduced_by_writers(&machine(), &HALF);
        assert!((busy.seconds - (125.0 + 75.0)).abs() < 1e-9 && busy.slowest == Stage::Storage, "{busy:?}");
        let idle = reduced_by_writers(&Machine { idle_cores: 4.0, ..machine() }, &HALF);
        assert!((idle.seconds - 125.0).abs() < 1e-9, "{idle:?}");
        let one = reduced_by_writers(&Machine { idle_cores: 1.0, ..machine() }, &HALF);
        assert!((one.seconds - 300.0).abs() < 1e-9 && one.slowest == Stage::Cores, "{one:?}");
    }

    #[test]
    fn energy_is_that_of_nodes_cores_and_stored_bytes() {
        let machine = Machine { node_watts: 100.0, core_watts: 10.0, stored_nanojoules: 200.0, ..machine() };
        assert!((phase_joules(&machine, &HALF, 1200.0) - (1.2e6 + 30_000.0 + 50_000.0)).abs() < 1e-6);
        assert!((phase_joules(&machine, &Reduction::NONE, 1500.0) - (1.5e6 + 200_000.0)).abs() < 1e-6);
    }
}
