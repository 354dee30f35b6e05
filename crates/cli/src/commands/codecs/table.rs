//! The results as text of at most 100 columns.

use laboratory::{ModeComparison, Total, candidate_name, pareto_front, reference_name};
use policy::compression::Mode;

use super::Results;
use super::document::joules_per_gb;
use crate::shown;

/// Choices that are named of each mode; the others are counted.
const NAMED_CHOICES: usize = 3;

pub fn lines(results: &Results) -> Vec<String> {
    let mut lines = vec![sampled(results), String::new()];
    lines.extend(encodings(results));
    lines.extend([results.core_watts.legend(), String::new()]);
    lines.extend(modes(results));
    lines.push(String::new());
    lines.extend(results.modes.iter().map(choices));
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

pub fn sampled(results: &Results) -> String {
    let (blocks, files) = (shown::count(results.blocks as u64, "block"), shown::count(results.files as u64, "file"));
    format!("{blocks} of {files}, {}; times are those of one core", shown::size(results.raw_bytes))
}

/// The smallest first.
fn encodings(results: &Results) -> Vec<String> {
    let head = format!("  {:<24}{:>9}{:>14}{:>16}{:>14}", "encoding", "ratio", "compress", "decompress", "energy");
    let units = format!("  {:<24}{:>9}{:>14}{:>16}{:>14}", "", "", "MB/s", "MB/s", "J/GB");
    let legend = "* no other is both smaller and compressed faster; - for comparison, not chosen from".to_owned();
    let candidates = results.candidates.len();
    let total = |number: usize| match number.checked_sub(candidates) {
        None => &results.candidates[number],
        Some(reference) => &results.references[reference],
    };
    let numbers = 0..candidates + results.references.len();
    let mut by_size: Vec<(u64, usize)> = numbers.map(|number| (total(number).stored_bytes, number)).collect();
    by_size.sort_unstable();
    let front = pareto_front(&results.candidates);
    let marked = |number: usize| match number.checked_sub(candidates) {
        None if front.contains(&number) => ('*', candidate_name(number)),
        None => (' ', candidate_name(number)),
        Some(reference) => ('-', reference_name(reference)),
    };
    let row = |(_, number): (u64, usize)| encoding(marked(number), total(number), results);
    [head, units].into_iter().chain(by_size.into_iter().map(row)).chain([legend]).collect()
}

fn encoding((mark, name): (char, String), total: &Total, results: &Results) -> String {
    let (compress, decompress) = (total.encode_mb_per_s(), total.decode_mb_per_s());
    let (ratio, energy) = (total.ratio(), joules_per_gb(total, results));
    format!("{mark} {name:<24}{ratio:>9.3}{compress:>14.1}{decompress:>16.1}{energy:>14.0}")
}

fn modes(results: &Results) -> Vec<String> {
    let row = |cells: [String; 9]| {
        let [name, stored, ratio, compress, choosing, oracle, mean, p99, worst] = cells;
        format!("{name:<23}{stored:>11}{ratio:>10}{compress:>10}{choosing:>10}{oracle:>12}{mean:>8}{p99:>8}{worst:>8}")
    };
    let words = |words: [&str; 9]| row(words.map(str::to_owned));
    let head = words(["mode", "stored", "ratio", "compress", "choosing", "oracle", "regret", "", ""]);
    let units = words(["", "", "", "MB/s", "of it", "stored", "mean", "99 %", "worst"]);
    let rows = results.modes.iter().map(|mode| row(cells(mode)));
    let legend = [
        "the oracle tries everything; regret is what a block's choice costs more than the oracle's: bytes for",
        "archival, for the others the mode's cost in time or energy, by what was measured of both",
    ];
    [head, units].into_iter().chain(rows).chain(legend.map(str::to_owned)).collect()
}

fn cells(mode: &ModeComparison) -> [String; 9] {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let regret = if mode.mode == Mode::Archival { mode.size_regret } else { mode.cost_regret };
    [
        name(mode),
        shown::size(mode.chosen.stored_bytes),
        format!("{:.3}", mode.chosen.ratio()),
        format!("{:.1}", mode.chosen.encode_mb_per_s()),
        percent(mode.choosing_ns as f64 / mode.chosen.encode_ns.max(1) as f64),
        shown::size(mode.oracle.stored_bytes),
        percent(regret.mean),
        percent(regret.p99),
        percent(regret.worst),
    ]
}

fn name(mode: &ModeComparison) -> String {
    match mode.mode {
        Mode::Performance => format!("performance {}/s", shown::size(mode.conditions.bytes_per_second as u64)),
        Mode::Balanced => "balanced".to_owned(),
        Mode::Archival => "archival".to_owned(),
        Mode::Energy => "energy".to_owned(),
    }
}

/// `balanced chose zstd:1 for 12 blocks, lz4 for 3 and others for 1`.
fn choices(mode: &ModeComparison) -> String {
    let named = mode.choices.iter().take(NAMED_CHOICES);
    let named: Vec<String> =
        named.map(|(candidate, blocks)| format!("{} {blocks}", candidate_name(*candidate))).collect();
    let others: usize = mode.choices.iter().skip(NAMED_CHOICES).map(|(_, blocks)| blocks).sum();
    let others = if others > 0 { format!(", others {others}") } else { String::new() };
    format!("{:<23}  blocks: {}{others}", name(mode), named.join(", "))
}
