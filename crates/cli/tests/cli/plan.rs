//! `thalweg plan`: the sources' tables and figures.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::runner::{Run, run};

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
