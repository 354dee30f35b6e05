//! Reading a TOML document key by key, so that every mistake has its line and its key, and a misspelt key its cure.
//!
//! A [`Section`] remembers which keys it was asked for; `finish` refuses the others.

use std::ops::RangeInclusive;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Result};

/// Letters that may differ between a misspelt key and the one we suggest.
const MISSPELT_LETTERS: usize = 3;

pub(super) struct Document<'a> {
    pub path: &'a Path,
    pub text: &'a str,
}

impl<'a> Document<'a> {
    pub fn parse(&self) -> Result<Spanned<DeTable<'a>>> {
        DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.mistake(at, "TOML", error.message())
        })
    }

    pub fn mistake(&self, at: usize, key: &str, why: impl ToString) -> Error {
        let before = self.text.as_bytes().iter().take(at);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        Error::Configuration { path: self.path.to_owned(), line, key: key.to_owned(), why: why.to_string() }
    }
}

/// One table of the document: the whole of it, `[exchange]`, one `[[listen]]` or an inline table.
pub(super) struct Section<'a> {
    document: &'a Document<'a>,
    /// How the section is written before its keys: `listen.`, or nothing at the top.
    prefix: String,
    /// Where it begins, for what is missing.
    at: usize,
    table: &'a DeTable<'a>,
    asked: Vec<&'static str>,
}

type Value<'a> = &'a Spanned<DeValue<'a>>;

impl<'a> Section<'a> {
    pub fn top(document: &'a Document<'a>, table: &'a Spanned<DeTable<'a>>) -> Self {
        Section { document, prefix: String::new(), at: 0, table: table.get_ref(), asked: Vec::new() }
    }

    fn value(&mut self, key: &'static str) -> Option<Value<'a>> {
        self.asked.push(key);
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    pub fn has(&self, key: &str) -> bool {
        self.table.iter().any(|(name, _)| name.get_ref() == key)
    }

    /// Returns a mistake in the value of this key; in the section when the key is not there.
    pub fn mistake(&self, key: &str, why: impl ToString) -> Error {
        let found = self.table.iter().find(|(name, _)| name.get_ref() == key);
        let at = found.map_or(self.at, |(name, _)| name.span().start);
        self.document.mistake(at, &format!("{}{key}", self.prefix), why)
    }

    fn expected<T>(&self, key: &str, what: &str, found: Value<'a>) -> Result<T> {
        Err(self.mistake(key, format_args!("{what} is needed here, not {}", found.get_ref().type_str())))
    }

    pub fn string(&mut self, key: &'static str) -> Result<Option<&'a str>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.get_ref().as_str() {
            Some(text) => Ok(Some(text)),
            None => self.expected(key, "a string", value),
        }
    }

    pub fn needed_string(&mut self, key: &'static str) -> Result<&'a str> {
        self.string(key)?.ok_or_else(|| self.mistake(key, "is missing"))
    }

    pub fn integer(&mut self, key: &'static str, within: RangeInclusive<u64>) -> Result<Option<u64>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        if value.get_ref().as_integer().is_none() {
            return self.expected(key, "a whole number", value);
        }
        self.whole(key, value, &within).map(Some)
    }

    /// Reads a number from 0 to `most`.
    pub fn fraction(&mut self, key: &'static str, most: f64) -> Result<Option<f64>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let value = value.get_ref();
        let text = value.as_float().map(|number| number.as_str());
        let text = text.or(value.as_integer().map(|number| number.as_str()));
        let number = text.and_then(|text| text.parse::<f64>().ok()).filter(|number| (0.0..=most).contains(number));
        let wrong = || self.mistake(key, format_args!("a number from 0 to {most} is needed here"));
        number.map(Some).ok_or_else(wrong)
    }

    fn whole(&self, key: &str, value: Value<'a>, within: &RangeInclusive<u64>) -> Result<u64> {
        let number = value.get_ref().as_integer();
        let number = number.and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
        number.filter(|number| within.contains(number)).ok_or_else(|| {
            self.mistake(key, format_args!("a number from {} to {} is needed here", within.start(), within.end()))
        })
    }

    /// Reads a string or a number, for keys that take both.
    pub fn string_or_integer(&mut self, key: &'static str) -> Result<Option<String>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match (value.get_ref().as_str(), value.get_ref().as_integer()) {
            (Some(text), _) => Ok(Some(text.to_owned())),
            (None, Some(_)) => Ok(Some(self.whole(key, value, &(0..=u64::MAX))?.to_string())),
            (None, None) => self.expected(key, "a string or a whole number", value),
        }
    }

    /// Reads one string, or a list of them; nothing is an empty list.
    pub fn strings(&mut self, key: &'static str) -> Result<Vec<&'a str>> {
        let values = self.one_or_many(key);
        let mut texts = Vec::with_capacity(values.len());
        for value in values {
            match value.get_ref().as_str() {
                Some("") => return Err(self.mistake(key, "an empty string matches nothing")),
                Some(text) => texts.push(text),
                None => return self.expected(key, "a string or a list of strings", value),
            }
        }
        Ok(texts)
    }

    /// Reads one number, or a list of them; nothing is an empty list.
    pub fn integers(&mut self, key: &'static str, within: RangeInclusive<u64>) -> Result<Vec<u64>> {
        self.one_or_many(key).into_iter().map(|value| self.whole(key, value, &within)).collect()
    }

    fn one_or_many(&mut self, key: &'static str) -> Vec<Value<'a>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        match value.get_ref().as_array() {
            Some(values) => values.iter().collect(),
            None => vec![value],
        }
    }

    pub fn section(&mut self, key: &'static str) -> Result<Option<Section<'a>>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        self.inner(key, value).map(Some)
    }

    /// Reads one table, or a list of them; nothing is an empty list.
    pub fn tables(&mut self, key: &'static str) -> Result<Vec<Section<'a>>> {
        self.one_or_many(key).into_iter().map(|value| self.inner(key, value)).collect()
    }

    /// `[[key]]`, in the order of the file.
    pub fn sections(&mut self, key: &'static str) -> Result<Vec<Section<'a>>> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let Some(values) = value.get_ref().as_array() else {
            return Err(self.mistake(key, format_args!("is written with two brackets: [[{key}]]")));
        };
        values.iter().map(|value| self.inner(key, value)).collect()
    }

    fn inner(&self, key: &str, value: Value<'a>) -> Result<Section<'a>> {
        let Some(table) = value.get_ref().as_table() else { return self.expected(key, "a table", value) };
        let prefix = format!("{}{key}.", self.prefix);
        Ok(Section { document: self.document, prefix, at: value.span().start, table, asked: Vec::new() })
    }

    /// Refuses unknown keys.
    pub fn finish(self) -> Result<()> {
        let unknown = self.table.keys().find(|name| !self.asked.contains(&name.get_ref().as_ref()));
        let Some(unknown) = unknown else { return Ok(()) };
        let name = unknown.get_ref().as_ref();
        let why = match nearest(name, &self.asked) {
            Some(meant) => format!("unknown key; did you mean `{meant}`?"),
            None => format!("unknown key; known here are {}", self.asked.join(", ")),
        };
        Err(self.mistake(name, why))
    }
}

fn nearest(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let near = known.iter().map(|known| (distance(name, known), *known));
    let most = MISSPELT_LETTERS.min(name.len() / 2);
    near.filter(|(distance, _)| *distance <= most).min().map(|(_, known)| known)
}

/// Letters to insert, drop or change (Levenshtein 1966).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
