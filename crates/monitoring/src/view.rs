//! The content of the live page, as JSON: facts, plots and tables. The page (`page.html`) knows how each kind of value looks,
//! and nothing of the server it stands for.

use serde_json::{Value, json};

use crate::{History, Page};

/// The page polls this.
pub(crate) const PATH: &str = "/page.json";
/// Rows of a table; more are only counted.
const MAX_ROWS: usize = 100;
/// Of names that peers choose.
const MAX_TEXT_CHARS: usize = 120;

/// Whether the server can serve now; if not, why.
pub type Health = Result<(), String>;

/// How a column's values are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Count,
    Bytes,
    /// Bytes per second.
    Rate,
    Ratio,
    /// A part of a whole of 1.
    Share,
    Seconds,
    /// Rates of the last minutes.
    Plot,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Text(String),
    /// None: there is nothing to say.
    Number(Option<f64>),
    Plot(Vec<f64>),
}

pub struct Table {
    pub title: &'static str,
    pub columns: Vec<(&'static str, Kind)>,
    /// The most important first.
    pub rows: Vec<Vec<Cell>>,
}

/// Bytes per second over the last minutes.
pub struct Plot {
    pub title: &'static str,
    pub values: Vec<f64>,
}

pub struct View {
    /// The kind of server, and its address.
    pub title: String,
    pub health: Health,
    pub facts: Vec<(&'static str, Kind, Cell)>,
    pub plots: Vec<Plot>,
    pub tables: Vec<Table>,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Count => "count",
            Kind::Bytes => "bytes",
            Kind::Rate => "rate",
            Kind::Ratio => "ratio",
            Kind::Share => "share",
            Kind::Seconds => "seconds",
            Kind::Plot => "plot",
        }
    }
}

impl Cell {
    pub fn text(text: impl AsRef<str>) -> Cell {
        Cell::Text(text.as_ref().chars().take(MAX_TEXT_CHARS).collect())
    }

    /// Counters beyond 2^53 lose their last digits here, and nowhere else.
    pub fn count(number: u64) -> Cell {
        Cell::Number(Some(number as f64))
    }

    /// `a / b`; nothing where one of them is zero.
    pub fn ratio(a: u64, b: u64) -> Cell {
        Cell::Number((a > 0 && b > 0).then(|| a as f64 / b as f64))
    }

    fn to_json(&self) -> Value {
        match self {
            Cell::Text(text) => json!(text),
            Cell::Number(number) => json!(number),
            Cell::Plot(values) => json!(values),
        }
    }
}

impl Table {
    fn to_json(&self) -> Value {
        let columns = self.columns.iter().map(|(title, kind)| json!({ "title": title, "kind": kind.name() }));
        let row = |row: &Vec<Cell>| row.iter().map(Cell::to_json).collect::<Vec<_>>();
        json!({
            "title": self.title,
            "columns": columns.collect::<Vec<_>>(),
            "rows": self.rows.iter().take(MAX_ROWS).map(row).collect::<Vec<_>>(),
            "more": self.rows.len().saturating_sub(MAX_ROWS),
        })
    }
}

impl View {
    pub(crate) fn into_page(self) -> Page {
        let fact = |(title, kind, cell): &(&str, Kind, Cell)| json!({ "title": title, "kind": kind.name(), "value": cell.to_json() });
        let plot = |plot: &Plot| json!({ "title": plot.title, "values": plot.values });
        let document = json!({
            "title": self.title,
            "health": self.health.err(),
            "interval_s": History::INTERVAL.as_secs(),
            "facts": self.facts.iter().map(fact).collect::<Vec<_>>(),
            "plots": self.plots.iter().map(plot).collect::<Vec<_>>(),
            "tables": self.tables.iter().map(Table::to_json).collect::<Vec<_>>(),
        });
        Page::new("application/json", format!("{document}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_and_rows_beyond_the_limit_counted() {
        let row = |number: usize| vec![Cell::text("é".repeat(500)), Cell::count(number as u64), Cell::ratio(3, 0)];
        let columns = vec![("name", Kind::Text), ("requests", Kind::Count), ("ratio", Kind::Ratio)];
        let table = Table { title: "Clients", columns, rows: (0..MAX_ROWS + 7).map(row).collect() };
        let json = table.to_json();
        assert_eq!((json["rows"].as_array().map(Vec::len), &json["more"]), (Some(MAX_ROWS), &json!(7)));
        assert_eq!(json["rows"][3][0].as_str().map(|name| name.chars().count()), Some(MAX_TEXT_CHARS));
        assert_eq!((&json["rows"][3][1], &json["rows"][3][2]), (&json!(3.0), &Value::Null));
        assert_eq!(json["columns"][2], json!({ "title": "ratio", "kind": "ratio" }));
    }
}
