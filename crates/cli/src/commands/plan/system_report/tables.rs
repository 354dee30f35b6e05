//! The tables of the described machine.

use policy::cost::codecs::{self, Codec};
use policy::cost::dedup_nodes::DedupNodes;
use policy::cost::network::{self, Link};
use policy::cost::procurement::{self, Scenario};
use policy::cost::recomputation::{self, EUR_PER_NODE_HOUR, ResultCosts};
use policy::cost::write_time::{Reduction, Stage, phase_joules, unreduced};

use super::{Case, SystemReport};
use crate::commands::plan::table::Cell::{self, Never, Number, Word};
use crate::commands::plan::table::{Table, column};

/// Years over which data are kept.
pub const YEARS: [f64; 3] = [1.0, 5.0, 10.0];

pub fn all(report: &SystemReport) -> [Table; 4] {
    [writing(report), dedup_nodes(report), links(report), costs(report)]
}

fn writing(report: &SystemReport) -> Table {
    let machine = &report.machine;
    let plain_s = report.unreduced_phase_s();
    let joules = |reduction: &Reduction, phase_s| phase_joules(machine, reduction, phase_s);
    let plain_joules = joules(&Reduction::NONE, plain_s);
    let without = unreduced(machine);
    let more = |value: f64, plain: f64| Number(100.0 * (value / plain - 1.0), 1);
    let first = vec![
        Word("unreduced".to_owned()),
        Number(machine.program.written_gb, 1),
        Number(without.seconds, 1),
        Word(stage(without.slowest).to_owned()),
        Number(plain_s, 1),
        Number(0.0, 1),
        Number(plain_joules / 1e9, 3),
        Number(0.0, 1),
    ];
    let row = |case: &Case| {
        let energy = joules(&case.reduction, case.phase.seconds);
        vec![
            Word(case.name().to_owned()),
            Number(machine.program.written_gb * case.reduction.stored_share(), 1),
            Number(case.by_writers.seconds, 1),
            Word(stage(case.by_writers.slowest).to_owned()),
            Number(case.phase.seconds, 1),
            more(case.phase.seconds, plain_s),
            Number(energy / 1e9, 3),
            more(energy, plain_joules),
        ]
    };
    Table {
        name: "writing",
        title: format!(
            "A phase: {} s of computation, then {} GB from {} nodes",
            short(machine.program.compute_s),
            short(machine.program.written_gb),
            short(machine.nodes)
        )
        .into(),
        columns: vec![
            column("codec", "codec or mode", ""),
            column("stored_gb", "stored", "GB"),
            column("write_s", "written", "s"),
            column("waits_for", "waits for", ""),
            column("phase_s", "phase", "s"),
            column("phase_more_percent", "", "+- %"),
            column("energy_gj", "energy", "GJ"),
            column("energy_more_percent", "", "+- %"),
        ],
        rows: [first].into_iter().chain(report.cases.iter().map(row)).collect(),
        notes: vec![
            "cut in segments of 8 KiB, as MPI programs' files are",
            "written: reduced by the writing nodes; phase: reduced where that makes it shorter",
        ],
    }
}

pub fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Network => "network",
        Stage::Cores => "cores",
        Stage::Storage => "storage",
    }
}

/// A number of the title, without digits that say nothing.
pub fn short(value: f64) -> String {
    let digits = if value.abs() >= 100.0 || value.fract() == 0.0 { 0 } else { 2 };
    format!("{value:.digits$}")
}

fn dedup_nodes(report: &SystemReport) -> Table {
    let share = |nodes: f64| Number(100.0 * nodes / report.machine.nodes, 1);
    let row = |case: &Case| {
        let begin = [Word(case.name().to_owned()), Number(1.0 / case.reduction.stored_share(), 2)];
        let fewest = case.fewest_dedup_nodes.map_or(Never("none"), |nodes| share(nodes as f64));
        begin.into_iter().chain([fewest]).chain(of_nodes(case.dedup_nodes.as_ref(), share)).collect()
    };
    Table {
        name: "dedup_nodes",
        title: "Nodes that only deduplicate (DDiHA, equations (5) and (6))".into(),
        columns: vec![
            column("codec", "codec or mode", ""),
            column("reduction", "W/W'", ""),
            column("min_node_share_percent", "least r", "%"),
            column("nodes", "best", "nodes"),
            column("node_share_percent", "r", "%"),
            column("gain", "gain", ""),
            column("reduce_mb_per_s", "C'", "MB/s"),
            column("required_mb_per_s", "needed", "MB/s"),
            column("ahead_s", "hides", "s"),
            column("behind_s", "hidden", "s"),
        ],
        rows: report.cases.iter().map(row).collect(),
        notes: vec![
            "least r: below it (5) cannot hold at any speed; they pay where the gain is above 1",
            "hides: compute nodes compute and send; hidden: deduplication nodes reduce and write meanwhile",
        ],
    }
}

fn of_nodes(found: Option<&DedupNodes>, share: impl Fn(f64) -> Cell) -> Vec<Cell> {
    let Some(found) = found else { return (0..7).map(|_| Never("none")).collect() };
    vec![
        Number(found.nodes, 0),
        share(found.nodes),
        Number(found.gain, 3),
        Number(found.reduce_mb_per_s, 0),
        found.required_mb_per_s.map_or(Never("never"), |required| Number(required, 0)),
        Number(found.compute_s + found.send_s, 1),
        Number(found.reduce_s + found.write_s, 1),
    ]
}

fn links(report: &SystemReport) -> Table {
    const GBIT_PER_MB: f64 = 8.0 / 1000.0;
    let cores = report.machine.cores;
    let own = Link { name: "this link", gbit_per_s: report.machine.link_mb_per_s * GBIT_PER_MB };
    let [_, ethernet, _, fdr, _, hdr] = network::LINKS;
    let all = [own, ethernet, fdr, hdr];
    let row = |name: &str, codec: &Codec| {
        let effective = all.map(|link| Number(network::effective_gbit_per_s(link.gbit_per_s, codec, cores), 1));
        let enough = network::fastest_useful_link_gbit_per_s(codec, cores);
        let enough = if enough.is_finite() { Number(enough, 1) } else { Never("any") };
        [Word(name.to_owned())].into_iter().chain(effective).chain([enough]).collect()
    };
    let of_case = |case: &Case| row(case.name(), &codec_of(case));
    let of_link = |link: Link| {
        let name = link.name.to_lowercase().replace(' ', "_");
        column(format!("{name}_gbit_per_s"), link.name, format!("{:.1}", link.gbit_per_s))
    };
    Table {
        name: "links",
        title: "Raw data from node to node, compressed on the way (Gbit/s)".into(),
        columns: [column("codec", "codec or mode", "")]
            .into_iter()
            .chain(all.map(of_link))
            .chain([column("useful_gbit_per_s", "useful", "up to")])
            .collect(),
        rows: [row("unreduced", &codecs::NONE)].into_iter().chain(report.cases.iter().skip(1).map(of_case)).collect(),
        notes: vec!["useful: beyond it the cores of a node that encode are the limit"],
    }
}

/// Compression alone: what deduplication saves is not known before it is sent.
fn codec_of(case: &Case) -> Codec {
    Codec {
        name: case.name(),
        ratio: 1.0 / case.reduction.encoded_share.min(1.0),
        compress_mb_per_s: case.reduction.encode_mb_per_s,
        decompress_mb_per_s: f64::INFINITY,
    }
}

/// Returns what it costs to keep the data, reduced, for so many years (EUR).
pub fn keeping_eur(report: &SystemReport, reduction: &Reduction, years: f64) -> f64 {
    let costs = ResultCosts {
        stored_tb: report.machine.kept_tb * reduction.stored_share(),
        input_tb: 0.0,
        node_hours: 0.0,
        reads_per_year: 0.0,
        eur_per_tb_year: report.machine.eur_per_tb_year,
        eur_per_node_hour: EUR_PER_NODE_HOUR,
    };
    recomputation::keeping_eur(&costs, years)
}

fn costs(report: &SystemReport) -> Table {
    let kept_tb = report.machine.kept_tb;
    let row = |name: &str, reduction: &Reduction| {
        let bought = Codec { name: "", ratio: 1.0 / reduction.stored_share(), ..codecs::NONE };
        let servers = procurement::purchase(Scenario::FewServers, kept_tb / 1000.0, &bought, &procurement::LECTURE);
        let keeping = YEARS.map(|years| Number(keeping_eur(report, reduction, years), 0));
        [Word(name.to_owned()), Number(kept_tb * reduction.stored_share(), 3)]
            .into_iter()
            .chain(keeping)
            .chain([Number(servers.servers, 0), Number(1e6 * servers.cost_million_eur, 0)])
            .collect()
    };
    let of_years = |years: f64| column(format!("keeping_{years}_years_eur"), format!("{years:.0} a"), "EUR");
    let columns = [column("codec", "codec or mode", ""), column("stored_tb", "stored", "TB")];
    let bought = [column("servers", "buying", "servers"), column("purchase_eur", "", "EUR")];
    Table {
        name: "costs",
        title: format!("Costs of {} TB over the years, at prices that fall as capacity grows", short(kept_tb)).into(),
        columns: columns.into_iter().chain(YEARS.map(of_years)).chain(bought).collect(),
        rows: [row("unreduced", &Reduction::NONE)]
            .into_iter()
            .chain(report.cases.iter().map(|case| row(case.name(), &case.kept)))
            .collect(),
        notes: vec![
            "cut in the recommended way",
            "buying: servers of 1 PB at 16 000 EUR, and 104 EUR a TB of disks (the lecture's 50 PB)",
        ],
    }
}
