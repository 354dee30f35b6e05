//! Which names a put passes over: `--exclude`, with patterns as `.gitignore` has them.

use std::str::FromStr;

use anyhow::{Context, bail};
use glob::{MatchOptions, Pattern};

const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

/// A pattern without a slash, but for one at its end, is about names at any depth; another is about paths below a source.
#[derive(Clone, Debug)]
pub struct Exclusion {
    pattern: Pattern,
    is_path: bool,
    only_directories: bool,
}

impl FromStr for Exclusion {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if text.starts_with('!') {
            bail!("a pattern that takes names back (`!`) is not known here");
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
        let pattern = Pattern::new(text).with_context(|| format!("{text:?} is no pattern"))?;
        Ok(Exclusion { pattern, is_path, only_directories })
    }
}

impl Exclusion {
    /// Whether it is about this path below a source. Bytes that are not UTF-8 are matched by `?` and `*`.
    fn excludes(&self, path: &str, is_directory: bool) -> bool {
        let subject = if self.is_path { path } else { path.rsplit('/').next().unwrap_or(path) };
        (is_directory || !self.only_directories) && self.pattern.matches_with(subject, OPTIONS)
    }
}

/// Whether any pattern is about this path below a source.
pub fn is_excluded(exclusions: &[Exclusion], path: &[u8], is_directory: bool) -> bool {
    if exclusions.is_empty() || path.is_empty() {
        return false;
    }
    let path = String::from_utf8_lossy(path);
    exclusions.iter().any(|exclusion| exclusion.excludes(&path, is_directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excludes(pattern: &str, path: &str, is_directory: bool) -> bool {
        is_excluded(&[pattern.parse().unwrap()], path.as_bytes(), is_directory)
    }

    #[test]
    fn a_pattern_without_a_slash_is_about_names_at_any_depth() {
        assert!(excludes("*.o", "a.o", false) && excludes("*.o", "d/e/a.o", false));
        assert!(!excludes("*.o", "a.oo", false) && !excludes("*.o", "a.o/b", false));
        assert!(excludes(".git", "d/.git", true));
    }

    #[test]
    fn a_pattern_with_a_slash_is_about_paths_below_a_source() {
        assert!(excludes("/build", "build", true) && !excludes("/build", "d/build", true));
        assert!(excludes("d/*.o", "d/a.o", false) && !excludes("d/*.o", "d/e/a.o", false));
        assert!(excludes("**/e/*.o", "d/e/a.o", false) && !excludes("d/*.o", "x/d/a.o", false));
    }

    #[test]
    fn a_slash_at_the_end_means_directories() {
        assert!(excludes("build/", "d/build", true) && !excludes("build/", "d/build", false));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in ["", "/", "!*.o", "a[", "a**"] {
            assert!(text.parse::<Exclusion>().is_err(), "{text}");
        }
    }
}
