//! The report on a user's data: a line of what was read, and three tables.

use laboratory::{Compressed, Cut, Distinct};
use policy::cost::dedup_table::OURS;
use serde_json::{Value, json};

use super::{CODECS, Report, saved_share};
use crate::commands::plan::table::Cell::{Number, Word};
use crate::commands::plan::table::{self, Table, column};
use crate::shown;

pub fn document(report: &Report) -> Value {
    let (walked, surveyed) = (&report.walked, &report.surveyed);
    let mut document = table::document(&tables(report));
    for (name, value) in [
        ("files", walked.files),
        ("folders", walked.folders),
        ("links", walked.links),
        ("hard_links", walked.hard_links),
        ("special", walked.special),
        ("unreadable", walked.unreadable),
        ("bytes", surveyed.bytes),
    ] {
        document[name] = value.into();
    }
    document["problems"] = json!(walked.problems);
    document
}

/// `3 files in 1 folder, 1.5 GiB; left out: 1 link, 2 special files; 1 name could not be read`.
pub fn read(report: &Report) -> String {
    let walked = &report.walked;
    let files = shown::count(walked.files, "file");
    let folders = shown::count(walked.folders, "folder");
    let mut line = format!("{files} in {folders}, {}", shown::size(report.surveyed.bytes));
    let left_out = [(walked.links, "link"), (walked.hard_links, "hard link"), (walked.special, "special file")];
    let left_out: Vec<String> =
        left_out.iter().filter(|(number, _)| *number > 0).map(|(number, of)| shown::count(*number, of)).collect();
    if !left_out.is_empty() {
        line.push_str(&format!("; left out: {}", left_out.join(", ")));
    }
    if walked.unreadable > 0 {
        line.push_str(&format!("; {} could not be read", shown::count(walked.unreadable, "name")));
    }
    line
}

pub fn tables(report: &Report) -> [Table; 3] {
    [deduplication(report), compression(report), both(report)]
}

fn deduplication(report: &Report) -> Table {
    let all = report.surveyed.bytes as f64;
    let row = |(cut, found): &(Cut, Distinct)| {
        vec![
            Word(cut_name(*cut)),
            Number(100.0 * saved_share(found, all), 1),
            Number(100.0 * found.error_bytes / all.max(1.0), 1),
            Number(found.unique_bytes / 1e9, 3),
            Number(found.unique_segments * OURS.entry_bytes / 1e6, 3),
        ]
    };
    Table {
        name: "deduplication",
        title: "Deduplication alone".into(),
        columns: vec![
            column("cut", "segments", ""),
            column("saved_percent", "saved", "%"),
            column("error_percent", "+-", "%"),
            column("unique_gb", "left", "GB"),
            column("table_mb", "table", "MB"),
        ],
        rows: report.surveyed.cuts.iter().map(row).collect(),
        notes: vec!["table: memory of the fingerprint table; +- holds in 95 of 100 cases, 0.0 where all was counted"],
    }
}

pub fn cut_name(cut: Cut) -> String {
    match cut {
        Cut::Fixed(bytes) => format!("fixed {} KiB", bytes >> 10),
        Cut::Content(bytes) => format!("content {} KiB", bytes >> 10),
        Cut::Whole => "whole files".to_owned(),
    }
}

/// Codecs with what they make of all bytes, or of what deduplication leaves.
fn by_codec(found: &[Option<Compressed>]) -> impl Iterator<Item = (&'static str, &Compressed)> {
    CODECS.iter().zip(found).filter_map(|(codec, found)| Some((codec.name, found.as_ref()?)))
}

fn compression(report: &Report) -> Table {
    let row = |(name, found): (&'static str, &Compressed)| {
        let ratio = 1.0 / found.stored_share;
        vec![
            Word(name.to_owned()),
            Number(ratio, 3),
            Number(ratio * found.error / found.stored_share, 3),
            Number(found.mb_per_s, 0),
            Number(found.blocks as f64, 0),
        ]
    };
    Table {
        name: "compression",
        title: "Compression alone".into(),
        columns: vec![
            column("codec", "codec or mode", ""),
            column("ratio", "ratio", ""),
            column("error", "+-", ""),
            column("mb_per_s", "a core", "MB/s"),
            column("blocks", "tried", "blocks"),
        ],
        rows: by_codec(&report.surveyed.of_all).map(row).collect(),
        notes: vec!["of blocks of 256 KiB at equal distances"],
    }
}

fn both(report: &Report) -> Table {
    let all = report.surveyed.bytes as f64;
    let cuts = [Cut::Fixed(8 << 10), Cut::Content(8 << 10), Cut::Content(64 << 10), Cut::Whole];
    let found = cuts.map(|cut| {
        let found = report.surveyed.cuts.iter().find(|(other, _)| *other == cut);
        found.expect("the survey has every way to cut").1
    });
    let row = |(name, compressed): (&'static str, &Compressed)| {
        let share = Some(compressed.stored_share);
        let ratios = found.map(|found| Number(all / report.stored_bytes(&found, share), 3));
        let error = Number(100.0 * compressed.error / compressed.stored_share, 1);
        [Word(name.to_owned())].into_iter().chain(ratios).chain([error]).collect()
    };
    let of_cut = |cut: Cut| {
        let name = cut_name(cut);
        column(format!("ratio_{}", name.to_lowercase().replace(' ', "_")), name, "")
    };
    Table {
        name: "both",
        title: "Both: raw for each stored byte".into(),
        columns: [column("codec", "codec or mode", "")]
            .into_iter()
            .chain(cuts.map(of_cut))
            .chain([column("error_percent", "+-", "%")])
            .collect(),
        rows: by_codec(&report.surveyed.of_new).map(row).collect(),
        notes: vec![
            "codecs encode what content-defined segments of 8 KiB leave; with indexes and manifests",
            "+- is of sampling alone: a store's blocks end elsewhere, which matters to very regular numbers",
        ],
    }
}
