//! The variables that a command is given: those that a recipe keeps, and a few that it may use and that make no difference.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Kept where they are set.
const KEPT: [&str; 17] = [
    "APPTAINER_CONTAINER",
    "APPTAINER_NAME",
    "CONDA_PREFIX",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LOADEDMODULES",
    "MODULEPATH",
    "PATH",
    "PYTHONHASHSEED",
    "PYTHONPATH",
    "SINGULARITY_CONTAINER",
    "SINGULARITY_NAME",
    "SOURCE_DATE_EPOCH",
    "TZ",
    "VIRTUAL_ENV",
    "_LMFILES_",
];
const KEPT_PREFIXES: [&str; 3] = ["LC_", "OMP_", "KMP_"];

fn is_kept(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let is_prefixed = KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix.as_bytes()));
    is_prefixed || KEPT.iter().any(|kept| kept.as_bytes() == name)
}

/// Returns what a recipe keeps of these variables, sorted by name. Of `asked`, those without a value keep theirs.
pub fn kept(
    variables: impl Iterator<Item = (OsString, OsString)>,
    asked: &[(OsString, Option<OsString>)],
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let is_asked = |name: &OsStr| asked.iter().any(|(asked, value)| asked == name && value.is_none());
    let mut kept: BTreeMap<Vec<u8>, Vec<u8>> = variables
        .filter(|(name, _)| is_kept(name) || is_asked(name))
        .map(|(name, value)| (name.into_vec(), value.into_vec()))
        .collect();
    for (name, value) in asked {
        if let Some(value) = value {
            kept.insert(name.as_bytes().to_vec(), value.as_bytes().to_vec());
        }
    }
    kept.into_iter().collect()
}

/// Returns all that a command is given: beside what is kept its home, a directory for temporary files, and that Python is to
/// leave no compiled files beside its programs.
pub fn given(kept: &[(Vec<u8>, Vec<u8>)], temporary: &Path) -> Vec<(OsString, OsString)> {
    let mut given: Vec<(OsString, OsString)> =
        vec![("TMPDIR".into(), temporary.into()), ("PYTHONDONTWRITEBYTECODE".into(), "1".into())];
    given.extend(std::env::var_os("HOME").map(|home| ("HOME".into(), home)));
    let kept = kept.iter().map(|(name, value)| (OsString::from_vec(name.clone()), OsString::from_vec(value.clone())));
    given.extend(kept);
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(variables: &[(&str, &str)], asked: &[(&str, Option<&str>)]) -> Vec<String> {
        let asked: Vec<_> = asked.iter().map(|(name, value)| (name.into(), value.map(Into::into))).collect();
        let kept = kept(variables.iter().map(|(name, value)| (name.into(), value.into())), &asked);
        kept.into_iter().map(|(name, value)| String::from_utf8([name, value].join(&b'=')).unwrap()).collect()
    }

    #[test]
    fn what_is_not_known_to_matter_is_not_kept() {
        let variables = [("PATH", "/bin"), ("AWS_SECRET_ACCESS_KEY", "x"), ("LC_ALL", "C"), ("USER", "me")];
        assert_eq!(names(&variables, &[]), ["LC_ALL=C", "PATH=/bin"]);
    }

    #[test]
    fn what_is_asked_for_is_kept() {
        let variables = [("SEED", "7"), ("PATH", "/bin")];
        assert_eq!(names(&variables, &[("SEED", None), ("MISSING", None)]), ["PATH=/bin", "SEED=7"]);
        assert_eq!(names(&variables, &[("SEED", Some("8")), ("PATH", Some("/x"))]), ["PATH=/x", "SEED=8"]);
    }
}
