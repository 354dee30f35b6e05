//! A table of numbers, once as text of at most 100 columns and once as JSON.

use std::borrow::Cow;

use serde_json::{Map, Value};

pub struct Table {
    /// Its key in the document.
    pub name: &'static str,
    pub title: Cow<'static, str>,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// What a reader of the text must know.
    pub notes: Vec<&'static str>,
}

pub struct Column {
    /// Its key in the document, with its unit.
    pub name: String,
    /// Above the column: what, and its unit.
    pub head: [String; 2],
}

pub enum Cell {
    Word(String),
    /// With so many digits after the point in the text, and all of them in the document.
    Number(f64, usize),
    /// No such number, and what the text says instead.
    Never(&'static str),
    /// A star in the text, which a note explains.
    Marked(bool),
}

pub fn column(name: impl Into<String>, what: impl Into<String>, unit: impl Into<String>) -> Column {
    Column { name: name.into(), head: [what.into(), unit.into()] }
}

pub fn document(tables: &[Table]) -> Value {
    let of_table = |table: &Table| {
        let row = |cells: &Vec<Cell>| {
            let fields = table.columns.iter().zip(cells).map(|(column, cell)| (column.name.clone(), cell.value()));
            Value::Object(fields.collect())
        };
        (table.name.to_owned(), table.rows.iter().map(row).collect::<Value>())
    };
    Value::Object(tables.iter().map(of_table).collect::<Map<_, _>>())
}

pub fn lines(tables: &[Table]) -> Vec<String> {
    tables.iter().flat_map(Table::lines).skip(1).collect()
}

impl Table {
    fn lines(&self) -> Vec<String> {
        let heads = [0, 1].map(|line| self.columns.iter().map(|column| column.head[line].clone()).collect::<Vec<_>>());
        let rows = self.rows.iter().map(|cells| cells.iter().map(Cell::text).collect::<Vec<_>>());
        let heads = heads.into_iter().filter(|head| head.iter().any(|word| !word.is_empty()));
        let all: Vec<Vec<String>> = heads.chain(rows).collect();
        let width = |at: usize| all.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let is_left = |at: usize| self.rows.first().is_some_and(|cells| cells[at].is_word());
        let cell = |(at, text): (usize, &String)| match (is_left(at), widths[at]) {
            (true, width) => format!("{text:<width$}"),
            (false, width) => format!("{text:>width$}"),
        };
        let line = |row: &Vec<String>| {
            format!("  {}", row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ")).trim_end().to_owned()
        };
        let notes = self.notes.iter().map(|note| format!("  {note}"));
        [String::new(), self.title.to_string()].into_iter().chain(all.iter().map(line)).chain(notes).collect()
    }
}

impl Cell {
    pub fn is_word(&self) -> bool {
        matches!(self, Cell::Word(_))
    }

    pub fn text(&self) -> String {
        match self {
            Cell::Word(word) => word.clone(),
            Cell::Never(word) => (*word).to_owned(),
            Cell::Marked(is_marked) => if *is_marked { "*" } else { "" }.to_owned(),
            Cell::Number(number, digits) => {
                // Half-way up, as the sources round.
                let unit = 10f64.powi(*digits as i32);
                format!("{:.digits$}", (number * unit).round() / unit)
            }
        }
    }

    fn value(&self) -> Value {
        match self {
            Cell::Word(word) => word.as_str().into(),
            Cell::Number(number, _) if number.fract() == 0.0 && number.abs() < 1e15 => (*number as i64).into(),
            Cell::Number(number, _) => (*number).into(),
            Cell::Never(_) => Value::Null,
            Cell::Marked(is_marked) => (*is_marked).into(),
        }
    }
}
