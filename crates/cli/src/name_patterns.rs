//! Patterns of names as `.gitignore` has them: options give one each, files one a line.
//!
//! The `glob` crate matches; the syntax that it writes otherwise (`\*`, `[^a]`, `**` beside other characters) is
//! translated. The `ignore` crate would bring a second engine for regular expressions into the binary.

use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, bail};
use glob::{MatchOptions, Pattern};

use crate::failure::misuse;
use crate::shown;

const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

/// A pattern without a slash, but for one at its end, is about names at any depth; another is about paths below a source.
#[derive(Clone, Debug)]
pub struct NamePattern {
    pattern: Pattern,
    is_path: bool,
    only_directories: bool,
}

impl FromStr for NamePattern {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if text.starts_with('!') {
            bail!("a pattern that takes names back (`!`) is for files of patterns; `\\!` means the character");
        }
        let (text, only_directories) = match text.strip_suffix('/') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let is_path = text.contains('/');
        let text = text.strip_prefix('/').unwrap_or(text);
        if text.is_empty() {
            bail!("the pattern is empty");
        }
        let translated: anyhow::Result<Vec<String>> = text.split('/').map(translated).collect();
        let translated = translated.with_context(|| format!("{text:?} is no pattern"))?;
        let pattern = Pattern::new(&translated.join("/")).with_context(|| format!("{text:?} is no pattern"))?;
        Ok(NamePattern { pattern, is_path, only_directories })
    }
}

impl NamePattern {
    /// Whether it is about this path below a source. Bytes that are not UTF-8 are matched by `?` and `*`.
    pub fn matches(&self, path: &str, is_directory: bool) -> bool {
        let subject = if self.is_path { path } else { path.rsplit('/').next().unwrap_or(path) };
        (is_directory || !self.only_directories) && self.pattern.matches_with(subject, OPTIONS)
    }
}

/// Returns one part of a path in the `glob` crate's terms.
fn translated(part: &str) -> anyhow::Result<String> {
    if part.len() > 1 && part.bytes().all(|byte| byte == b'*') {
        return Ok("**".to_owned());
    }
    let mut text = String::new();
    let mut characters = part.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                let escaped = characters.next().context("nothing comes behind the backslash")?;
                text.push_str(&Pattern::escape(&escaped.to_string()));
            }
            '*' if text.ends_with('*') => {}
            '[' => class(&mut characters, &mut text)?,
            other => text.push(other),
        }
    }
    Ok(text)
}

/// Translates the rest of a class of characters; a bracket at its beginning is a member.
fn class(characters: &mut impl Iterator<Item = char>, text: &mut String) -> anyhow::Result<()> {
    text.push('[');
    let mut characters = characters.peekable();
    if characters.next_if(|first| matches!(first, '^' | '!')).is_some() {
        text.push('!');
    }
    let begun = text.len();
    for member in characters {
        if member == '\\' {
            bail!("backslashes between brackets are not known here");
        }
        text.push(member);
        if member == ']' && text.len() > begun + 1 {
            break;
        }
    }
    Ok(())
}

/// A file of patterns, as `.gitignore` is one: of those that are about a name the last one counts.
#[derive(Clone, Debug)]
pub struct PatternFile {
    /// With whether it takes names back.
    lines: Vec<(NamePattern, bool)>,
}

impl PatternFile {
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("{}: the file of patterns", shown::local(path)))?;
        let mut lines = Vec::new();
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            match parse_line(line) {
                Ok(parsed) => lines.extend(parsed),
                Err(error) => misuse!(InputFile: "{}, line {number}: {error:#}", shown::local(path)),
            }
        }
        Ok(PatternFile { lines })
    }

    pub fn matches(&self, path: &str, is_directory: bool) -> bool {
        let last = self.lines.iter().rfind(|(pattern, _)| pattern.matches(path, is_directory));
        last.is_some_and(|(_, takes_back)| !takes_back)
    }
}

/// None of an empty line or a comment.
fn parse_line(line: &[u8]) -> anyhow::Result<Option<(NamePattern, bool)>> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = std::str::from_utf8(line).context("it is not UTF-8; `?` stands for any other byte")?;
    let line = without_trailing_spaces(line);
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (text, takes_back) = line.strip_prefix('!').map_or((line, false), |text| (text, true));
    Ok(Some((text.parse()?, takes_back)))
}

/// A space behind a backslash stays.
fn without_trailing_spaces(line: &str) -> &str {
    let trimmed = line.trim_end_matches(' ');
    let backslashes = trimmed.len() - trimmed.trim_end_matches('\\').len();
    match backslashes % 2 == 1 && trimmed.len() < line.len() {
        true => &line[..=trimmed.len()],
        false => trimmed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str, is_directory: bool) -> bool {
        pattern.parse::<NamePattern>().unwrap().matches(path, is_directory)
    }

    fn file(text: &str) -> PatternFile {
        let lines = text.lines().map(|line| parse_line(line.as_bytes()).unwrap());
        PatternFile { lines: lines.flatten().collect() }
    }

    #[test]
    fn a_pattern_without_a_slash_is_about_names_at_any_depth() {
        assert!(matches("*.o", "a.o", false) && matches("*.o", "d/e/a.o", false));
        assert!(!matches("*.o", "a.oo", false) && !matches("*.o", "a.o/b", false));
        assert!(matches(".git", "d/.git", true));
    }

    #[test]
    fn a_pattern_with_a_slash_is_about_paths_below_a_source() {
        assert!(matches("/build", "build", true) && !matches("/build", "d/build", true));
        assert!(matches("d/*.o", "d/a.o", false) && !matches("d/*.o", "d/e/a.o", false));
        assert!(matches("**/e/*.o", "d/e/a.o", false) && !matches("d/*.o", "x/d/a.o", false));
        assert!(matches("a/**", "a/b", false) && matches("a/**", "a/b/c", false) && !matches("a/**", "a", true));
        assert!(matches("a/**/b", "a/b", false) && matches("a/**/b", "a/x/y/b", false));
        assert!(matches("***/b", "a/x/b", false), "git takes more than two for two");
    }

    #[test]
    fn a_slash_at_the_end_means_directories() {
        assert!(matches("build/", "d/build", true) && !matches("build/", "d/build", false));
    }

    #[test]
    fn escapes_and_classes_are_gits() {
        assert!(matches(r"\*", "*", false) && !matches(r"\*", "a", false));
        assert!(matches(r"\#a", "#a", false) && matches(r"\!a", "!a", false) && matches(r"a\ b", "a b", false));
        assert!(matches("[^a]", "b", false) && !matches("[^a]", "a", false) && matches("[!a]", "b", false));
        assert!(matches("[]a]x", "]x", false) && matches("[a-c]*", "bz", false) && !matches("[a-c]*", "z", false));
        assert!(matches("a**", "abc", false) && !matches("d/a**", "d/a/c", false) && matches("**.o", "a.o", false));
        assert!(matches("[*]", "*", false) && !matches("[*]", "a", false));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in ["", "/", "!*.o", "a[", "a[]", r"a\", r"[\]]"] {
            assert!(text.parse::<NamePattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_line_about_a_name_counts() {
        let patterns = file("# objects\n*.o\n\n!keep.o\n/d/keep.o\n");
        assert!(patterns.matches("a.o", false) && patterns.matches("d/keep.o", false));
        assert!(!patterns.matches("keep.o", false) && !patterns.matches("# objects", false));
    }

    #[test]
    fn spaces_at_the_end_of_a_line_stay_behind_a_backslash_only() {
        assert_eq!(without_trailing_spaces(r"a  "), "a");
        assert_eq!(without_trailing_spaces(r"a\  "), r"a\ ");
        assert_eq!(without_trailing_spaces(r"a\\  "), r"a\\");
        assert!(file("a\\ ").matches("a ", false) && file("b.c  ").matches("b.c", false));
    }

    #[test]
    fn bytes_that_are_not_text_are_no_pattern() {
        assert!(parse_line(b"\xff*").is_err());
    }
}
