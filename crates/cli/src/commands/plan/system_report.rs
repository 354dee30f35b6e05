//! What reduction of a user's data would do on a described machine: time, nodes, network, energy, costs.

mod tables;

use laboratory::{Compressed, Cut, Distinct, Surveyed};
use policy::cost::dedup_nodes::{self, DedupNodes};
use policy::cost::machine::Machine;
use policy::cost::recommendation::{self, CutEstimate, Phase};
use policy::cost::write_time::{self, Reduction, WriteTime};

use super::data::{CODECS, Report, saved_share};
use super::table::Table;

pub use tables::keeping_eur;

/// How the files of MPI programs are cut, whatever `put` does in the same store.
const WRITTEN_CUT: Cut = Cut::Fixed(8 << 10);

/// One codec or mode on the machine.
pub struct Case {
    /// None is deduplication alone.
    pub codec: Option<usize>,
    /// What programs write, cut as MPI programs' files are.
    pub reduction: Reduction,
    /// What is put and kept, with the recommended way to cut.
    pub kept: Reduction,
    pub by_writers: WriteTime,
    /// The best number of deduplication nodes; none where equation (5) holds with no number.
    pub dedup_nodes: Option<DedupNodes>,
    pub fewest_dedup_nodes: Option<u64>,
    /// Where it is shortest.
    pub phase: Phase,
}

pub struct SystemReport {
    pub machine: Machine,
    pub cut: Cut,
    pub cases: Vec<Case>,
    /// The number of the recommended case.
    pub chosen: usize,
}

impl SystemReport {
    /// None where there is no byte to go by.
    pub fn of(report: &Report, machine: &Machine) -> Option<Self> {
        let surveyed = &report.surveyed;
        let (cut, found) = choose_cut(surveyed)?;
        let written = surveyed.cuts.iter().find(|(cut, _)| *cut == WRITTEN_CUT).map_or(found, |(_, found)| *found);
        let case = |codec, share, encode_mb_per_s| {
            let reduction = |found: &Distinct| Reduction {
                left_share: 1.0 - saved_share(found, surveyed.bytes as f64),
                // With what a store takes besides blocks.
                encoded_share: report.stored_bytes(found, share) / found.unique_bytes,
                encode_mb_per_s,
            };
            Case::of(codec, [reduction(&written), reduction(&found)], machine)
        };
        let of_codec = |(number, found): (usize, &Option<Compressed>)| {
            let found = found.as_ref()?;
            Some(case(Some(number), Some(found.stored_share), found.mb_per_s * machine.core_speed))
        };
        let with_codecs = surveyed.of_new.iter().enumerate().filter_map(of_codec);
        let cases: Vec<Case> = [case(None, None, f64::INFINITY)].into_iter().chain(with_codecs).collect();
        let phases: Vec<(Reduction, Phase)> = cases.iter().map(|case| (case.kept, case.phase)).collect();
        let chosen = recommendation::choose_reduction(&phases)?;
        Some(SystemReport { machine: machine.clone(), cut, cases, chosen })
    }

    pub fn chosen(&self) -> &Case {
        &self.cases[self.chosen]
    }

    pub fn tables(&self) -> [Table; 4] {
        tables::all(self)
    }

    pub fn unreduced_phase_s(&self) -> f64 {
        recommendation::unreduced_phase_s(&self.machine)
    }
}

impl Case {
    fn of(codec: Option<usize>, [reduction, kept]: [Reduction; 2], machine: &Machine) -> Self {
        Case {
            codec,
            reduction,
            kept,
            by_writers: write_time::reduced_by_writers(machine, &reduction),
            dedup_nodes: dedup_nodes::best(machine, &reduction),
            fewest_dedup_nodes: dedup_nodes::fewest_at_any_speed(machine, &reduction),
            phase: recommendation::shortest_phase(machine, &reduction),
        }
    }

    pub fn name(&self) -> &'static str {
        self.codec.map_or("no codec", |number| CODECS[number].name)
    }
}

/// Returns the recommended way to cut and what it finds. Whole files are no candidate: one byte that changes stores a whole file
/// again, and the data do not show how they will change.
fn choose_cut(surveyed: &Surveyed) -> Option<(Cut, Distinct)> {
    let candidates: Vec<(Cut, Distinct)> =
        surveyed.cuts.iter().copied().filter(|(cut, _)| *cut != Cut::Whole).collect();
    let all = surveyed.bytes as f64;
    let estimate = |(_, found): &(Cut, Distinct)| CutEstimate {
        saved_share: saved_share(found, all),
        error: found.error_bytes / all.max(1.0),
        segments: found.unique_segments,
    };
    let estimates: Vec<CutEstimate> = candidates.iter().map(estimate).collect();
    let chosen = recommendation::choose_cut(&estimates).filter(|_| surveyed.bytes > 0)?;
    Some(candidates[chosen])
}
