//! The leftovers of a job: sessions that were never committed, and files that its processes could not store.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use anyhow::Context;
use catalog::{Names, PathSession};
use format::{ErrorCode, StorePath};
use repository::{Access, LEASE_MS, Repository};
use transfer::{Credentials, Remote, RemoteCatalog};

use super::side_by_side::{all_answers, first_answer, within};
use crate::location::StoreAddress;
use crate::opening::{open_remote, open_store};
use crate::output::Output;

/// A node that was killed at the job's end is being started again.
const RESTART_TIMEOUT: Duration = Duration::from_secs(3);
/// A commit that a process asked for before it ended may still go on.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);
/// A node that stands still is not waited for: the job has ended, and its user waits.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(3);
/// For all that is asked of nodes; half of it again for what their sessions have left.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);
/// As `ANSWER_TIMEOUT`, for a node of the job's own, which is only busy.
const OWN_ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

type Answer = anyhow::Result<Leftovers>;

/// The parts of a job that are not stored.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// Those that are not ended.
    sessions: Vec<PathSession>,
    /// Failures, with or without a session that is left.
    failures: Vec<(StorePath, String)>,
}

impl Leftovers {
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.failures.is_empty()
    }
}

/// All nodes are asked: sessions stand in their store's catalog, failures are kept by the node that they were reported to.
/// Nodes that do not answer are passed over as long as one does.
pub(super) fn of_job(nodes: &[String], is_own_node: bool, job: &str, credentials: &Credentials) -> Answer {
    let timeout = if is_own_node { OWN_ANSWER_TIMEOUT } else { ANSWER_TIMEOUT };
    let (job, credentials) = (job.to_owned(), credentials.clone());
    let ask = move |node: &str| ask_until_checkpointed(node, &job, &credentials);
    let answers = all_answers(nodes, timeout, ask).context("it is unknown what the job left open")?;
    let mut all = Leftovers::default();
    for Leftovers { sessions, failures } in answers {
        all.sessions.extend(new_ones(&all.sessions, sessions, |known, new| known.id == new.id));
        all.failures.extend(new_ones(&all.failures, failures, |known, new| known.0 == new.0));
    }
    Ok(all)
}

fn new_ones<T>(known: &[T], found: Vec<T>, is_same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    found.into_iter().filter(|new| !known.iter().any(|known| is_same(known, new))).collect()
}

/// Asks again while the node is being started, and while it may be ending what the job's last processes asked for.
fn ask_until_checkpointed(node: &str, job: &str, credentials: &Credentials) -> Answer {
    let begun = Instant::now();
    loop {
        match left(node, job, credentials) {
            Err(_) if begun.elapsed() < RESTART_TIMEOUT => {}
            Ok(found) if is_ending(&found.sessions) && begun.elapsed() < COMMIT_TIMEOUT => {}
            answer => return answer,
        }
        std::thread::sleep(PAUSE);
    }
}

fn is_ending(sessions: &[PathSession]) -> bool {
    sessions.iter().any(|session| !session.interrupted)
}

fn left(node: &str, job: &str, credentials: &Credentials) -> Answer {
    let remote = connect(node, credentials)?;
    let failures = remote.job_failures(job)?;
    let mut sessions = RemoteCatalog::new(remote).path_sessions()?;
    sessions.retain(|session| session.job == job);
    Ok(Leftovers { sessions, failures })
}

fn connect(node: &str, credentials: &Credentials) -> anyhow::Result<Remote> {
    Ok(Remote::connect_within(WELCOME_TIMEOUT, credentials.clone(), node, transfer::random_number()?)?)
}

/// The possible uses of a session.
#[derive(Debug, PartialEq, Eq)]
enum Remains {
    /// Data, and how long its lease runs until it can be recovered (s).
    Data {
        lease_left_s: u64,
    },
    Nothing,
    /// Nothing beside a version that was committed since it began.
    Committed,
    /// Its store does not say, or its node has not ended it.
    Unknown,
}

/// Names each file that was not committed, and how to get at what was checkpointed. A node of the job's own has ended:
/// then the store itself is asked.
pub(super) fn report(
    left: &Leftovers,
    own_store: Option<&OsStr>,
    nodes: &[String],
    credentials: &Credentials,
    output: &Output,
) {
    for (path, why) in &left.failures {
        output.note(ErrorCode::FileNotStored.after(format_args!("{path} was not stored: {why}")));
    }
    if left.sessions.is_empty() {
        return;
    }
    let remains = match own_store {
        Some(directory) => {
            let opened = open_store(&StoreAddress::Directory(directory.into()), Access::Read);
            opened.ok().map(|repository| look_at_all(&repository, &left.sessions, true))
        }
        None => {
            let (nodes, credentials, sessions) = (nodes.to_vec(), credentials.clone(), left.sessions.clone());
            let look = move || {
                let open = move |node: &str| Ok(open_remote(connect(node, &credentials)?, Access::Read)?);
                let repository = first_answer(&nodes, open).ok()?;
                Some(look_at_all(&repository, &sessions, false))
            };
            within(ANSWER_TIMEOUT / 2, look).flatten()
        }
    };
    let mut remains = remains.unwrap_or_default().into_iter();
    for session in &left.sessions {
        output.note(described(session, &remains.next().unwrap_or(Remains::Unknown)));
    }
}

fn look_at_all(repository: &Repository, sessions: &[PathSession], has_node_ended: bool) -> Vec<Remains> {
    let look = |session| look(repository, session, has_node_ended).unwrap_or(Remains::Unknown);
    sessions.iter().map(look).collect()
}

fn look(repository: &Repository, session: &PathSession, has_node_ended: bool) -> anyhow::Result<Remains> {
    let all = repository.catalog().path_sessions()?;
    let without_data = || {
        let head = repository.catalog().entry(&session.path)?.and_then(|entry| entry.head);
        let is_committed = head.is_some_and(|version| version.committed_ns >= session.opened_ns);
        anyhow::Ok(if is_committed { Remains::Committed } else { Remains::Nothing })
    };
    let Some(found) = all.into_iter().find(|found| found.id == session.id) else { return without_data() };
    if repository::checkpointed_data(repository, &found)? > 0 {
        let left_ms = match found.interrupted {
            true => 0,
            // A node that runs gives its dead clients up by then.
            false if !has_node_ended => LEASE_MS,
            false => repository.catalog().lease_left_ms(found.id)?.unwrap_or(0),
        };
        return Ok(Remains::Data { lease_left_s: left_ms.div_ceil(1000) });
    }
    if has_node_ended || found.interrupted { without_data() } else { Ok(Remains::Unknown) }
}

fn described(session: &PathSession, remains: &Remains) -> String {
    let remains = match remains {
        Remains::Committed => return format!("{} was not closed: its last version has what was stored", session.path),
        Remains::Data { lease_left_s: 0 } => "`thalweg recover` makes one of its last checkpoint".into(),
        Remains::Data { lease_left_s } => {
            format!("`thalweg recover` makes one of its last checkpoint, in {lease_left_s} s at most")
        }
        Remains::Nothing => "no data of it is left to recover".into(),
        Remains::Unknown => "`thalweg sessions` shows what is left of it".to_owned(),
    };
    format!("{} was not closed: nothing of this session is a version; {remains}", session.path)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use format::{SessionId, Settings};
    use transfer::Connection;
    use transfer::message::Reply;

    use super::*;

    #[test]
    fn a_node_that_welcomes_and_is_silent_then_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let nodes = [listener.local_addr().unwrap().to_string()];
        std::thread::spawn(move || {
            let connections = std::iter::from_fn(|| listener.accept().ok());
            let welcomed = connections.map(|(stream, peer)| {
                let connection = Connection::accepted(stream, peer).unwrap();
                let hello = connection.receive().unwrap().expect("a client greets");
                let settings = Settings::new(Default::default()).to_text();
                let welcome = Reply::Welcome { settings, incarnation: 1 };
                connection.send(welcome.kind(), hello.header.request, &welcome.encode(), &[]).unwrap();
                connection
            });
            welcomed.collect::<Vec<_>>()
        });
        let begun = Instant::now();
        let error = of_job(&nodes, false, "job", &Credentials::default()).unwrap_err();
        assert!(begun.elapsed() < ANSWER_TIMEOUT * 3, "{:?}", begun.elapsed());
        let said = format!("{error:#}");
        assert!(said.contains("unknown what the job left open") && said.contains("did not answer within"), "{said}");
    }

    #[test]
    fn recover_is_advised_only_where_there_is_data() {
        let session = PathSession {
            id: SessionId(7),
            path: StorePath::new(b"out").unwrap(),
            nodes: vec!["here".into()],
            stripe_bytes: 1 << 20,
            job: "job".into(),
            opened_ns: 0,
            handles: 0,
            interrupted: false,
        };
        let says = |remains| described(&session, &remains);
        assert!(says(Remains::Data { lease_left_s: 0 }).ends_with("one of its last checkpoint"));
        assert!(says(Remains::Data { lease_left_s: 21 }).ends_with("one of its last checkpoint, in 21 s at most"));
        for without in [Remains::Nothing, Remains::Committed, Remains::Unknown] {
            assert!(!says(without).contains("recover`"));
        }
    }
}
