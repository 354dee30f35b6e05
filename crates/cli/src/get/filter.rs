//! Which names below a directory are fetched: `--include` and `--exclude`.

use crate::name_patterns::NamePattern;

#[derive(Default)]
pub struct Filter {
    /// If there are any, what none of them is about is not fetched.
    pub include: Vec<NamePattern>,
    /// Names that these match are not fetched.
    pub exclude: Vec<NamePattern>,
}

impl Filter {
    pub fn is_empty(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Whether a pattern that includes this path below a directory, or what it lies in, is there, and none that excludes them.
    pub fn takes(&self, path: &[u8], is_directory: bool) -> bool {
        if self.is_empty() {
            return true;
        }
        let path = String::from_utf8_lossy(path);
        let is_about = |patterns: &[NamePattern]| {
            let above = path.match_indices('/').map(|(at, _)| (&path[..at], true));
            let mut names = above.chain([(&*path, is_directory)]);
            names.any(|(name, is_directory)| patterns.iter().any(|pattern| pattern.matches(name, is_directory)))
        };
        (self.include.is_empty() || is_about(&self.include)) && !is_about(&self.exclude)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: &[&str], exclude: &[&str]) -> Filter {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Filter { include: parse(include), exclude: parse(exclude) }
    }

    #[test]
    fn all_below_what_is_included_is_taken() {
        let filter = filter(&["d", "*.dat"], &["tmp/"]);
        assert!(filter.takes(b"d", true) && filter.takes(b"d/x/y", false) && filter.takes(b"e/a.dat", false));
        assert!(!filter.takes(b"e", true) && !filter.takes(b"e/a", false));
        assert!(
            !filter.takes(b"d/tmp", true) && !filter.takes(b"d/tmp/a.dat", false) && filter.takes(b"d/f/tmp", false)
        );
    }

    #[test]
    fn without_a_pattern_to_include_all_is_taken() {
        assert!(filter(&[], &["*.o"]).takes(b"a", false) && !filter(&[], &["*.o"]).takes(b"d/a.o", false));
    }
}
