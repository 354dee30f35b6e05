//! The client processes: their connections, and the handles they hold on sessions.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use format::SessionId;
use transfer::message::{Failure, FailureKind, Reply};

/// Handles taken off that are remembered for one client; programs hold some hundreds at a time.
const MAX_LEFT: usize = 4096;
/// How long a client may be without any connection before it counts as dead.
pub(super) const GRACE: Duration = Duration::from_secs(20);

/// Requests about handles that are remembered of a client, so that one it sends again after a break changes nothing. It has
/// few of them under way at a time.
const MAX_REMEMBERED: usize = 64;
/// How long a repeated opening waits for the first to end.
const REPEAT_TIMEOUT: Duration = Duration::from_secs(30);

/// Tells a client's requests apart, also across breaks: its stream, and the number there.
pub(super) type RequestId = (u32, u64);

#[derive(Default)]
struct Client {
    connections: usize,
    /// One entry per handle.
    handles: Vec<SessionId>,
    /// Sessions it uses here, latest last.
    attached: VecDeque<SessionId>,
    /// Handles taken off: asking again after a break changes nothing.
    left: VecDeque<SessionId>,
    /// The latest openings, and their answers unless they are under way.
    openings: VecDeque<(RequestId, Option<Reply>)>,
    /// The latest requests that took a handle off.
    leavings: VecDeque<RequestId>,
    alone_since: Option<Instant>,
    /// The node's epoch when the client came: what the store told it may be as old as that.
    since_epoch: u64,
}

#[derive(Default)]
pub(crate) struct Clients {
    clients: Mutex<HashMap<u64, Client>>,
    /// An opening has ended.
    opened: Condvar,
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

    /// Opens by `open`, which also says of which session the client then holds a handle; an opening sent again after a
    /// break gets the answer of the first, and no second handle.
    pub fn open_once(
        &self,
        client: u64,
        request: RequestId,
        open: impl FnOnce() -> Result<(Reply, SessionId), Failure>,
    ) -> Result<Reply, Failure> {
        if let Some(reply) = self.begin_opening(client, request)? {
            return Ok(reply);
        }
        let opened = open();
        let mut clients = self.lock();
        let known = clients.entry(client).or_default();
        known.openings.retain(|(opening, _)| *opening != request);
        if let Ok((reply, session)) = &opened {
            known.handles.push(*session);
            remember(&mut known.openings, (request, Some(reply.clone())));
        }
        // It was away for so long that it counted as dead: the handle goes unless it comes back.
        if known.connections == 0 && known.alone_since.is_none() {
            known.alone_since = Some(Instant::now());
        }
        drop(clients);
        self.opened.notify_all();
        opened.map(|(reply, _)| reply)
    }

    /// The answer of an earlier opening by the same request; none when this is the first.
    fn begin_opening(&self, client: u64, request: RequestId) -> Result<Option<Reply>, Failure> {
        let deadline = Instant::now() + REPEAT_TIMEOUT;
        let mut clients = self.lock();
        loop {
            let known = clients.entry(client).or_default();
            match known.openings.iter().find(|(opening, _)| *opening == request) {
                None => {
                    remember(&mut known.openings, (request, None));
                    return Ok(None);
                }
                Some((_, Some(reply))) => return Ok(Some(reply.clone())),
                Some((_, None)) => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let text = "the same opening, sent before a break, has not ended yet; see the node's messages";
                return Err(Failure::new(FailureKind::Unavailable, text.to_owned()));
            }
            clients = self.opened.wait_timeout(clients, left).expect("no panic holds it").0;
        }
    }

    /// The client uses the session.
    pub fn attached(&self, client: u64, session: SessionId) {
        let mut clients = self.lock();
        let attached = &mut clients.entry(client).or_default().attached;
        if !attached.contains(&session) {
            attached.push_back(session);
        }
        if attached.len() > MAX_LEFT {
            attached.pop_front();
        }
    }

    /// Whether a handle of the client is to be taken off: one it holds, or one that another process of its job, or it
    /// itself before this node was started again, got for a session that it uses; but none twice by the same request,
    /// and none of a session that it has nothing to do with.
    pub fn take_handle(&self, client: u64, request: RequestId, session: SessionId) -> bool {
        let mut clients = self.lock();
        let client = clients.entry(client).or_default();
        if client.leavings.contains(&request) {
            return false;
        }
        remember(&mut client.leavings, request);
        let found = client.handles.iter().position(|held| *held == session);
        let fresh = !client.left.contains(&session) && client.attached.contains(&session);
        if fresh {
            client.left.push_back(session);
        }
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

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Client>> {
        self.clients.lock().expect("no panic holds it")
    }
}

fn remember<T>(latest: &mut VecDeque<T>, new: T) {
    if latest.len() >= MAX_REMEMBERED {
        latest.pop_front();
    }
    latest.push_back(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: u64) -> SessionId {
        SessionId(number)
    }

    fn open(clients: &Clients, request: RequestId) -> Result<Reply, Failure> {
        clients.open_once(1, request, || Ok((Reply::Done {}, session(7))))
    }

    #[test]
    fn an_opening_sent_again_adds_no_second_handle() {
        let clients = Clients::default();
        clients.connected(1, 0);
        open(&clients, (0, 5)).unwrap();
        let again = clients.open_once(1, (0, 5), || panic!("it is not opened again"));
        assert_eq!(again.unwrap(), Reply::Done {});
        open(&clients, (0, 6)).unwrap();
        assert_eq!(clients.take_handles(), [session(7), session(7)]);
    }

    #[test]
    fn an_opening_that_failed_is_tried_again() {
        let clients = Clients::default();
        let failed = clients.open_once(1, (0, 5), || Err(Failure::new(FailureKind::Io, "once".to_owned())));
        assert!(failed.is_err());
        open(&clients, (0, 5)).unwrap();
        assert_eq!(clients.take_handles(), [session(7)]);
    }

    #[test]
    fn an_opening_sent_again_waits_for_the_first() {
        let clients = Clients::default();
        std::thread::scope(|scope| {
            let (begun, has_begun) = std::sync::mpsc::channel();
            let clients = &clients;
            scope.spawn(move || {
                let slow = || {
                    begun.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(200));
                    Ok((Reply::Done {}, session(7)))
                };
                clients.open_once(1, (0, 5), slow).unwrap();
            });
            has_begun.recv().unwrap();
            clients.open_once(1, (0, 5), || panic!("it is not opened again")).unwrap();
        });
        assert_eq!(clients.take_handles(), [session(7)]);
    }

    #[test]
    fn a_leaving_sent_again_takes_no_other_handle_off() {
        let clients = Clients::default();
        open(&clients, (0, 5)).unwrap();
        open(&clients, (0, 6)).unwrap();
        assert!(clients.take_handle(1, (0, 7), session(7)));
        assert!(!clients.take_handle(1, (0, 7), session(7)), "the same request");
        assert!(clients.take_handle(1, (0, 8), session(7)));
        assert!(!clients.take_handle(1, (0, 9), session(7)), "there is none");
    }

    #[test]
    fn a_client_takes_off_handles_of_sessions_that_it_uses_and_of_no_others() {
        let clients = Clients::default();
        assert!(!clients.take_handle(2, (0, 1), session(7)), "it has nothing to do with it");
        clients.attached(2, session(7));
        assert!(clients.take_handle(2, (0, 2), session(7)), "its job's, or its own of before a restart");
        assert!(!clients.take_handle(2, (0, 3), session(7)));
    }

    #[test]
    fn the_handle_of_a_client_that_is_away_goes_with_it() {
        let clients = Clients::default();
        open(&clients, (0, 5)).unwrap();
        assert!(clients.lock()[&1].alone_since.is_some());
        clients.connected(1, 0);
        assert!(clients.lock()[&1].alone_since.is_none());
    }
}
