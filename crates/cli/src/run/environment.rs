//! The environment of the job's processes: the door, the nodes, and how to use them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use format::ErrorCode;

use super::application;
use crate::error_code::Coded;
use anyhow::Context;
use transfer::{JOB_SECRET_FILE_VARIABLE, SECRET_FILE_VARIABLE, serves_this_job};

pub(super) struct Environment {
    pub nodes: Vec<String>,
    pub job: String,
    pub secret_file: Option<PathBuf>,
    /// The node was started for this job alone.
    pub is_own_node: bool,
    pub has_other_hosts: bool,
    pub reduce: String,
    pub ack: String,
    pub application: String,
    /// Whether `stat`, `access` and `unlink` know names that begin with `SD:`.
    pub posix_names: bool,
}

/// Open MPI starts processes on other hosts with the variables that this list names, and no others; other launchers
/// copy all of them.
const OPENMPI_LIST: &str = "OMPI_MCA_mca_base_env_list";
const DOOR: &str = "libthalweg_door.so";
const POSIX_NAMES: &str = "libthalweg_posix.so";

impl Environment {
    /// Sets it all for a command and its children. The door is harmless in processes that are no MPI program.
    pub fn apply(&self, command: &mut Command) -> anyhow::Result<()> {
        let mut libraries = vec![find_library(DOOR)?];
        if self.posix_names {
            libraries.push(find_library(POSIX_NAMES)?);
        }
        command.env("LD_PRELOAD", preload(&libraries));
        command.env("THALWEG_NODES", self.nodes.join(","));
        command.env("THALWEG_JOB", &self.job);
        command.env("THALWEG_REDUCE", &self.reduce);
        command.env("THALWEG_ACK", &self.ack);
        command.env("THALWEG_APPLICATION", &self.application);
        self.apply_secret(command);
        Ok(())
    }

    /// Makes the launcher copy the command's variables to other hosts; returns options for it. Open MPI takes options
    /// (`-x NAME`) or the list, never both.
    pub fn forward(&self, command: &mut Command, words: &[OsString]) -> Vec<String> {
        if !self.has_other_hosts {
            return Vec::new();
        }
        let names = command.get_envs().filter(|(_, value)| value.is_some()).map(|(name, _)| name.to_string_lossy());
        let names: Vec<String> = names.map(|name| name.into_owned()).collect();
        let end = application::position(words).unwrap_or(words.len());
        if words[..end].iter().any(|word| word == "-x") {
            return names.into_iter().flat_map(|name| ["-x".to_owned(), name]).collect();
        }
        let given = std::env::var(OPENMPI_LIST).ok().filter(|list| !list.is_empty());
        command.env(OPENMPI_LIST, given.into_iter().chain(names).collect::<Vec<_>>().join(";"));
        Vec::new()
    }

    /// The secret of a job's own node is not for the nodes of aliases, or of verbs that the job runs.
    fn apply_secret(&self, command: &mut Command) {
        match &self.secret_file {
            Some(file) if self.is_own_node => {
                command.env(JOB_SECRET_FILE_VARIABLE, file);
            }
            Some(file) => {
                command.env_remove(JOB_SECRET_FILE_VARIABLE).env(SECRET_FILE_VARIABLE, file);
            }
            // A run within a job, on the job's nodes, has the job's secret.
            None if self.nodes.iter().all(|node| serves_this_job(node)) => {}
            None => {
                command.env_remove(JOB_SECRET_FILE_VARIABLE);
            }
        }
    }
}

/// Our libraries, before whatever is preloaded already.
fn preload(libraries: &[PathBuf]) -> OsString {
    let mut list: Vec<OsString> = libraries.iter().map(|library| library.as_os_str().to_owned()).collect();
    list.extend(std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()));
    list.join(OsStr::new(":"))
}

/// Beside the command, where `make build` leaves it, or in the library folder of an installation.
fn find_library(name: &str) -> anyhow::Result<PathBuf> {
    let command = std::env::current_exe().context("finding the folder of this command")?;
    let folder = command.parent().unwrap_or(Path::new("/"));
    let folders = [folder.to_owned(), folder.join("../lib/thalweg")];
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.exists());
    found.with_context(|| {
        let why = format!("{name} is not beside {}: run `make build`", command.display());
        Coded::new(ErrorCode::ProgramNotStarted, why)
    })
}
