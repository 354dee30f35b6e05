//! What a plan recommends, why, and as a file that `thalweg init --config` takes.

use laboratory::{Cut, Surveyed};
use policy::cost::recommendation::Place;
use serde_json::{Value, json};

use super::data::{CODECS, cut_name, saved_share};
use super::system_report::{Case, SystemReport};

pub struct Recommended {
    chunker: &'static str,
    segment_bytes: u64,
    /// The option of `init` and its value.
    codec: (&'static str, &'static str),
    reasons: Vec<String>,
}

impl Recommended {
    pub fn of(surveyed: &Surveyed, report: &SystemReport) -> Self {
        let (chunker, segment_bytes) = match report.cut {
            Cut::Fixed(bytes) => ("fixed", bytes),
            Cut::Content(bytes) => ("cdc", bytes),
            Cut::Whole => unreachable!("whole files are never recommended"),
        };
        let codec = report.chosen().codec.map_or(("codec", "none"), |number| CODECS[number].option);
        let reasons = vec![of_cut(surveyed, report), of_codec(report), of_place(report), of_dedup_nodes(report)];
        Recommended { chunker, segment_bytes, codec, reasons }
    }

    /// Returns a configuration file with the options of `init`.
    pub fn file(&self) -> String {
        let reasons = self.reasons.iter().map(|reason| format!("# {reason}\n")).collect::<String>();
        let Recommended { chunker, segment_bytes, codec: (option, value), .. } = self;
        format!(
            "# Recommended by `thalweg plan`; make a store with it by `thalweg init STORE --config FILE`.\n{reasons}\n\
             [init]\nchunker = \"{chunker}\"\nsegment_bytes = {segment_bytes}\n{option} = \"{value}\"\n"
        )
    }

    /// Returns the command that makes the recommended store.
    pub fn command(&self) -> String {
        let Recommended { chunker, segment_bytes, codec: (option, value), .. } = self;
        format!("thalweg init STORE --chunker {chunker} --segment-bytes {segment_bytes} --{option} {value}")
    }

    pub fn reasons(&self) -> &[String] {
        &self.reasons
    }

    pub fn lines(&self) -> Vec<String> {
        let reasons = self.reasons.iter().flat_map(|reason| folded(reason));
        ["".to_owned(), "Recommended".to_owned(), format!("  {}", self.command())].into_iter().chain(reasons).collect()
    }

    pub fn document(&self) -> Value {
        let (option, value) = self.codec;
        json!({
            "init": { "chunker": self.chunker, "segment_bytes": self.segment_bytes, option: value },
            "command": self.command(),
            "reasons": self.reasons,
        })
    }
}

/// Breaks a reason into lines of a terminal.
fn folded(reason: &str) -> Vec<String> {
    const MAX_COLUMNS: usize = 96;
    let mut lines = vec![String::from("  -")];
    for word in reason.split(' ') {
        let line = lines.last_mut().expect("there is a first line");
        if line.chars().count() + 1 + word.chars().count() > MAX_COLUMNS {
            lines.push(format!("    {word}"));
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines
}

fn of_cut(surveyed: &Surveyed, report: &SystemReport) -> String {
    let all = surveyed.bytes as f64;
    let found = |cut: Cut| surveyed.cuts.iter().find(|(other, _)| *other == cut).map(|(_, found)| *found);
    let saved = |cut: Cut| 100.0 * found(cut).map_or(0.0, |found| saved_share(&found, all));
    let candidates = surveyed.cuts.iter().map(|(cut, _)| *cut).filter(|cut| *cut != Cut::Whole);
    let best = candidates.max_by(|one, other| saved(*one).total_cmp(&saved(*other))).unwrap_or(report.cut);
    let segments = found(report.cut).map_or(0.0, |found| found.unique_segments);
    let beside = if best == report.cut {
        "more than any other way to cut".to_owned()
    } else {
        format!("within a hundredth of all bytes or the error of {} ({:.1} %)", cut_name(best), saved(best))
    };
    format!("{}: saves {:.1} %, {beside}, with {segments:.0} segments", cut_name(report.cut), saved(report.cut))
}

fn of_codec(report: &SystemReport) -> String {
    let chosen = report.chosen();
    let by_phase = |one: &&Case, other: &&Case| one.phase.seconds.total_cmp(&other.phase.seconds);
    let shortest = report.cases.iter().min_by(by_phase).expect("there are cases");
    format!(
        "{}: {:.2} raw for each stored byte with deduplication, the most (within 1 %) of all whose phase is at most 2 % longer \
         than the shortest ({:.1} s; {}: {:.1} s; unreduced: {:.1} s)",
        chosen.name(),
        1.0 / chosen.kept.stored_share(),
        chosen.phase.seconds,
        shortest.name(),
        shortest.phase.seconds,
        report.unreduced_phase_s()
    )
}

fn of_place(report: &SystemReport) -> String {
    let chosen = report.chosen();
    let write_s = chosen.by_writers.seconds;
    let unreduced_s = report.unreduced_phase_s();
    if unreduced_s < chosen.phase.seconds {
        return format!(
            "a phase is shorter without any reduction ({unreduced_s:.1} s) than with the best ({:.1} s): a store saves bytes here, if any, and no time",
            chosen.phase.seconds
        );
    }
    match chosen.phase.place {
        Place::Writers => format!(
            "reduce where it is written (run --reduce client): it takes {write_s:.1} s, and no number of deduplication nodes makes a phase shorter"
        ),
        Place::DedupNodes(nodes) => format!(
            "reduce at {:.0} deduplication nodes (thalweg node; run --reduce node): a phase takes {:.1} s, and {:.1} where the writing nodes reduce",
            nodes.nodes,
            nodes.phase_s(),
            report.machine.program.compute_s + write_s
        ),
    }
}

fn of_dedup_nodes(report: &SystemReport) -> String {
    let Some(found) = report.chosen().dedup_nodes else {
        let why = match report.chosen().fewest_dedup_nodes {
            Some(_) => "with no number of them is a node fast enough",
            None => "with no number of them can it hold, at any speed",
        };
        return format!("deduplication nodes: equation (5) does not hold, {why}");
    };
    let pays = if found.gain > 1.0 { "they pay" } else { "they do not pay" };
    format!(
        "deduplication nodes: {pays}, gain {:.3} with {:.0} of {:.0} (r = {:.1} %); each reduces {:.0} MB/s and must reduce {:.0}; \
         {:.1} s of reducing and {:.1} s of writing are hidden behind {:.1} s of computation and sending",
        found.gain,
        found.nodes,
        report.machine.nodes,
        100.0 * found.nodes / report.machine.nodes,
        found.reduce_mb_per_s,
        found.required_mb_per_s.unwrap_or(0.0),
        found.reduce_s,
        found.write_s,
        found.compute_s + found.send_s
    )
}
