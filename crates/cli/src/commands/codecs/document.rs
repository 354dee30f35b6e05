//! The results as JSON.

use laboratory::{ModeComparison, Regret, Total, best_single, candidate_name, pareto_front, reference_name};
use policy::compression::Mode;
use serde_json::Value;

use super::Results;

pub fn document(results: &Results) -> Value {
    let front = pareto_front(&results.candidates);
    let candidate = |(number, total): (usize, &Total)| {
        let pareto = [("pareto", Value::from(front.contains(&number)))];
        object(encoding(candidate_name(number), total, results).chain(pareto))
    };
    let reference = |(number, total): (usize, &Total)| object(encoding(reference_name(number), total, results));
    let of_modes = |mode| results.modes.iter().find(|found| found.mode == mode);
    let archival = of_modes(Mode::Archival).expect("all modes are run");
    let modes =
        NAMES.iter().filter_map(|(mode, name)| Some(((*name).to_owned(), comparison(of_modes(*mode)?, results))));
    object([
        ("files", results.files.into()),
        ("blocks", results.blocks.into()),
        ("original_bytes", results.raw_bytes.into()),
        ("oracle_bytes", archival.oracle.stored_bytes.into()),
        ("header_bytes_per_block", laboratory::HEADER_BYTES.into()),
        ("core_watts", results.core_watts.conditions().core_watts.into()),
        ("core_watts_source", results.core_watts.source().into()),
        ("candidates", results.candidates.iter().enumerate().map(candidate).collect()),
        ("references", results.references.iter().enumerate().map(reference).collect()),
        ("pareto", front.iter().map(|number| candidate_name(*number)).collect()),
        ("modes", Value::Object(modes.collect())),
        ("links", links(results).into()),
    ])
}

const NAMES: [(Mode, &str); 4] = [
    (Mode::Performance, "performance"),
    (Mode::Balanced, "balanced"),
    (Mode::Archival, "archival"),
    (Mode::Energy, "energy"),
];

/// `performance` over each link.
fn links(results: &Results) -> Vec<Value> {
    let of_links = results.modes.iter().filter(|mode| mode.mode == Mode::Performance);
    of_links.map(|mode| comparison(mode, results)).collect()
}

fn encoding(name: String, total: &Total, results: &Results) -> impl Iterator<Item = Field> {
    let of_it = [
        ("name", name.into()),
        ("stored_bytes", total.stored_bytes.into()),
        ("ratio", total.ratio().into()),
        ("compress_mb_per_s", total.encode_mb_per_s().into()),
        ("decompress_mb_per_s", total.decode_mb_per_s().into()),
    ];
    of_it.into_iter().chain(times(total, results))
}

fn times(total: &Total, results: &Results) -> [Field; 3] {
    [
        ("compress_seconds", seconds(total.encode_ns)),
        ("decompress_seconds", seconds(total.decode_ns)),
        ("energy_j_per_gb", joules_per_gb(total, results).into()),
    ]
}

/// A nanojoule for each byte is a joule for each GB.
pub fn joules_per_gb(total: &Total, results: &Results) -> f32 {
    Mode::Energy.cost(&total.outcome(), &results.core_watts.conditions())
}

fn comparison(found: &ModeComparison, results: &Results) -> Value {
    let single = best_single(found.mode, &found.conditions, &results.candidates);
    let link = (found.mode == Mode::Performance).then_some(found.conditions.bytes_per_second as u64);
    let choices = found.choices.iter().map(|(candidate, blocks)| (candidate_name(*candidate), Value::from(*blocks)));
    let of_mode = [
        ("link_bytes_per_s", link.into()),
        ("chosen_bytes", found.chosen.stored_bytes.into()),
        ("choosing_seconds", seconds(found.choosing_ns)),
        ("cost", cost(found, &found.chosen)),
        ("oracle", rival(found, "everything tried".to_owned(), &found.oracle, results)),
        ("best_single", rival(found, candidate_name(single), &results.candidates[single], results)),
        ("cost_regret", regret(found.cost_regret)),
        ("cost_regret_with_choosing", regret(found.cost_regret_with_choosing)),
        ("size_regret", regret(found.size_regret)),
        ("over_uncompressed", regret(found.over_uncompressed)),
        ("chosen_blocks", Value::Object(choices.collect())),
    ];
    object(times(&found.chosen, results).into_iter().chain(of_mode))
}

/// What is held beside the choices: the encoding of least cost, of each block or of all together.
fn rival(found: &ModeComparison, name: String, total: &Total, results: &Results) -> Value {
    object(encoding(name, total, results).chain([("cost", cost(found, total))]))
}

/// What the mode wants least of, for each raw byte: ns, bytes or nJ.
fn cost(found: &ModeComparison, total: &Total) -> Value {
    found.mode.cost(&total.outcome(), &found.conditions).into()
}

fn regret(regret: Regret) -> Value {
    object([("mean", regret.mean.into()), ("p99", regret.p99.into()), ("worst", regret.worst.into())])
}

type Field = (&'static str, Value);

/// Not by `json!`, which would make ten times the code of this many fields.
fn object(fields: impl IntoIterator<Item = Field>) -> Value {
    let fields: Vec<Field> = fields.into_iter().collect();
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn seconds(ns: u64) -> Value {
    (ns as f64 / 1e9).into()
}
