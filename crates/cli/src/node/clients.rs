//! The client processes: their connections, and the handles they hold on sessions.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use format::SessionId;

/// Handles taken off that are remembered for one client; programs hold some hundreds at a time.
const MAX_LEFT: usize = 4096;
/// How long a client may be without any connection before it counts as dead.
pub(super) const GRACE: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Client {
    connections: usize,
    /// One entry per handle.
    handles: Vec<SessionId>,
    /// Handles taken off: asking again after a break changes nothing.
    left: VecDeque<SessionId>,
    alone_since: Option<Instant>,
    /// The node's epoch when the client came: what the store told it may be as old as that.
    since_epoch: u64,
}

#[derive(Default)]
pub(crate) struct Clients {
    clients: Mutex<HashMap<u64, Client>>,
}

impl Clients {
    pub fn connected(&self, client: u64, epoch: u64) {
        let mut clients = self.clients.lock().expect("no panic holds it");
        let client = clients.entry(client).or_insert_with(|| Client { since_epoch: epoch, ..Client::default() });
        client.connections += 1;
        client.alone_since = None;
    }

    /// The oldest epoch an answer to this client may be of.
    pub fn since_epoch(&self, client: u64) -> u64 {
        self.clients.lock().expect("no panic holds it").get(&client).map_or(0, |client| client.since_epoch)
    }

    pub fn disconnected(&self, client: u64) {
        let mut clients = self.clients.lock().expect("no panic holds it");
        if let Some(client) = clients.get_mut(&client) {
            client.connections -= 1;
            if client.connections == 0 {
                client.alone_since = Some(Instant::now());
            }
        }
    }

    pub fn add_handle(&self, client: u64, session: SessionId) {
        let mut clients = self.clients.lock().expect("no panic holds it");
        clients.entry(client).or_default().handles.push(session);
    }

    /// Whether a handle of the client is to be taken off: one it holds, or one it got before this node was started
    /// again, but none twice.
    pub fn take_handle(&self, client: u64, session: SessionId) -> bool {
        let mut clients = self.clients.lock().expect("no panic holds it");
        let client = clients.entry(client).or_default();
        let found = client.handles.iter().position(|held| *held == session);
        let fresh = !client.left.contains(&session);
        client.left.push_back(session);
        if client.left.len() > MAX_LEFT {
            client.left.pop_front();
        }
        found.map(|at| client.handles.swap_remove(at)).is_some() || fresh
    }

    /// All handles of all clients, taken off: the node stops.
    pub fn take_handles(&self) -> Vec<SessionId> {
        let mut clients = self.clients.lock().expect("no panic holds it");
        clients.values_mut().flat_map(|client| std::mem::take(&mut client.handles)).collect()
    }

    /// The handles of clients that stayed away too long.
    pub fn take_dead(&self) -> Vec<Vec<SessionId>> {
        let mut clients = self.clients.lock().expect("no panic holds it");
        let is_dead = |client: &Client| client.alone_since.is_some_and(|since| since.elapsed() > GRACE);
        let dead: Vec<u64> = clients.iter().filter(|(_, client)| is_dead(client)).map(|(id, _)| *id).collect();
        dead.into_iter().filter_map(|id| clients.remove(&id).map(|client| client.handles)).collect()
    }
}
