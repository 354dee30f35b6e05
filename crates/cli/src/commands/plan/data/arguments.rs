//! Which of the names that a user gave are to be read: none twice, and none that lies below another.

use std::path::PathBuf;

/// Returns the names in their order, without those that lead to what another has. Names of nothing stay, to be complained of.
pub fn apart(names: &[PathBuf]) -> Vec<PathBuf> {
    let found: Vec<Option<PathBuf>> = names.iter().map(|name| name.canonicalize().ok()).collect();
    let is_had = |number: usize| {
        let Some(path) = &found[number] else { return false };
        let has_it = |(other, of_other): (usize, &Option<PathBuf>)| {
            let is_first = other < number || of_other.as_ref() != Some(path);
            other != number && is_first && of_other.as_ref().is_some_and(|of_other| path.starts_with(of_other))
        };
        found.iter().enumerate().any(has_it)
    };
    (0..names.len()).filter(|number| !is_had(*number)).map(|number| names[number].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_another_is_read_once() {
        let folder = std::env::temp_dir().join(format!("thalweg-plan-arguments-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("a/b")).unwrap();
        std::fs::create_dir(folder.join("ab")).unwrap();
        let names = |names: &[&str]| names.iter().map(|name| folder.join(name)).collect::<Vec<_>>();
        assert_eq!(apart(&names(&["a/b", "ab", "a", "a/../a", "a/b/"])), names(&["ab", "a"]));
        assert_eq!(apart(&names(&["none", "none"])), names(&["none", "none"]));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
