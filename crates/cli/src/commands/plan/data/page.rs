//! The report on a user's data: a line of what was read, and three tables.

use laboratory::{Compressed, Cut, Distinct};
use policy::cost::dedup_table::OURS;
use serde_json::{Value, json};

use super::Report;
use crate::commands::plan::table::Cell::{Number, Word};
use crate::commands::plan::table::{self, Table, column};
use crate::shown;

pub fn document(report: &Report) -> Value {
    let walked = &report.walked;
    let mut document = table::document(&tables(report));
    for (name, value) in [
        ("files", walked.files),
        ("folders", walked.folders),
        ("links", walked.links),
        ("special", walked.special),
        ("unreadable", walked.unreadable),
        ("bytes", report.survey.bytes),
        ("sampled_blocks", report.survey.blocks.blocks() as u64),
        ("sampled_bytes", report.survey.blocks.bytes()),
    ] {
        document[name] = value.into();
    }
    document["problems"] = json!(walked.problems);
    document
}

pub fn lines(report: &Report) -> Vec<String> {
    [read(report), String::new()].into_iter().chain(table::lines(&tables(report))).collect()
}

/// `3 files in 1 folder, 1.5 GiB; 1 link and 2 special files left out`.
fn read(report: &Report) -> String {
    let walked = &report.walked;
    let files = shown::count(walked.files, "file");
    let folders = shown::count(walked.folders, "folder");
    let mut line = format!("{files} in {folders}, {}", shown::size(report.survey.bytes));
    if walked.links + walked.special > 0 {
        let [links, special] =
            [(walked.links, "link"), (walked.special, "special file")].map(|(n, of)| shown::count(n, of));
        line.push_str(&format!("; {links} and {special} left out"));
    }
    line
}

fn tables(report: &Report) -> [Table; 3] {
    [deduplication(report), compression(report), both(report)]
}

fn deduplication(report: &Report) -> Table {
    let all = report.survey.bytes as f64;
    let row = |(cut, found): (Cut, Distinct)| {
        vec![
            Word(cut_name(cut)),
            Number(100.0 * saved(&found, all), 1),
            Number(100.0 * found.error_bytes / all.max(1.0), 1),
            Number(found.unique_bytes / 1e9, 3),
            Number(found.unique_segments * OURS.entry_bytes / 1e6, 3),
        ]
    };
    Table {
        name: "deduplication",
        title: "Deduplication alone",
        columns: vec![
            column("cut", "segments", ""),
            column("saved_percent", "saved", "%"),
            column("error_percent", "+-", "%"),
            column("unique_gb", "left", "GB"),
            column("table_mb", "table", "MB"),
        ],
        rows: report.survey.distinct().into_iter().map(row).collect(),
        notes: vec!["table: memory of the fingerprint table; +- holds in 95 of 100 cases, 0.0 where all was counted"],
    }
}

/// The share of all bytes that deduplication saves: an estimate may be above what there is, and of nothing nothing is saved.
fn saved(found: &Distinct, all: f64) -> f64 {
    if all > 0.0 { (1.0 - found.unique_bytes / all).max(0.0) } else { 0.0 }
}

fn cut_name(cut: Cut) -> String {
    match cut {
        Cut::Fixed(bytes) => format!("fixed {} KiB", bytes >> 10),
        Cut::Content(bytes) => format!("content {} KiB", bytes >> 10),
        Cut::Whole => "whole files".to_owned(),
    }
}

fn compression(report: &Report) -> Table {
    let row = |(name, found): &(&'static str, Compressed)| {
        let ratio = 1.0 / found.stored_share;
        vec![
            Word((*name).to_owned()),
            Number(ratio, 3),
            Number(ratio * found.error / found.stored_share, 3),
            Number(found.mb_per_s, 0),
        ]
    };
    Table {
        name: "compression",
        title: "Compression alone",
        columns: vec![
            column("codec", "codec or mode", ""),
            column("ratio", "ratio", ""),
            column("error", "+-", ""),
            column("mb_per_s", "a core", "MB/s"),
        ],
        rows: report.codecs.iter().map(row).collect(),
        notes: vec!["of at most 128 blocks of 256 KiB at equal distances"],
    }
}

fn both(report: &Report) -> Table {
    let all = report.survey.bytes as f64;
    let cuts = [Cut::Fixed(8 << 10), Cut::Content(8 << 10), Cut::Whole];
    let found = report.survey.distinct();
    let left = cuts.map(|cut| {
        let (_, of_cut) = found.iter().find(|(other, _)| *other == cut).expect("the survey has every way to cut");
        1.0 - saved(of_cut, all)
    });
    let row = |(name, compressed): &(&'static str, Compressed)| {
        let ratios = left.map(|left| Number(1.0 / (left * compressed.stored_share), 3));
        [Word((*name).to_owned())].into_iter().chain(ratios).collect()
    };
    let of_cut = |cut: Cut| {
        let name = cut_name(cut);
        column(format!("ratio_{}", name.to_lowercase().replace(' ', "_")), name, "")
    };
    Table {
        name: "both",
        title: "Both: raw for each stored byte",
        columns: [column("codec", "codec or mode", "")].into_iter().chain(cuts.map(of_cut)).collect(),
        rows: report.codecs.iter().map(row).collect(),
        notes: vec!["if what is left by deduplication is compressed like the rest"],
    }
}
