//! Whether some of a machine's nodes should do nothing but reduce what the others write, and how many: **DDiHA** (Chen,
//! Bastnagel, Chen 2013), equations (5) and (6), for whole nodes.
//!
//! Two things that the paper leaves out are taken in, as they are there on every machine: few nodes that write may each get
//! more of the storage than all nodes would, and what compute nodes send must fit through the links of those that receive it.

use super::ddiha::{self, Application, Deduplication};
use super::machine::Machine;
use super::write_time::Reduction;

/// What so many deduplication nodes give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DedupNodes {
    /// Nodes that reduce, of all; their share is the paper's *r*.
    pub nodes: f64,
    /// *Δ* by (6): performance with / without.
    pub gain: f64,
    /// *C'*: what a deduplication node reduces.
    pub reduce_mb_per_s: f64,
    /// The least *C'* with which (5) holds; none where no speed is enough.
    pub required_mb_per_s: Option<f64>,
    /// What compute nodes do in a phase (s): compute, then send.
    pub compute_s: f64,
    pub send_s: f64,
    /// What deduplication nodes do meanwhile (s): reduce, then write.
    pub reduce_s: f64,
    pub write_s: f64,
}

impl DedupNodes {
    /// Tells whether (5) holds: reduction and its writing are hidden behind the next phase.
    pub fn is_hidden(&self) -> bool {
        self.reduce_s + self.write_s <= self.compute_s + self.send_s
    }

    /// Returns how long a phase lasts: where (5) does not hold, compute nodes wait.
    pub fn phase_s(&self) -> f64 {
        (self.compute_s + self.send_s).max(self.reduce_s + self.write_s)
    }
}

/// Returns what so many of the machine's nodes give as deduplication nodes; the number lies above 0 and below all.
pub fn with_nodes(machine: &Machine, reduction: &Reduction, nodes: f64) -> DedupNodes {
    let (application, deduplication) = symbols(machine, reduction, nodes);
    let Application { workload_mb, compute_mb_per_s, storage_mb_per_s, .. } = application;
    let Deduplication { node_share, reduce_mb_per_s, network_mb_per_s, reduction: times } = deduplication;
    let compute_nodes = machine.nodes - nodes;
    // (6) compares with nodes that all write.
    let without =
        Application { storage_mb_per_s: machine.storage_mb_per_s_of(machine.nodes) / machine.nodes, ..application };
    DedupNodes {
        nodes,
        gain: ddiha::equation_6(&without, node_share, network_mb_per_s),
        reduce_mb_per_s,
        required_mb_per_s: ddiha::equation_5_required_mb_per_s(&application, node_share, network_mb_per_s, times),
        compute_s: workload_mb / (compute_nodes * compute_mb_per_s),
        send_s: workload_mb / (compute_nodes * network_mb_per_s),
        reduce_s: workload_mb / (nodes * reduce_mb_per_s),
        write_s: workload_mb / times / (nodes * storage_mb_per_s),
    }
}

/// Returns the number of deduplication nodes of the largest gain among those with which (5) holds; none where it holds with no number,
/// or with none that leaves a node to compute.
pub fn best(machine: &Machine, reduction: &Reduction) -> Option<DedupNodes> {
    let all = (1..machine.nodes as u64).map(|nodes| with_nodes(machine, reduction, nodes as f64));
    all.filter(DedupNodes::is_hidden).max_by(|one, other| one.gain.total_cmp(&other.gain))
}

/// Returns the least number of deduplication nodes with which (5) can hold at all, however fast they are; below it what is left takes longer to
/// write than a phase takes.
pub fn fewest_at_any_speed(machine: &Machine, reduction: &Reduction) -> Option<u64> {
    let can_hold = |nodes: &u64| with_nodes(machine, reduction, *nodes as f64).required_mb_per_s.is_some();
    (1..machine.nodes as u64).find(can_hold)
}

/// The paper's symbols for a machine of which so many nodes deduplicate.
fn symbols(machine: &Machine, reduction: &Reduction, nodes: f64) -> (Application, Deduplication) {
    let workload_mb = machine.written_mb();
    let application = Application {
        nodes: machine.nodes,
        workload_mb,
        compute_mb_per_s: workload_mb / (machine.nodes * machine.program.compute_s),
        storage_mb_per_s: machine.storage_mb_per_s_of(nodes) / nodes,
        phases: machine.program.phases,
    };
    let received = machine.receive_mb_per_s * nodes / (machine.nodes - nodes);
    let deduplication = Deduplication {
        node_share: nodes / machine.nodes,
        reduce_mb_per_s: machine.cores / reduction.core_s_per_mb(machine.fingerprint_mb_per_s),
        network_mb_per_s: machine.link_mb_per_s.min(received),
        reduction: 1.0 / reduction.stored_share(),
    };
    (application, deduplication)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::ddiha::{JAGUAR_GTC, NETWORK_MB_PER_S};
    use crate::cost::machine::Program;

    /// The paper's machine: every node gets its 4.67 MB/s of the storage, whoever else writes.
    fn jaguar() -> Machine {
        let Application { nodes, workload_mb, compute_mb_per_s, storage_mb_per_s, phases } = JAGUAR_GTC;
        let compute_s = workload_mb / (nodes * compute_mb_per_s);
        Machine {
            nodes,
            cores: 1.0,
            fingerprint_mb_per_s: f64::INFINITY,
            link_mb_per_s: NETWORK_MB_PER_S,
            receive_mb_per_s: f64::INFINITY,
            storage_mb_per_s: nodes * storage_mb_per_s,
            node_storage_mb_per_s: storage_mb_per_s,
            program: Program { compute_s, written_gb: workload_mb / 1000.0, phases },
            ..Machine::default()
        }
    }

    fn reduced(times: f64) -> Reduction {
        Reduction { left_share: 1.0, encoded_share: 1.0 / times, encode_mb_per_s: 65.0 }
    }

    #[test]
    fn the_number_is_the_papers_share_of_the_nodes_rounded_up() {
        for times in [4.0, 8.0, 16.0] {
            let found = best(&jaguar(), &reduced(times)).unwrap();
            let with = Deduplication {
                node_share: 0.0,
                reduce_mb_per_s: 65.0,
                network_mb_per_s: NETWORK_MB_PER_S,
                reduction: times,
            };
            let share = ddiha::equation_5_min_node_share(&JAGUAR_GTC, &with);
            assert_eq!(found.nodes, (share * 1366.0).ceil(), "{times}: {found:?}");
            assert_eq!(found.gain, ddiha::equation_6(&JAGUAR_GTC, found.nodes / 1366.0, NETWORK_MB_PER_S));
        }
    }

    #[test]
    fn slow_links_of_the_nodes_that_receive_take_the_gain_away() {
        let links = Machine { receive_mb_per_s: NETWORK_MB_PER_S, ..jaguar() };
        let (found, without) = (best(&links, &reduced(16.0)).unwrap(), best(&jaguar(), &reduced(16.0)).unwrap());
        assert!(without.gain > 1.15 && found.gain < 1.02 && found.nodes > 2.0 * without.nodes, "{found:?}");
    }

    #[test]
    fn the_best_number_beats_every_other_that_hides_its_work() {
        let (machine, reduction) = (Machine { nodes: 100.0, ..jaguar() }, reduced(6.0));
        let found = best(&machine, &reduction).unwrap();
        assert!(found.is_hidden() && found.required_mb_per_s.unwrap() <= found.reduce_mb_per_s);
        for nodes in 1..100 {
            let other = with_nodes(&machine, &reduction, f64::from(nodes));
            assert!(!other.is_hidden() || other.gain <= found.gain, "{other:?}");
        }
    }

    #[test]
    fn below_the_fewest_no_speed_is_enough() {
        let (machine, reduction) = (jaguar(), reduced(2.0));
        let fewest = fewest_at_any_speed(&machine, &reduction).unwrap() as f64;
        let fast = Reduction { encode_mb_per_s: 1e12, ..reduction };
        assert!(with_nodes(&machine, &fast, fewest).is_hidden());
        assert!(!with_nodes(&machine, &fast, fewest - 1.0).is_hidden());
    }

    #[test]
    fn a_machine_of_one_node_has_none_to_give() {
        assert_eq!(best(&Machine { nodes: 1.0, ..jaguar() }, &reduced(4.0)), None);
        assert_eq!(fewest_at_any_speed(&Machine { nodes: 1.0, ..jaguar() }, &reduced(4.0)), None);
    }

    #[test]
    fn where_reduction_is_not_hidden_compute_nodes_wait() {
        let slow = with_nodes(&jaguar(), &Reduction { encode_mb_per_s: 1.0, ..reduced(4.0) }, 20.0);
        assert!(!slow.is_hidden() && slow.phase_s() == slow.reduce_s + slow.write_s);
    }
}
