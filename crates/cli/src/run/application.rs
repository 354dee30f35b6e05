//! What a job is called among those that share a node, when nobody says it: the name of its program.
//!
//! Jobs begin with a launcher, and launchers have options of their own that only they understand; so the program is
//! taken to be the first word behind the launcher that is a file one can execute.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const LAUNCHERS: [&str; 8] = ["mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "srun", "env", "time"];

/// The program's file name; that of the launcher when no program is found behind it.
pub(super) fn of_command(command: &[OsString]) -> String {
    let is_program = |word: &&OsString| !is_launcher(word) && is_executable(word);
    let program = match command.first() {
        Some(first) if !is_launcher(first) => Some(first),
        Some(first) => command[1..].iter().find(is_program).or(Some(first)),
        None => None,
    };
    program.map(|word| file_name(word).to_string_lossy().into_owned()).unwrap_or_default()
}

fn file_name(word: &OsStr) -> &OsStr {
    Path::new(word).file_name().unwrap_or(word)
}

fn is_launcher(word: &OsStr) -> bool {
    LAUNCHERS.iter().any(|launcher| file_name(word) == *launcher)
}

/// As the shell would find it: words with a slash as they are, others along PATH.
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
        assert_eq!(name(&["/opt/bin/mpirun", "-n", "64", "/bin/sh", "ls"]), "sh");
        assert_eq!(name(&["mpiexec", "-host", "n1,n2", "env", "sh"]), "sh");
    }

    #[test]
    fn a_launcher_alone_names_itself() {
        assert_eq!(name(&["mpirun", "-n", "2", "./no-such-program"]), "mpirun");
        assert_eq!(name(&[]), "");
    }
}
