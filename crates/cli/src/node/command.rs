//! The command line of `thalweg node`.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use format::Secret;
use repository::Access;
use transfer::{Server, TlsServer, read_secret, secret_of_environment};

use super::upstream::{self, UpstreamArguments};
use super::{Node, NodeOptions, NodeService, arenas, monitored, open_files, restart};
use crate::error_code::fail;
use crate::failure::misuse;
use crate::host_port;
use crate::location::store_of_argument;
use crate::log::{self, LogArguments};
use crate::output::Output;
use crate::panics;
use crate::shown;
use crate::signals::Signals;
use ::address::StoreAddress;

#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  thalweg node /scratch/st --listen 0.0.0.0:7420 --secret-file ~/.thalweg-secret\n  \
                  thalweg node /scratch/st --share climate=4 --share genome=1    (shared 4:1 while both write)\n  \
                  thalweg node /local/near --upstream thalweg://far:7420    (keeps what is read, sends on what is written)"
)]
pub struct Arguments {
    /// The store's directory
    store: PathBuf,
    /// Where clients connect; port 0 takes a free one, which is printed
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7420", value_parser = host_port::parse)]
    listen: String,
    /// Memory for programs that outrun the node (MiB); default: an eighth of this machine's
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=MAX_STAGING_MIB))]
    staging_mib: Option<u64>,
    /// Threads that reduce; default: one per core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_WORKERS))]
    workers: Option<u32>,
    /// Believe what clients have reduced without decoding it again (closed systems only)
    #[arg(long)]
    trust_clients: bool,
    /// A file with the secret that clients must prove to have; `thalweg secret FILE` makes one. Default:
    /// $THALWEG_SECRET_FILE
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// The node's certificate (PEM, with those between it and its authority): clients must use TLS, and know the
    /// authority (THALWEG_TLS_CA). Read when the node starts
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Serve addresses that other machines reach without a secret: every client that reaches the port reads, writes and removes
    #[arg(long, conflicts_with = "secret_file")]
    insecure: bool,
    /// An application's weight among those that write at once (may be repeated; others weigh 1; without
    /// any, nothing is shared)
    #[arg(long = "share", value_name = "NAME=WEIGHT", value_parser = weight)]
    weights: Vec<(String, u32)>,
    #[command(flatten)]
    upstream: UpstreamArguments,
    #[command(flatten)]
    log: LogArguments,
    /// Where browsers and Prometheus see what the node does: / (a live page), /metrics and /health. Anybody who reaches the
    /// port reads them; port 0 takes a free one, which is printed. Default: nowhere
    #[arg(long, value_name = "ADDRESS", value_parser = host_port::parse)]
    metrics: Option<String>,
    /// The node's process restarts, and listens on this socket: see restart.rs
    #[arg(long = "begin-anew", hide = true, value_name = "SOCKET", require_equals = true)]
    restarted_on: Option<std::os::fd::RawFd>,
}

/// How long a restarted node tries to open its store: the disk may be full, and the catalog in use.
const RESTART_TIMEOUT: Duration = Duration::from_secs(60);
const RESTART_PAUSE: Duration = Duration::from_millis(200);

/// A stripe set checkpoints at the latest when this much is not durable (bytes).
const CHECKPOINT_BYTES: u64 = 32 << 20;
/// The memory for fingerprint lists, enough for some GiB of data: 36 bytes for each 8 KiB.
const NAMES_BYTES: usize = 32 << 20;
const MIN_STAGING_BYTES: u64 = 256 << 20;
/// A pebibyte.
const MAX_STAGING_MIB: u64 = 1 << 30;
const MAX_WORKERS: i64 = 1024;

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    arenas::limit();
    // Before any thread is there, so that all of them leave the signals to this one.
    let ending = Signals::block().end_until_ready().context("starting the node's threads")?;
    log::start(&arguments.log, tracing::Level::WARN)?;
    panics::end_the_process();
    let StoreAddress::Directory(directory) = store_of_argument(Some(arguments.store.as_os_str()))? else {
        misuse!(NeedsDirectory: "{}: is a node's address; a node serves a store's directory", shown::local(&arguments.store));
    };
    let max_connections = open_files::raise_limit();
    let secret = arguments.secret()?;
    if secret.is_none() && !arguments.insecure && arguments.upstream.has_secret() {
        fail!(NodeUnprotected: "the far node asks for a secret, and this one would let everybody on this machine pass without: give it one \
             with --secret-file, or say --insecure"
        );
    }
    let tls = arguments.tls()?;
    let upstream = arguments.retry(|| arguments.upstream.connect())?;
    let open = || match &upstream {
        Some(far) => upstream::open(&directory, far),
        None => Ok(repository::open(&directory, Access::Write)?),
    };
    let repository = Arc::new(arguments.retry(open)?);
    repository.refused_model.iter().for_each(|why| tracing::warn!("{why}"));
    let node = Node::new(repository.clone(), random_number()?, arguments.options(), upstream);
    let threads = node.start().context("starting the node's threads")?;
    let is_open = secret.is_none();
    let service = Arc::new(NodeService { node: node.clone(), secret, tls });
    let server = arguments.server(service)?;
    server.limit_connections(max_connections);
    let address = server.local_address();
    arguments.check_openness(address, is_open, output)?;
    let metrics = arguments.serve_metrics(&node, &server)?;
    let tidying = arguments.upstream.keep_within(&node, &directory).context("starting the node's threads")?;
    let announced = announce(output, address, metrics);
    if arguments.restarted_on.is_none() {
        // The process that started the node has read its address by now, and may have closed the pipe.
        announced?;
    }
    let watched = (node.clone(), server.clone());
    let watch = std::thread::Builder::new().name("watch".into()).spawn(move || restart::watch(&watched.0, &watched.1));
    let watch = watch.context("starting the node's threads")?;
    let accepting = server.spawn();
    ending.ready();
    ending.wait();
    let asked = Instant::now();
    tracing::info!(peer = %address, "the node was asked to stop");
    node.prepare_to_stop();
    server.stop();
    let _ = accepting.join();
    let checkpointed = node.stop(asked);
    threads.into_iter().chain([watch]).chain(tidying).for_each(|thread| drop(thread.join()));
    drop(node);
    log::flush();
    checkpointed.and_then(|()| repository.close())?;
    Ok(())
}

impl Arguments {
    /// Tries once; a restarted node tries for a while.
    fn retry<T, E>(&self, attempt: impl Fn() -> Result<T, E>) -> Result<T, E> {
        let deadline = Instant::now() + if self.restarted_on.is_some() { RESTART_TIMEOUT } else { Duration::ZERO };
        loop {
            match attempt() {
                Err(_) if Instant::now() < deadline => std::thread::sleep(RESTART_PAUSE),
                done => return done,
            }
        }
    }

    fn server(&self, service: Arc<NodeService>) -> anyhow::Result<Server> {
        let Some(listener) = self.restarted_on else { return Ok(Server::bind(&self.listen, service)?) };
        let server = restart::inherited(listener).and_then(|listener| Server::listen_on(listener, service));
        server.context("listening on the socket of the node that restarts")
    }

    fn serve_metrics(&self, node: &Arc<Node>, server: &Server) -> anyhow::Result<Option<SocketAddr>> {
        let Some(address) = &self.metrics else { return Ok(None) };
        let served = self.retry(|| {
            let listener = std::net::TcpListener::bind(address)?;
            monitored::serve(listener, node.clone(), server.clone())
        });
        Ok(Some(served.with_context(|| format!("serving metrics at {address}"))?))
    }

    fn secret(&self) -> anyhow::Result<Option<Secret>> {
        match &self.secret_file {
            Some(file) => Ok(Some(read_secret(file)?)),
            None if self.insecure => Ok(None),
            None => Ok(secret_of_environment()?),
        }
    }

    fn tls(&self) -> anyhow::Result<Option<TlsServer>> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        Ok(Some(TlsServer::load(certificate, key)?))
    }

    /// Without a secret only programs of this machine may reach the node, unless the user insists.
    fn check_openness(&self, address: SocketAddr, is_open: bool, output: &Output) -> anyhow::Result<()> {
        if !is_open || address.ip().to_canonical().is_loopback() {
            return Ok(());
        }
        if !self.insecure {
            fail!(NodeUnprotected: "{address} can be reached from other machines, and the node has no secret: make one with `thalweg \
                 secret FILE`, start the node with --secret-file FILE, and set THALWEG_SECRET_FILE for its clients; or \
                 say --insecure, and everyone who reaches the port can read, write and remove"
            );
        }
        output.note(format_args!("{address} is open: everyone who reaches it can read, write and remove (--insecure)"));
        Ok(())
    }

    fn options(&self) -> NodeOptions {
        let staging_bytes = self.staging_mib.map_or_else(default_staging_bytes, |mib| mib << 20);
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        NodeOptions {
            staging_bytes,
            workers: self.workers.map_or(cores, |workers| workers as usize),
            checkpoint_bytes: CHECKPOINT_BYTES,
            names_bytes: NAMES_BYTES,
            trust_clients: self.trust_clients,
            weights: (!self.weights.is_empty()).then(|| self.weights.iter().cloned().collect()),
        }
    }
}

fn weight(text: &str) -> Result<(String, u32), String> {
    let (name, weight) = text.rsplit_once('=').unwrap_or((text, ""));
    match weight.parse() {
        Ok(weight) if weight > 0 && !name.is_empty() => Ok((name.to_owned(), weight)),
        _ => Err("NAME=WEIGHT is needed, like climate=4".into()),
    }
}

/// Prints the node's address on the first line, for the process that started it.
fn announce(output: &Output, address: SocketAddr, metrics: Option<SocketAddr>) -> anyhow::Result<()> {
    let (address, metrics) = (address.to_string(), metrics.map(|metrics| format!("http://{metrics}/")));
    let mut out = std::io::stdout().lock();
    match metrics {
        Some(metrics) if output.is_json() => {
            writeln!(out, "{}", serde_json::json!({ "listening": address, "metrics": metrics }))?;
        }
        None if output.is_json() => writeln!(out, "{}", serde_json::json!({ "listening": address }))?,
        Some(metrics) => write!(out, "listening on {address}\nmetrics at {metrics}\n")?,
        None => writeln!(out, "listening on {address}")?,
    }
    out.flush().context("printing the address")
}

fn default_staging_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let memory = info.totalram as u64 * info.mem_unit as u64;
    (memory / 8).max(MIN_STAGING_BYTES)
}

/// The node process's number: random, so that two never share one.
fn random_number() -> anyhow::Result<u64> {
    // SQLite counts to 2^63.
    Ok(transfer::random_number()? >> 1)
}
