//! A job's default name among those that share a node: the name of its program.
//!
//! Jobs begin with a launcher, and launchers have options of their own that only they understand; so the program is
//! taken to be the first word behind the launcher that is a file one can execute, but for the values of options that
//! may be such a word: `-launcher ssh`, `--map-by node`, `--mca plm_rsh_agent /opt/agent`.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// With whatever follows: Debian has mpirun.mpich, and MPICH mpiexec.hydra.
const MPIRUNS: [&str; 4] = ["mpirun", "mpiexec", "orterun", "prterun"];
const OTHER_LAUNCHERS: [&str; 3] = ["srun", "env", "time"];
/// Options of Open MPI, MPICH and Slurm with one value, and with two.
const ONE_VALUE: [&str; 14] = [
    "bind-to",
    "bootstrap",
    "bootstrap-exec",
    "host",
    "hosts",
    "job-name",
    "launcher",
    "launcher-exec",
    "map-by",
    "partition",
    "rank-by",
    "rmk",
    "wdir",
    "x",
];
const TWO_VALUES: [&str; 6] = ["env", "genv", "gmca", "mca", "pmixmca", "prtemca"];

/// Returns the program's file name; that of the launcher when no program is found behind it.
pub(super) fn of_command(command: &[OsString]) -> String {
    let program = match position(command) {
        Some(at) => command.get(at),
        None => command.first(),
    };
    program.map(|word| file_name(word).to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns which word is the program; none when it is not found behind a launcher.
pub(super) fn position(command: &[OsString]) -> Option<usize> {
    match command.first() {
        Some(first) if !is_launcher(first) => Some(0),
        Some(_) => behind_launcher(command),
        None => None,
    }
}

fn behind_launcher(command: &[OsString]) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = command.get(at) {
        match word.to_str().and_then(|word| word.strip_prefix('-')) {
            Some(option) => at += 1 + values(option.trim_start_matches('-')),
            None if !is_launcher(word) && is_executable(word) => return Some(at),
            None => at += 1,
        }
    }
    None
}

/// Returns how many words behind an option are its values, as far as is known.
fn values(option: &str) -> usize {
    match option {
        one if ONE_VALUE.contains(&one) => 1,
        two if TWO_VALUES.contains(&two) => 2,
        _ => 0,
    }
}

fn file_name(word: &OsStr) -> &OsStr {
    Path::new(word).file_name().unwrap_or(word)
}

fn is_launcher(word: &OsStr) -> bool {
    is_mpirun(word) || OTHER_LAUNCHERS.iter().any(|launcher| file_name(word) == *launcher)
}

pub(super) fn is_mpirun(word: &OsStr) -> bool {
    let name = file_name(word).as_encoded_bytes();
    MPIRUNS.iter().any(|launcher| name.starts_with(launcher.as_bytes()))
}

/// As the shell would find it: words with a slash as they are, others in PATH.
fn is_executable(word: &OsStr) -> bool {
    let is_file =
        |path: &Path| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if word.as_encoded_bytes().contains(&b'/') {
        return is_file(Path::new(word));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| is_file(&folder.join(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(command: &[&str]) -> String {
        of_command(&command.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_program_is_named_by_its_file_and_looked_for_behind_a_launcher() {
        assert_eq!(name(&["./no/such/app", "x"]), "app");
        assert_eq!(name(&["mpirun.mpich", "-n", "4", "sh"]), "sh");
        assert_eq!(name(&["/opt/bin/mpirun", "-n", "64", "/bin/sh", "ls"]), "sh");
        assert_eq!(name(&["mpiexec", "-host", "n1,n2", "env", "sh"]), "sh");
        assert_eq!(name(&["mpirun", "-launcher", "cp", "-n", "2", "sh", "-x", "ls"]), "sh");
        assert_eq!(name(&["mpirun", "--mca", "plm_rsh_agent", "/bin/cp", "--map-by=ls", "--map-by", "ls", "sh"]), "sh");
    }

    #[test]
    fn a_launcher_alone_names_itself() {
        assert_eq!(name(&["mpirun", "-n", "2", "./no-such-program"]), "mpirun");
        assert_eq!(name(&[]), "");
    }
}
