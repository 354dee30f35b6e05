//! `thalweg recover`: makes a version of what an interrupted session had checkpointed.

use std::ffi::OsString;

use catalog::{Names, PathSession};
use format::{SessionId, VersionRecord};
use repository::{Access, Repository};
use serde_json::Value;
use transfer::message::{Reply, Request};
use transfer::{Remote, RemoteCatalog};

use super::{COMMITTER, note_holes, refuse_without_data, sessions_of};
use crate::clock::now_ns;
use crate::error_code::fail;
use crate::failure::misuse;
use crate::location::{Location, StoreAddress};
use crate::opening::{connect, open_store};
use crate::output::Output;
use crate::shown;

/// How often a node is asked to recover that does not say whether it did.
const MAX_ATTEMPTS: u32 = 3;

/// Commit what an interrupted session had checkpointed, or drop it
#[derive(clap::Args)]
#[command(after_help = "Example: thalweg recover /scratch/st::run1/out.dat")]
pub struct Arguments {
    /// The file, STORE::PATH
    #[arg(required = true, value_name = "STORE::PATH")]
    location: OsString,
    /// Which session, as `thalweg sessions` shows it; otherwise the newest interrupted one
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Drop the session with what it had checkpointed, instead of recovering it
    #[arg(long, conflicts_with = "force")]
    discard: bool,
    /// Recover also over a version that was committed after the session had begun, and a session that has stored no data
    #[arg(long)]
    force: bool,
}

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let location = Location::parse(&arguments.location)?;
    let wanted = arguments.session.as_deref().map(session_id).transpose()?;
    let repository = open_store(&location.store, Access::Write)?;
    let session = choose(repository.catalog(), sessions_of(repository.catalog(), &location.path)?, wanted, &location)?;
    if arguments.discard {
        return discard(&repository, &session, &location, output);
    }
    if !arguments.force {
        refuse_over_newer(&repository, &session, &location)?;
        let advice = "`recover --force` makes a version of it all the same, and `recover --discard` drops it";
        refuse_without_data(&repository, &session, &location, advice)?;
    }
    let version = match &location.store {
        StoreAddress::Directory(_) => repository::recover(&repository, COMMITTER, session.id, now_ns())?.version,
        StoreAddress::Node(address) => recover_remotely(address, session.id)?,
    };
    let record = recovered(&repository, &location)?;
    let (size, data_bytes) = (record.size, repository::data_bytes(&repository, &record.root)?);
    repository.close()?;
    let mut fields = shown::path_fields(location.path.as_bytes());
    fields.insert("session".into(), session.id.to_string().into());
    fields.insert("version".into(), version.into());
    fields.insert("size".into(), size.into());
    fields.insert("data_bytes".into(), data_bytes.into());
    note_holes(output, &location, data_bytes, size);
    output.document(&Value::Object(fields))?;
    output.summary(format_args!("recovered {location} as version {version}, {}", shown::size(size)))
}

/// Refuses when the path's newest version is younger than the session: the session's writes are laid over it, and older
/// data would cover newer.
fn refuse_over_newer(repository: &Repository, session: &PathSession, location: &Location) -> anyhow::Result<()> {
    // One without checkpoints has nothing to put there: its writes were committed before it was interrupted.
    if repository.catalog().checkpoints(session.id)?.is_empty() {
        return Ok(());
    }
    let head = repository.catalog().entry(&location.path)?.and_then(|entry| entry.head);
    match head {
        Some(head) if head.committed_ns > session.opened_ns => {
            fail!(NewerVersion: "{location}: version {} was committed after session {} had begun, and recovering would put older data above \
                 it; look with `thalweg get --unfinished`, then `recover --force`, or drop it with `recover --discard`",
                head.number,
                session.id
            )
        }
        _ => Ok(()),
    }
}

fn discard(repository: &Repository, session: &PathSession, location: &Location, output: &Output) -> anyhow::Result<()> {
    repository.catalog().discard(session.id)?;
    repository.close()?;
    let mut fields = shown::path_fields(location.path.as_bytes());
    fields.insert("session".into(), session.id.to_string().into());
    fields.insert("discarded".into(), true.into());
    output.document(&Value::Object(fields))?;
    output.summary(format_args!(
        "dropped session {} of {location}; `thalweg collect` frees what only it needed",
        session.id
    ))
}

fn session_id(text: &str) -> anyhow::Result<SessionId> {
    match u64::from_str_radix(text, 16) {
        Ok(number) => Ok(SessionId(number)),
        Err(_) => misuse!("--session {text}: an id as `thalweg sessions` shows it is needed"),
    }
}

fn choose(
    catalog: &dyn Names,
    sessions: Vec<PathSession>,
    wanted: Option<SessionId>,
    location: &Location,
) -> anyhow::Result<PathSession> {
    let live =
        sessions.iter().rfind(|session| !session.interrupted && wanted.is_none_or(|id| session.id == id)).cloned();
    let mut interrupted = sessions.into_iter().filter(|session| session.interrupted);
    let found = match wanted {
        Some(id) => interrupted.find(|session| session.id == id),
        None => interrupted.next_back(),
    };
    if let Some(found) = found {
        return Ok(found);
    }
    match (live, wanted) {
        (Some(live), _) => {
            fail!(SessionLive: "{location}: {}", why_live(&live, catalog.lease_left_ms(live.id)?, now_ns()))
        }
        (None, Some(id)) => fail!(NoSession: "{location}: no interrupted session {id}; `thalweg sessions` lists them"),
        (None, None) => fail!(NoSession: "{location}: no interrupted session, nothing to recover"),
    }
}

/// A node that was killed leaves its sessions live, until their leases are over.
fn why_live(session: &PathSession, lease_left_ms: Option<u64>, now_ns: i64) -> String {
    let (id, nodes) = (session.id, session.nodes.join(" "));
    let max_s = repository::LEASE_MS / 1000;
    match lease_left_ms {
        Some(left_ms) => {
            let heard_ns = now_ns - repository::LEASE_MS.saturating_sub(left_ms) as i64 * 1_000_000;
            format!(
                "session {id} counts as being written: its node, {nodes}, was last heard of at {}; if that has ended, recover \
                 works in {} s at most",
                shown::time(heard_ns),
                left_ms.div_ceil(1000)
            )
        }
        None => format!(
            "session {id} counts as being written; if its job or its node, {nodes}, has ended, recover works {max_s} s later at most"
        ),
    }
}

/// Requests it again where the node was replaced before it answered and the session is still there: then nothing was
/// recovered.
fn recover_remotely(address: &str, session: SessionId) -> anyhow::Result<u64> {
    let remote = connect(address)?;
    let mut attempts = 0..MAX_ATTEMPTS;
    loop {
        attempts.next();
        let recovered = remote.obtain(&Request::Recover { session }, |reply| match reply {
            Reply::Version { number } => Some(number),
            _ => None,
        });
        match recovered {
            Err(transfer::Error::Unavailable { .. }) if !attempts.is_empty() && is_left(&remote, session) => {}
            answer => return Ok(answer?),
        }
    }
}

/// Whether the node answers that the session can still be recovered.
fn is_left(remote: &Remote, session: SessionId) -> bool {
    let sessions = RemoteCatalog::new(remote.clone()).path_sessions();
    sessions.is_ok_and(|found| found.iter().any(|found| found.id == session && found.interrupted))
}

fn recovered(repository: &Repository, location: &Location) -> anyhow::Result<VersionRecord> {
    let head = repository.catalog().entry(&location.path)?.and_then(|entry| entry.head);
    match head {
        Some(head) => Ok(head.record),
        None => fail!(ReplacedMeanwhile: "{location}: was recovered and is gone again"),
    }
}
