//! The tables of `thalweg plan --tables`: `policy::cost` for the sources' own inputs.

use policy::cost::codecs::{self, Codec};
use policy::cost::compression::{self, LZ4_RATIO};
use policy::cost::ddiha::{self, Deduplication, JAGUAR_GTC, NETWORK_MB_PER_S};
use policy::cost::dedup_table;
use policy::cost::deduplication::{self, Change, Outcome, SAVINGS};
use policy::cost::energy::MODIFIED_IOR;
use policy::cost::network::{self, LINKS, NODE_CORES};
use policy::cost::procurement::{self, CAPACITY_PB, Scenario};
use policy::cost::recomputation::{self, EUR_PER_NODE_HOUR, EUR_PER_TB_YEAR, ResultCosts};
use policy::cost::system::System;

use super::table::Cell::{Marked, Never, Number, Word};
use super::table::{Cell, Table, column};

/// Codecs of the tables of links and of 50 PB.
const CODECS: [Codec; 4] = [codecs::NONE, codecs::LZ4_FAST, codecs::LZ4, codecs::ZSTD];

const EXTRAPOLATED: &str = "* extrapolated: every figure grows as from 2020 to 2025";

pub fn all() -> Vec<Table> {
    vec![
        gain(),
        speed(),
        share(),
        table_memory(),
        hardware(),
        dedup_of_system(
            "dedup_added_capacity",
            "Deduplication adds capacity (30 % savings)",
            deduplication::added_capacity,
        ),
        dedup_of_system(
            "dedup_same_capacity",
            "Deduplication for the same capacity (30 % savings, less storage bought)",
            deduplication::same_capacity,
        ),
        compression_of_system(),
        fifty_petabytes(),
        links(),
        energy(),
        recomputing(),
    ]
}

/// Node shares of DDiHA's tables.
const NODE_SHARES: [f64; 5] = [0.02, 0.05, 0.1, 0.15, 0.2];

fn gain() -> Table {
    const NETWORKS: [f64; 5] = [4.67, 10.0, 20.0, 100.0, 1000.0];
    let column_of = |mb_per_s: f64| column(format!("gain_at_{mb_per_s}_mb_per_s"), format!("{mb_per_s}"), "MB/s");
    let row = |node_share: f64| {
        let gains = NETWORKS.map(|network| Number(ddiha::equation_6(&JAGUAR_GTC, node_share, network), 2));
        [percent_cell(node_share)].into_iter().chain(gains).collect()
    };
    Table {
        name: "ddiha_gain",
        title: "DDiHA, figure 8: gain by equation (6), by share r of nodes and network b_h (GTC on Jaguar)".into(),
        columns: [column("node_share_percent", "r", "%")].into_iter().chain(NETWORKS.map(column_of)).collect(),
        rows: NODE_SHARES.map(row).into(),
        notes: vec!["where deduplication keeps up, as the next table says; below 1 it is slower than without"],
    }
}

fn speed() -> Table {
    const REDUCTIONS: [f64; 8] = [1.11, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 20.0];
    let column_of = |share: f64| {
        let percent = 100.0 * share;
        column(format!("mb_per_s_at_{percent:.0}_percent"), format!("r = {percent:.0} %"), "MB/s")
    };
    let cell = |share: f64, reduction: f64| {
        let required = ddiha::equation_5_required_mb_per_s(&JAGUAR_GTC, share, NETWORK_MB_PER_S, reduction);
        required.map_or(Never("never"), |mb_per_s| Number(mb_per_s, 1))
    };
    let row = |reduction: f64| {
        [Number(reduction, 2)].into_iter().chain(NODE_SHARES.map(|share| cell(share, reduction))).collect()
    };
    Table {
        name: "ddiha_speed",
        title: "DDiHA, figure 9: speed C' that hides deduplication by equation (5), by reduction W/W'".into(),
        columns: [column("reduction", "W/W'", "")].into_iter().chain(NODE_SHARES.map(column_of)).collect(),
        rows: REDUCTIONS.map(row).into(),
        notes: vec!["b_h = 100 MB/s; never: what is left takes longer to write than the next phase to compute"],
    }
}

/// The prototype's C' of DDiHA.
const PROTOTYPE_MB_PER_S: f64 = 65.0;

fn share() -> Table {
    let row = |reduction: f64| {
        let with = Deduplication {
            node_share: 0.0,
            reduce_mb_per_s: PROTOTYPE_MB_PER_S,
            network_mb_per_s: NETWORK_MB_PER_S,
            reduction,
        };
        let node_share = ddiha::equation_5_min_node_share(&JAGUAR_GTC, &with);
        let gain = ddiha::equation_6(&JAGUAR_GTC, node_share, NETWORK_MB_PER_S);
        vec![Number(reduction, 2), Number(100.0 * node_share, 1), Number(gain, 2)]
    };
    Table {
        name: "ddiha_share",
        title: "DDiHA, equations (5) and (6): least, and so best, share of nodes that reduce 65 MB/s each".into(),
        columns: vec![
            column("reduction", "W/W'", ""),
            column("node_share_percent", "r", "%"),
            column("gain", "gain", ""),
        ],
        rows: [1.0, 1.11, 1.5, 2.0, 4.0, 8.0, 16.0].map(row).into(),
        notes: vec![],
    }
}

fn percent_cell(share: f64) -> Cell {
    Number((100.0 * share).round(), 0)
}

fn table_memory() -> Table {
    let row = |segment_kb: f64| {
        let of = |table: dedup_table::Table, unit: f64| table.with_segment_bytes(segment_kb * unit);
        let (theirs, ours) = (of(dedup_table::LECTURE, 1000.0), of(dedup_table::OURS, 1024.0));
        let cells = [theirs, ours].map(|table| [table.memory_bytes(1e12) / 1e9, 100.0 * table.memory_share()]);
        let [[gb, percent], [our_gb, our_percent]] = cells;
        vec![Number(segment_kb, 0), Number(gb, 2), Number(percent, 3), Number(our_gb, 3), Number(our_percent, 4)]
    };
    Table {
        name: "dedup_table",
        title: "Memory of the fingerprint table, for each TB of different data".into(),
        columns: vec![
            column("segment_kb", "segments", "KB"),
            column("lecture_gb_per_tb", "lecture", "GB/TB"),
            column("lecture_percent", "", "%"),
            column("ours_gb_per_tb", "Thalweg", "GB/TB"),
            column("ours_percent", "", "%"),
        ],
        rows: [4.0, 8.0, 16.0, 32.0, 64.0].map(row).into(),
        notes: vec!["lecture: 48 bytes an entry in memory; Thalweg: 1.2, the rest on disk, and segments in KiB"],
    }
}

/// A column of a table by year: its key, what it is, its unit.
type YearColumn = [&'static str; 3];

/// A table with a row a system, which is bought in a year.
fn by_year(
    [name, title]: [&'static str; 2],
    columns: &[YearColumn],
    note: Option<&'static str>,
    cells: impl Fn(&System) -> Vec<Cell>,
) -> Table {
    let row = |system: &System| {
        let year = [Number(f64::from(system.year), 0), Marked(system.is_extrapolated())];
        year.into_iter().chain(cells(system)).collect()
    };
    let years = [["year", "", "year"], ["extrapolated", "", ""]];
    Table {
        name,
        title: title.into(),
        columns: years.iter().chain(columns).map(|[name, what, unit]| column(*name, *what, *unit)).collect(),
        rows: System::series().iter().map(row).collect(),
        notes: note.into_iter().chain([EXTRAPOLATED]).collect(),
    }
}

fn hardware() -> Table {
    const DIGITS: [usize; 11] = [2, 0, 1, 0, 1, 0, 0, 0, 1, 1, 0];
    let columns = [
        ["performance_pf", "compute", "PF/s"],
        ["nodes", "nodes", ""],
        ["node_performance_tf", "a node", "TF/s"],
        ["memory_tb", "memory", "TB"],
        ["storage_pb", "storage", "PB"],
        ["storage_gb_per_s", "", "GB/s"],
        ["disks", "disks", ""],
        ["archive_pb", "archive", "PB"],
        ["archive_gb_per_s", "", "GB/s"],
        ["power_mw", "power", "MW"],
        ["cost_million_eur", "cost", "M EUR"],
    ];
    by_year(["hardware", "A computing centre's system over the years"], &columns, None, |system| {
        system.figures().into_iter().zip(DIGITS).map(|(figure, digits)| Number(figure, digits)).collect()
    })
}

/// What is bought, and what is added to it.
fn change_cells<const COUNT: usize>(changes: [(Change, usize); COUNT]) -> impl Iterator<Item = Cell> {
    changes.into_iter().flat_map(|(change, digits)| [Number(change.bought, digits), Number(change.added, digits)])
}

fn dedup_of_system(
    name: &'static str,
    title: &'static str,
    of: fn(&System, f64, &dedup_table::Table) -> Outcome,
) -> Table {
    let columns = [
        ["storage_pb", "storage", "PB"],
        ["storage_added_pb", "", "+ PB"],
        ["memory_tb", "memory", "TB"],
        ["memory_added_tb", "", "+ TB"],
        ["power_mw", "power", "MW"],
        ["power_added_mw", "", "+ MW"],
        ["cost_million_eur", "cost", "M EUR"],
        ["cost_added_million_eur", "", "+ M EUR"],
        ["memory_added_tb_ours", "Thalweg", "+ TB"],
        ["cost_added_million_eur_ours", "", "+ M EUR"],
    ];
    by_year([name, title], &columns, Some("Thalweg: the same with its table's memory"), |system| {
        let theirs = of(system, SAVINGS, &dedup_table::LECTURE);
        let ours = of(system, SAVINGS, &dedup_table::OURS);
        let changes =
            [(theirs.storage_pb, 1), (theirs.memory_tb, 1), (theirs.power_mw, 2), (theirs.cost_million_eur, 2)];
        let of_ours = [Number(ours.memory_tb.added, 1), Number(ours.cost_million_eur.added, 2)];
        change_cells(changes).chain(of_ours).collect()
    })
}

fn compression_of_system() -> Table {
    let columns = [
        ["storage_pb", "storage", "PB"],
        ["storage_added_pb", "", "+ PB"],
        ["power_mw", "power", "MW"],
        ["power_added_mw", "", "+ MW"],
    ];
    let title = "Compression by lz4 adds capacity (ratio 1.5)";
    by_year(["compression_added_capacity", title], &columns, None, |system| {
        let outcome = compression::added_capacity(system, LZ4_RATIO);
        change_cells([(outcome.storage_pb, 1), (outcome.power_mw, 3)]).collect()
    })
}

fn fifty_petabytes() -> Table {
    let row = |codec: &Codec| {
        let of = |scenario| procurement::purchase(scenario, CAPACITY_PB, codec, &procurement::LECTURE);
        let scenarios = [Scenario::FewServers, Scenario::AllServers].into_iter().flat_map(|scenario| {
            let purchase = of(scenario);
            [
                Number(purchase.servers, 0),
                Number(purchase.disk_pb, 1),
                Number(purchase.cost_million_eur, 1),
                Number(purchase.gb_per_s, 0),
            ]
        });
        [Word(codec.name.to_owned()), Number(codec.ratio, 3)].into_iter().chain(scenarios).collect()
    };
    let of_scenario = |key: &str, name: &str| {
        [
            column(format!("{key}_servers"), name, "servers"),
            column(format!("{key}_disk_pb"), "", "PB"),
            column(format!("{key}_cost_million_eur"), "", "M EUR"),
            column(format!("{key}_gb_per_s"), "", "GB/s"),
        ]
    };
    let columns = [column("codec", "codec", ""), column("ratio", "ratio", "")];
    Table {
        name: "storage_of_50_pb",
        title: "A storage system for 50 PB: S1 with as few servers as the capacity needs, S2 with 50 servers".into(),
        columns: columns.into_iter().chain(of_scenario("s1", "S1")).chain(of_scenario("s2", "S2")).collect(),
        rows: CODECS.iter().map(row).collect(),
        notes: vec!["the lecture prints S2's 6.0, 3.5 (lz4) and 3.0 M EUR (zstd, 20 GB/s slower); prices follow"],
    }
}

fn links() -> Table {
    let row = |link: &network::Link| {
        let effective =
            CODECS.map(|codec| Number(network::effective_gbit_per_s(link.gbit_per_s, &codec, NODE_CORES), 1));
        [Word(link.name.to_owned()), Number(link.gbit_per_s, 0)].into_iter().chain(effective).collect()
    };
    let of_codec = |codec: Codec| column(format!("{}_gbit_per_s", codec.name), codec.name, "Gbit/s");
    let columns = [column("link", "link", ""), column("link_gbit_per_s", "", "Gbit/s")];
    Table {
        name: "network",
        title: "Raw data from node to node, compressed on the way (24 cores)".into(),
        columns: columns.into_iter().chain(CODECS.map(of_codec)).collect(),
        rows: LINKS.iter().map(row).collect(),
        notes: vec!["zstd: the cores are the limit above 54 Gbit/s, and above 126 it is slower than nothing"],
    }
}

fn energy() -> Table {
    let row = |run: &policy::cost::energy::Run| {
        vec![Word(run.codec.to_owned()), Number(run.runtime, 2), Number(run.power, 2), Number(run.energy(), 2)]
    };
    Table {
        name: "energy",
        title: "Energy of a run that writes (modified IOR), relative to no compression".into(),
        columns: vec![
            column("codec", "codec", ""),
            column("runtime", "runtime", ""),
            column("power", "power", ""),
            column("energy", "energy", ""),
        ],
        rows: MODIFIED_IOR.iter().map(row).collect(),
        notes: vec![],
    }
}

fn recomputing() -> Table {
    const YEARS: [f64; 5] = [1.0, 2.0, 5.0, 10.0, 20.0];
    let cell = |node_hours: f64, years: f64| {
        let costs = ResultCosts {
            stored_tb: 1.0,
            input_tb: 0.0,
            node_hours,
            reads_per_year: 0.0,
            eur_per_tb_year: EUR_PER_TB_YEAR,
            eur_per_node_hour: EUR_PER_NODE_HOUR,
        };
        Number(recomputation::break_even_reads_per_year(&costs, years), 3)
    };
    let row = |node_hours: f64| {
        [Number(node_hours, 0)].into_iter().chain(YEARS.map(|years| cell(node_hours, years))).collect()
    };
    let of_years =
        |years: f64| column(format!("reads_per_year_over_{years}_years"), format!("{years:.0} a"), "reads/a");
    Table {
        name: "recomputation",
        title: "Recomputing: reads a year below which it costs less than keeping, by node hours for a TB".into(),
        columns: [column("node_hours_per_tb", "node", "hours")].into_iter().chain(YEARS.map(of_years)).collect(),
        rows: [1.0, 10.0, 100.0, 1000.0, 10_000.0].map(row).into(),
        notes: vec!["20 EUR for a TB and year, 0.18 for a node and hour without energy; inputs are kept anyway"],
    }
}
