//! What the job's processes find in their environment: the door, the nodes, and how to use them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

pub(super) struct Environment<'a> {
    pub nodes: Vec<String>,
    pub job: String,
    pub secret_file: Option<PathBuf>,
    pub reduce: &'a str,
    pub ack: &'a str,
    pub application: String,
}

const DOOR: &str = "libthalweg_door.so";

impl Environment<'_> {
    /// Sets it all for a command and whatever it starts. The door is harmless in processes that are no MPI program.
    pub fn apply(&self, command: &mut Command) -> anyhow::Result<()> {
        command.env("LD_PRELOAD", preload(&find_door()?));
        command.env("THALWEG_NODES", self.nodes.join(","));
        command.env("THALWEG_JOB", &self.job);
        command.env("THALWEG_REDUCE", self.reduce);
        command.env("THALWEG_ACK", self.ack);
        command.env("THALWEG_APPLICATION", &self.application);
        if let Some(file) = &self.secret_file {
            command.env(transfer::SECRET_FILE_VARIABLE, file);
        }
        Ok(())
    }
}

/// The door, before whatever is preloaded already.
fn preload(door: &Path) -> OsString {
    let mut list = door.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

/// Beside the command, where `make build` leaves it, or in the library folder of an installation.
fn find_door() -> anyhow::Result<PathBuf> {
    let command = std::env::current_exe().context("finding the folder of this command")?;
    let folder = command.parent().unwrap_or(Path::new("/"));
    let folders = [folder.to_owned(), folder.join("../lib/thalweg")];
    let found = folders.iter().map(|folder| folder.join(DOOR)).find(|path| path.exists());
    found.with_context(|| format!("{DOOR} is not beside {}: run `make build`", command.display()))
}
