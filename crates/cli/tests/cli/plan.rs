//! `thalweg plan`: the sources' tables and figures, and estimates of a user's data.

use std::ffi::CString;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::runner::{Run, Store, run};

fn plan(options: &[&str]) -> Run {
    run(&[&["plan"], options].concat()).expect(0)
}

/// Returns the row of a table whose first column has this value.
fn row<'a>(tables: &'a Value, table: &str, column: &str, value: impl Into<Value>) -> &'a Value {
    let (rows, value) =
        (tables[table].as_array().unwrap_or_else(|| panic!("no table {table}: {tables}")), value.into());
    rows.iter().find(|row| row[column] == value).unwrap_or_else(|| panic!("no {column} {value} in {table}"))
}

#[test]
fn the_document_has_the_figures_of_the_slides() {
    let document = plan(&["--tables", "--json"]).json();
    let tables = &document["tables"];
    let near = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
        assert!((value / expected - 1.0).abs() < 0.02, "{value}, and not {expected}");
    };
    near(&row(tables, "dedup_added_capacity", "year", 2009)["memory_added_tb"], 33.6);
    near(&row(tables, "dedup_same_capacity", "year", 2020)["cost_million_eur"], 28.27);
    near(&row(tables, "compression_added_capacity", "year", 2025)["storage_added_pb"], 800.0);
    near(&row(tables, "storage_of_50_pb", "codec", "zstd")["s2_cost_million_eur"], 3.0);
    near(&row(tables, "network", "link", "FDR")["zstd_gbit_per_s"], 125.0);
    near(&row(tables, "energy", "codec", "lz4")["energy"], 0.93);
    near(&row(tables, "dedup_table", "segment_kb", 8)["lecture_gb_per_tb"], 6.0);
    near(&row(tables, "recomputation", "node_hours_per_tb", 100)["reads_per_year_over_1_years"], 1.15);
    assert_eq!(row(tables, "hardware", "year", 2025)["extrapolated"], false);
    assert_eq!(row(tables, "hardware", "year", 2030)["extrapolated"], true);
    assert_eq!(document["plots"], Value::Array(Vec::new()));
}

#[test]
fn speeds_that_no_node_can_have_are_null_and_never() {
    let tables = &plan(&["--tables", "--json"]).json()["tables"];
    let of_reduction =
        |reduction: Value| row(tables, "ddiha_speed", "reduction", reduction)["mb_per_s_at_10_percent"].clone();
    assert_eq!(of_reduction(1.11.into()), Value::Null);
    assert!(of_reduction(4.into()).as_f64().unwrap() < 20.0);
    let text = plan(&["--tables"]).text();
    let line = text.lines().find(|line| line.trim_start().starts_with("1.11")).unwrap();
    assert_eq!(line.matches("never").count(), 4, "{line}");
}

#[test]
fn tables_fit_a_terminal() {
    let text = plan(&["--tables"]).text();
    for line in text.lines() {
        assert!(line.chars().count() <= 100 && line == line.trim_end(), "{line:?}");
    }
    assert!(text.contains("2035  *") && text.matches("\n\n").count() == 11, "{text}");
}

#[test]
fn every_figure_is_drawn_as_svg_and_png() {
    let folder = TempDir::new().unwrap();
    for (figure, word) in
        [("ddiha-8", "b_h = 100 MB/s"), ("ddiha-9", "r = 10 %"), ("network", "FDR"), ("cost", "S2: 50 servers")]
    {
        let [svg, png] = ["svg", "png"].map(|kind| folder.path().join(format!("{figure}.{kind}")));
        let [svg_name, png_name] = [&svg, &png].map(|path| path.to_str().unwrap());
        let drawn = plan(&["--figure", figure, "--plot", svg_name, "--plot", png_name, "--json"]).json();
        assert_eq!(drawn["plots"], Value::from(vec![svg_name, png_name]));
        let text = fs::read_to_string(svg).unwrap();
        assert!(text.ends_with("</svg>\n") && text.contains(word) && !text.contains("NaN"), "{figure}: {text}");
        assert!(fs::read(png).unwrap().starts_with(b"\x89PNG"));
    }
}

#[test]
fn what_is_to_be_done_must_be_said() {
    for options in
        [&[][..], &["--figure", "ddiha-8"], &["--plot", "a.svg"], &["--figure", "ddiha-7", "--plot", "a.svg"]]
    {
        run(&[&["plan"], options].concat()).expect(2);
    }
}

/// Files with most of them twice, and what is no file.
fn data() -> TempDir {
    let folder = TempDir::new().unwrap();
    let mut random = random::Random::new(9);
    fs::create_dir(folder.path().join("deep")).unwrap();
    for number in 0..4 {
        let noise = random.bytes(300_000);
        fs::write(folder.path().join(format!("noise{number}")), &noise).unwrap();
        fs::write(folder.path().join(format!("deep/again{number}")), &noise).unwrap();
    }
    fs::write(folder.path().join("text"), "the same words again, and others: ".repeat(20_000)).unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    std::os::unix::fs::symlink("text", folder.path().join("link")).unwrap();
    make_pipe(&folder.path().join("pipe"));
    folder
}

fn make_pipe(path: &Path) {
    let path = CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

#[test]
fn estimates_are_what_a_store_makes_of_the_data() {
    let (folder, store) = (data(), Store::with(&["--chunker", "cdc", "--mode", "balanced"]));
    let found = &plan(&[folder.path().to_str().unwrap(), "--json"]).json()["data"];
    let count = |name: &str| found[name].as_u64().unwrap_or_else(|| panic!("{name}: {found}"));
    assert_eq!([count("files"), count("folders"), count("links"), count("special")], [10, 2, 1, 1]);
    assert_eq!((count("bytes"), count("unreadable")), (2_400_000 + 680_000, 0));
    fs::remove_file(folder.path().join("pipe")).unwrap();
    store.put(folder.path(), "t/");
    let stats = store.json("stats");
    let unique_bytes = |cut| (row(found, "deduplication", "cut", cut)["unique_gb"].as_f64().unwrap() * 1e9).round();
    assert_eq!(unique_bytes("content 8 KiB"), stats["unique_bytes"].as_f64().unwrap(), "{stats}");
    assert_eq!(unique_bytes("whole files"), 1_200_000.0 + 680_000.0);
    let ratio = row(found, "compression", "codec", "zstd:3")["ratio"].as_f64().unwrap();
    assert!((1.2..1.3).contains(&ratio), "of 3.08 MB 2.4 are noise: {ratio}");
    let (logical, stored) = (stats["logical_bytes"].as_f64().unwrap(), stats["stored_bytes"].as_f64().unwrap());
    let both = row(found, "both", "codec", "balanced")["ratio_content_8_kib"].as_f64().unwrap();
    assert!((both / (logical / stored) - 1.0).abs() < 0.02, "{both}, and not {logical} / {stored}");
}

#[test]
fn the_report_is_a_page_and_names_what_cannot_be_read() {
    let folder = data();
    let found = run(&["plan", folder.path().to_str().unwrap(), "/nowhere/at/all"]).expect(3);
    assert!(
        found.stderr.contains("/nowhere/at/all: No such file") && found.stderr.contains("1 name"),
        "{}",
        found.stderr
    );
    let text = found.text();
    assert!(
        text.starts_with(
            "10 files in 2 folders, 2.9 MiB; left out: 1 link, 1 special file; 1 name could not be read\n\n"
        ),
        "{text}"
    );
    for word in ["fixed 64 KiB", "content 64 KiB", "whole files", "archival", "lecture's system of 2015", "gain", "EUR"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    // The sentences about measured speeds wrap at another word from run to run: a few lines of room for them.
    assert!(text.lines().all(|line| line.chars().count() <= 100) && text.lines().count() <= 105, "{text}");
}

#[test]
fn data_without_a_byte_have_an_empty_report() {
    let folder = TempDir::new().unwrap();
    let found = &plan(&[folder.path().to_str().unwrap(), "--json"]).json()["data"];
    assert_eq!((&found["bytes"], &found["compression"]), (&Value::from(0), &Value::Array(Vec::new())));
    assert_eq!((&found["recommended"], &found["of_system"]), (&Value::Null, &Value::Null));
    assert_eq!(row(found, "deduplication", "cut", "whole files")["saved_percent"], 0);
}
