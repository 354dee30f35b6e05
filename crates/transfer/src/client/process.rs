//! State shared by a whole process: its number, window, streams, I/O threads and sessions.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use format::SessionId;
use policy::read_ahead::MAX_PROCESS_BYTES;

use super::background::Background;
use super::failed_files::FailedFiles;
use super::file::Handle;
use super::oneshot::{Answer, Completion, OneShot};
use super::reactor::{self, IoContext, Thread};
use super::reduction::{AdaptiveReducer, ProcessReduction};
use super::request_ahead::ReadAheadMemory;
use super::secrets::Secrets;
use super::session::Session;
use super::settings::Settings;
use super::stream::{Ask, Streams, Work};
use super::stream_choice::StreamChoice;
use super::ticket::Ticket;
use super::window::Window;
use crate::Result;
use crate::handshake::ClientIdentity;
use crate::message::Request;
use crate::random::random_number;

/// Pause between two tries of a writer that found the window full.
const ROOM_PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Process {
    pub settings: Settings,
    pub window: Arc<Window>,
    pub streams: Arc<Streams>,
    pub read_ahead_memory: Arc<ReadAheadMemory>,
    pub background: Background,
    pub failed_files: Arc<FailedFiles>,
    pub high_sequence: Arc<AtomicU64>,
    /// Set where segments may be reduced here.
    pub reduction: Option<Arc<ProcessReduction>>,
    pub secrets: Arc<Secrets>,
    threads: Vec<Arc<Thread>>,
    sessions: Mutex<HashMap<SessionId, OpenSession>>,
    /// Home nodes that were asked for a model.
    modelled: Mutex<HashSet<String>>,
    forgotten: Condvar,
    /// Files whose started operations wait for room.
    stalled: Mutex<Vec<Arc<Handle>>>,
}

/// A session and how many files of this process are handles of it; zero while it closes or opens.
struct OpenSession {
    session: Option<Arc<Session>>,
    handles: usize,
}

impl Process {
    /// Starts the I/O threads.
    pub fn start(settings: Settings, reducer: Option<AdaptiveReducer>) -> Result<Arc<Self>> {
        let count = settings.streams.map_or(reactor::THREADS, |streams| streams.min(reactor::THREADS));
        let threads = (0..count).map(|_| Thread::new()).collect::<Result<Vec<_>>>()?;
        let streams = Arc::new(Streams::new(threads.clone(), StreamChoice::new(settings.streams)));
        let window = Arc::new(Window::new(settings.window_bytes, threads[0].waker.clone()));
        let reducer = reducer.filter(|reducer| reducer.policy.may_use_client());
        let reduction = reducer.map(|reducer| Arc::new(ProcessReduction::new(reducer)));
        let secrets = Arc::new(Secrets::new(settings.credentials.clone()));
        secrets.know(&settings.nodes, settings.credentials_of_nodes());
        let (job, application) = (settings.job.clone(), settings.application.clone());
        let identity = ClientIdentity { client: random_number()?, job, application };
        let context = Arc::new(IoContext {
            secrets: secrets.clone(),
            identity,
            timeout: settings.timeout,
            window: window.clone(),
            streams: streams.clone(),
            reduction: reduction.clone(),
        });
        let process = Arc::new(Process {
            window,
            streams,
            read_ahead_memory: Arc::new(ReadAheadMemory::new(MAX_PROCESS_BYTES)),
            background: Background::default(),
            failed_files: Arc::default(),
            high_sequence: Arc::default(),
            reduction,
            secrets,
            threads: threads.clone(),
            sessions: Mutex::default(),
            modelled: Mutex::default(),
            forgotten: Condvar::new(),
            stalled: Mutex::default(),
            settings,
        });
        for (index, thread) in threads.into_iter().enumerate() {
            let process = Arc::downgrade(&process);
            let copy_on = move || {
                // The first thread alone copies, so that operations keep their order.
                index == 0 && process.upgrade().is_some_and(|process| process.copy_on())
            };
            reactor::start(index as u32, thread, context.clone(), copy_on)?;
        }
        Ok(process)
    }

    /// Returns the session of a ticket, attached, and counts one handle more.
    pub fn join(self: &Arc<Self>, ticket: &Ticket) -> Result<Arc<Session>> {
        let id = ticket.session.id;
        let mut sessions = self.sessions();
        // A closing one must be gone first: nodes could not distinguish its detach from a new attach.
        while let Some(held) = sessions.get_mut(&id) {
            if let Some(session) = &held.session {
                held.handles += 1;
                return Ok(session.clone());
            }
            sessions = self.forgotten.wait(sessions).expect("nothing panics while it holds the sessions");
        }
        sessions.insert(id, OpenSession { session: None, handles: 1 });
        drop(sessions);
        let model = self.ask_model(&ticket.session.nodes[0]);
        let session = Session::attach(self, ticket);
        if session.is_err() {
            self.forget(id);
        }
        let session = session?;
        if let Some(reduction) = &self.reduction {
            reduction.begin();
            model.into_iter().for_each(|model| reduction.use_model(model.wait()));
        }
        self.sessions().insert(id, OpenSession { session: Some(session.clone()), handles: 1 });
        self.forgotten.notify_all();
        Ok(session)
    }

    /// Asks a home node for its store's model, once, if segments may be reduced here.
    fn ask_model(&self, home: &str) -> Option<Arc<OneShot<Result<Answer>>>> {
        let is_new = self.reduction.is_some() && self.modelled().insert(home.to_owned());
        is_new.then(|| {
            let answer = OneShot::new();
            self.ask_node(home, Request::Model {}, self.settings.timeout, answer.sender());
            answer
        })
    }

    /// Counts one handle less; true for the last, whose owner must close the session.
    pub fn part(&self, id: SessionId) -> bool {
        let mut sessions = self.sessions();
        let held = sessions.get_mut(&id).expect("a handle's session is held");
        held.handles -= 1;
        if held.handles == 0 {
            held.session = None;
        }
        held.handles == 0
    }

    pub fn is_only_handle(&self, id: SessionId) -> bool {
        self.sessions().get(&id).is_some_and(|held| held.handles == 1)
    }

    pub fn forget(&self, id: SessionId) {
        self.sessions().remove(&id);
        self.forgotten.notify_all();
    }

    /// Sends a node a request that belongs to no send queue.
    pub fn ask_node(&self, address: &str, request: Request, timeout: Duration, completion: Completion) {
        let refused = self.streams.get(address, 0).push(None, Work::Ask(Ask::new(request, timeout, completion)));
        assert!(refused.is_none(), "only work of failed send queues is given back");
    }

    pub fn ask_node_and_wait(&self, address: &str, request: Request, timeout: Duration) -> Result<Answer> {
        let answer = OneShot::new();
        self.ask_node(address, request, timeout, answer.sender());
        answer.wait()
    }

    /// Handles a full window: starts everything that can make room.
    pub fn relieve(&self) {
        let sessions: Vec<Arc<Session>> = self.sessions().values().filter_map(|held| held.session.clone()).collect();
        for session in sessions {
            session.seal();
            session.hint_again();
        }
    }

    pub fn make_room(&self) {
        self.relieve();
        self.window.wait_for_room(ROOM_PAUSE);
    }

    /// Registers a file whose started operations continue when there is room.
    pub fn stall(&self, file: &Arc<Handle>) {
        let mut stalled = self.stalled();
        if !stalled.iter().any(|known| Arc::ptr_eq(known, file)) {
            stalled.push(file.clone());
        }
        drop(stalled);
        self.threads[0].wake();
    }

    /// Continues started operations; true when some still wait for room.
    fn copy_on(&self) -> bool {
        if self.stalled().is_empty() {
            return false;
        }
        if self.window.is_stalled() {
            self.relieve();
        } else {
            let files = std::mem::take(&mut *self.stalled());
            files.iter().for_each(Handle::advance);
        }
        !self.stalled().is_empty()
    }

    pub fn stop(&self) {
        self.threads.iter().for_each(|thread| thread.stop());
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, OpenSession>> {
        self.sessions.lock().expect("nothing panics while it holds the sessions")
    }

    fn modelled(&self) -> MutexGuard<'_, HashSet<String>> {
        self.modelled.lock().expect("nothing panics while it holds the nodes' names")
    }

    fn stalled(&self) -> MutexGuard<'_, Vec<Arc<Handle>>> {
        self.stalled.lock().expect("nothing panics while it holds the stalled files")
    }
}
