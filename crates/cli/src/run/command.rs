//! The command line of `thalweg run`.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use ::address::StoreAddress;
use anyhow::Context;
use clap::builder::PossibleValuesParser;
use format::ErrorCode;
use transfer::Credentials;

use super::choices;
use super::environment::Environment;
use super::hosts::Hosts;
use super::job::Job;
use super::leftovers::{self, Leftovers};
use super::nodes::{Killed, OwnNode, end_with_us};
use super::secret::{self, JobSecret};
use super::welcome;
use crate::error_code;
use crate::failure::{explained, misuse};
use crate::host_port;
use crate::location::store_of_argument;
use crate::output::Output;

#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  thalweg run --store /scratch/st -- mpirun -n 64 ./app      (files named SD:/path)\n  \
                  thalweg run --node host:7420 --application climate -- mpirun -n 64 ./app"
)]
pub struct Arguments {
    /// The store; a node is started on it for the job. Default: $THALWEG_STORE
    #[arg(long, value_name = "STORE", conflicts_with = "nodes")]
    store: Option<OsString>,
    /// Where the job's own node listens. Default: a free port of 127.0.0.1, or where the job has other hosts (Slurm, PBS,
    /// mpirun's options), of the address they reach
    #[arg(long, value_name = "ADDRESS", conflicts_with = "nodes", value_parser = host_port::parse)]
    listen: Option<String>,
    /// Nodes that run already (may be repeated)
    #[arg(long = "node", value_name = "ADDRESS", value_parser = host_port::parse)]
    nodes: Vec<String>,
    /// Where segments are named and compressed: by the nodes, or by the program's processes to spare the link
    /// (default: $THALWEG_REDUCE, or auto)
    #[arg(long, value_name = "WHERE", value_parser = PossibleValuesParser::new(choices::REDUCE.possible))]
    reduce: Option<String>,
    /// When closing a file returns: once its data is a durable version, or once the nodes hold it (the job's end
    /// then waits for the versions; default: $THALWEG_ACK, or durable)
    #[arg(long, value_name = "WHEN", value_parser = PossibleValuesParser::new(choices::ACK.possible))]
    ack: Option<String>,
    /// Whose share of the nodes' bandwidth the program uses (default: $THALWEG_APPLICATION, or the program's name)
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

/// How the job's processes come to its nodes.
struct Reach {
    /// Of the job's own node.
    listen: String,
    has_other_hosts: bool,
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    choices::check_environment()?;
    let is_own = arguments.nodes.is_empty();
    let store = if is_own { Some(arguments.store()?) } else { None };
    let reach = arguments.reach()?;
    let (reduce, ack) = (choices::REDUCE.of(arguments.reduce.as_deref())?, choices::ACK.of(arguments.ack.as_deref())?);
    let application = choices::application(arguments.application.as_deref(), &arguments.command)?;
    let makes_secret = is_own && arguments.secret_file.is_none();
    let job_secret = if makes_secret { Some(JobSecret::create(reach.has_other_hosts)?) } else { None };
    let secret_file = match (&arguments.secret_file, &job_secret) {
        (Some(file), _) => Some(secret::absolute(file)?),
        (None, made) => made.as_ref().map(JobSecret::file),
    };
    let folder = job_secret.as_ref().map(JobSecret::folder);
    let job = Job::prepare(move || secret::remove(folder.as_deref())).context("passing signals on to the job")?;
    let credentials = arguments.credentials(secret_file.as_deref())?;
    if !is_own {
        welcome::wait_for(&arguments.nodes, &credentials, &arguments.command[0].to_string_lossy())?;
    }
    let own = match (&store, &secret_file) {
        (Some(store), Some(file)) => Some(OwnNode::start(store, &reach.listen, file)?),
        _ => None,
    };
    let environment = Environment {
        nodes: own.as_ref().map_or_else(|| arguments.nodes.clone(), |own| vec![own.address().to_owned()]),
        job: format!("{:08x}-{}", seconds(), std::process::id()),
        secret_file,
        is_own_node: is_own,
        has_other_hosts: reach.has_other_hosts,
        reduce,
        ack,
        posix_names: arguments.posix_names,
        application,
    };
    let ended = job.run(&mut arguments.command(&environment)?);
    let code = ended.as_ref().map_or_else(code_of_missing, |status| code_of(*status));
    let left = leftovers::of_job(&environment.nodes, is_own, &environment.job, &credentials);
    let stopped = own.map_or(Ok(None), |own| own.stop());
    if let Ok(left) = &left {
        leftovers::report(left, store.as_deref(), &environment.nodes, &credentials, output);
    }
    // Exiting below runs no destructors.
    drop(job_secret);
    if let Err(error) = ended {
        let program = arguments.command[0].to_string_lossy();
        output.note(ErrorCode::ProgramNotStarted.after(format_args!("{program}: {error}")));
        std::process::exit(code);
    }
    end(code, left, stopped, output)
}

/// Failures are named, and the command ends as [`code_at_end`] says.
fn end(
    code: i32,
    left: anyhow::Result<Leftovers>,
    stopped: anyhow::Result<Option<Killed>>,
    output: &Output,
) -> anyhow::Result<()> {
    let code = code_at_end(code, &left, &stopped);
    if let Ok(Some(Killed(status))) = &stopped {
        output.note(format_args!("the node ended with {status}, after the job"));
    }
    if let Err(error) = left {
        output.note(error_code::of(&error).after(explained(&error)));
    }
    if let Err(error) = stopped {
        let missing = "what the job wrote and did not close before that may be missing, see `thalweg ls`";
        output.note(error_code::of(&error).after(format_args!("{}; {missing}", explained(&error))));
    }
    if code == 0 { Ok(()) } else { std::process::exit(code) }
}

/// Returns the program's own code, unless it is 0 and not all of the job is known to be stored. Finding no open session
/// is no proof where the node of the job failed: a full disk does not even take the record of a session.
fn code_at_end(of_program: i32, left: &anyhow::Result<Leftovers>, stopped: &anyhow::Result<Option<Killed>>) -> i32 {
    let is_all_stored = stopped.is_ok() && left.as_ref().is_ok_and(Leftovers::is_empty);
    if of_program == 0 && !is_all_stored { 1 } else { of_program }
}

fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// As shells have it.
fn code_of_missing(error: &std::io::Error) -> i32 {
    if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
}

impl Arguments {
    fn store(&self) -> anyhow::Result<OsString> {
        if self.store.is_none() && std::env::var_os("THALWEG_STORE").is_none_or(|store| store.is_empty()) {
            misuse!(Address: "no store: give --store STORE or --node ADDRESS, or set THALWEG_STORE");
        }
        match store_of_argument(self.store.as_deref())? {
            StoreAddress::Directory(path) => Ok(path.into_os_string()),
            StoreAddress::Node(address) => {
                misuse!(Address: "a store behind a node is named by its node: --node {address}")
            }
        }
    }

    /// Returns where the job's own node is to listen, and whether the job has other hosts than this.
    fn reach(&self) -> anyhow::Result<Reach> {
        let is_address_given = !self.nodes.is_empty() || self.listen.is_some();
        let hosts = Hosts::of_job(&self.command, is_address_given)?;
        for address in self.nodes.iter().chain(&self.listen) {
            hosts.as_ref().map_or(Ok(()), |hosts| hosts.check_reach(address))?;
        }
        let own = hosts.map_or(Ok(None), |hosts| hosts.own_address());
        let has_other_hosts = matches!(own, Ok(Some(_)));
        let listen = match &self.listen {
            Some(address) if is_unspecified(address) => {
                misuse!("--listen {address}: the job's processes need one address of this host, not all of them")
            }
            Some(address) => address.clone(),
            None if is_address_given => String::new(),
            None => SocketAddr::new(own?.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), 0).to_string(),
        };
        Ok(Reach { listen, has_other_hosts })
    }

    fn credentials(&self, secret_file: Option<&Path>) -> anyhow::Result<Credentials> {
        let mut credentials = match self.nodes.first() {
            Some(node) => Credentials::of_environment_for(node)?,
            // A node of the job's own is on this machine, and speaks no TLS.
            None => Credentials::default(),
        };
        if let Some(file) = secret_file {
            credentials.secret = Some(transfer::read_secret(file)?);
        }
        Ok(credentials)
    }

    fn command(&self, environment: &Environment) -> anyhow::Result<Command> {
        let mut command = Command::new(&self.command[0]);
        environment.apply(&mut command)?;
        let forwarding = environment.forward(&mut command, &self.command);
        command.args(forwarding).args(&self.command[1..]);
        if environment.is_own_node {
            // Without its node the job could only wait in vain.
            end_with_us(&mut command);
        }
        Ok(command)
    }
}

fn is_unspecified(address: &str) -> bool {
    address.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_unspecified())
}

fn seconds() -> u64 {
    (crate::clock::now_ns() / 1_000_000_000) as u64
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_job_whose_node_failed_did_not_end_well_though_no_session_is_left() {
        assert_eq!(code_at_end(0, &Ok(Leftovers::default()), &Ok(None)), 0);
        assert_eq!(code_at_end(0, &Ok(Leftovers::default()), &Err(anyhow!("the node ended with exit status: 1"))), 1);
        assert_eq!(code_at_end(0, &Err(anyhow!("no node answers")), &Ok(None)), 1);
        assert_eq!(code_at_end(5, &Ok(Leftovers::default()), &Err(anyhow!("the node ended with exit status: 1"))), 5);
    }
}
