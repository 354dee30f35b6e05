//! The command line of `thalweg run`.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use transfer::Credentials;

use super::application;
use super::environment::Environment;
use super::leftovers;
use super::nodes::OwnNode;
use super::secret::{self, JobSecret};
use crate::output::Output;

#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  thalweg run --store /scratch/st -- mpirun -n 64 ./app      (files named SD:/path)\n  \
                  thalweg run --node host:7420 --application climate -- mpirun -n 64 ./app"
)]
pub struct Arguments {
    /// The store; a node is started on it for the job. Default: $THALWEG_STORE
    #[arg(long, value_name = "STORE")]
    store: Option<OsString>,
    /// Nodes that run already (may be repeated)
    #[arg(long = "node", value_name = "ADDRESS")]
    nodes: Vec<String>,
    /// Where segments are named and compressed: by the nodes, or by the program's processes to spare the link
    #[arg(long, value_parser = ["node", "client", "auto"], default_value = "auto")]
    reduce: String,
    /// When closing a file returns: once its data is a durable version, or once the nodes hold it (the job's end
    /// then waits for the versions)
    #[arg(long, value_parser = ["received", "durable"], default_value = "durable")]
    ack: String,
    /// Whose share of the nodes' bandwidth the program uses (default: the program's name)
    #[arg(long, value_name = "NAME")]
    application: Option<String>,
    /// The secret of the nodes (default: $THALWEG_SECRET_FILE); a node of the job's own has a new one by itself
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Lets stat, access and unlink answer for names that begin with SD:, for programs that look for a file before they
    /// open it with MPI
    #[arg(long)]
    posix_names: bool,
    /// The program
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    let is_own = arguments.nodes.is_empty();
    let job_secret = if is_own && arguments.secret_file.is_none() { Some(JobSecret::create()?) } else { None };
    let secret_file = match (&arguments.secret_file, &job_secret) {
        (Some(file), _) => Some(secret::absolute(file)?),
        (None, made) => made.as_ref().map(JobSecret::file),
    };
    let mut credentials = match arguments.nodes.first() {
        Some(node) => Credentials::of_environment_for(node)?,
        // A node of the job's own is on this machine, and speaks no TLS.
        None => Credentials::default(),
    };
    if let Some(file) = &secret_file {
        credentials.secret = Some(transfer::read_secret(file)?);
    }
    let own = match &secret_file {
        Some(file) if is_own => Some(OwnNode::start(&arguments.store()?, file)?),
        _ => None,
    };
    let environment = Environment {
        nodes: own.as_ref().map_or_else(|| arguments.nodes.clone(), |own| vec![own.address().to_owned()]),
        job: format!("{:08x}-{}", seconds(), std::process::id()),
        secret_file,
        is_own_node: is_own,
        reduce: &arguments.reduce,
        ack: &arguments.ack,
        posix_names: arguments.posix_names,
        application: arguments.application.clone().unwrap_or_else(|| application::of_command(&arguments.command)),
    };
    let mut command = Command::new(&arguments.command[0]);
    command.args(&arguments.command[1..]);
    environment.apply(&mut command)?;
    let status = command.status().with_context(|| arguments.command[0].to_string_lossy().into_owned())?;
    let left = leftovers::of_job(&environment.nodes, &environment.job, &credentials);
    let stopped = own.map_or(Ok(()), |own| own.stop());
    // Exiting below runs no destructors.
    drop(job_secret);
    let left = left?;
    match stopped {
        // All that the job wrote is committed: how its node ended costs nothing.
        Err(error) if left.is_empty() => output.note(format_args!("{error:#}; all files of the job are committed")),
        stopped => stopped?,
    }
    leftovers::report(&left, output);
    match status.code() {
        Some(0) if left.is_empty() => Ok(()),
        Some(0) => std::process::exit(1),
        Some(code) => std::process::exit(code),
        None => std::process::exit(128 + status.signal().unwrap_or(0)),
    }
}

impl Arguments {
    fn store(&self) -> anyhow::Result<OsString> {
        let named = self.store.clone().or_else(|| std::env::var_os("THALWEG_STORE"));
        named.context("no store: give --store STORE or --node ADDRESS, or set THALWEG_STORE")
    }
}

fn seconds() -> u64 {
    (crate::clock::now_ns() / 1_000_000_000) as u64
}
