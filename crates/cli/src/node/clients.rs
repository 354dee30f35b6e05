//! The client processes: their connections, and the handles of sessions that they opened.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use format::{HandleKey, SessionId};
use store::ClaimOwner;
use transfer::message::{Failure, FailureKind, Reply};

/// How long a client may be without any connection before it counts as dead.
pub(super) const REATTACH_TIMEOUT: Duration = Duration::from_secs(20);

/// Openings that are remembered of a client, so that one it sends again after a break changes nothing. It has few of them
/// under way at a time.
const MAX_REMEMBERED: usize = 64;
/// Claim owners that are known of a client: ours use one a thread that stores.
const MAX_CLAIM_OWNERS: usize = 256;
/// Files that a client, and all together, may have open at a time: the leases of their sessions are renewed one by one.
const MAX_OF_CLIENT: usize = 4096;
const MAX_OPEN: usize = 65_536;
/// How long a repeated opening waits for the first to end.
const REPEAT_TIMEOUT: Duration = Duration::from_secs(30);

/// A handle, as the catalog knows it.
pub(super) type Handle = (SessionId, HandleKey);

#[derive(Default)]
struct Client {
    connections: usize,
    /// The handles that it received here and did not give back.
    handles: Vec<Handle>,
    /// The latest openings by their keys, and their answers unless they are under way.
    openings: VecDeque<(HandleKey, Option<Reply>)>,
    /// The latest handles whose files it committed to close them, and did not give back: it need not live any more.
    closed: VecDeque<Handle>,
    alone_since: Option<Instant>,
    /// Its claim owners, by its own numbers, those used last at the end.
    claim_owners: VecDeque<(u64, ClaimOwner)>,
    /// The node's epoch when the client came: its answers from the store may be as old as that.
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

    /// Returns the oldest epoch an answer to this client may be of.
    pub fn since_epoch(&self, client: u64) -> u64 {
        self.clients.lock().expect("no panic holds it").get(&client).map_or(0, |client| client.since_epoch)
    }

    /// Counts one connection less. Returns the claim owners that end with the last.
    #[must_use]
    pub fn disconnected(&self, client: u64) -> Vec<ClaimOwner> {
        let mut clients = self.clients.lock().expect("no panic holds it");
        let Some(client) = clients.get_mut(&client) else { return Vec::new() };
        client.connections -= 1;
        if client.connections > 0 {
            return Vec::new();
        }
        client.alone_since = Some(Instant::now());
        client.claim_owners.drain(..).map(|(_, owner)| owner).collect()
    }

    /// Returns the store's number for a claim owner of the client, which is `new` at its first request; and another that
    /// ends because there are too many.
    pub fn claim_owner(
        &self,
        client: u64,
        number: u64,
        new: impl FnOnce() -> ClaimOwner,
    ) -> (ClaimOwner, Option<ClaimOwner>) {
        let mut clients = self.lock();
        let owners = &mut clients.entry(client).or_default().claim_owners;
        let known = owners.iter().rposition(|(known, _)| *known == number);
        let owner = known.and_then(|at| owners.remove(at)).map_or_else(new, |(_, owner)| owner);
        owners.push_back((number, owner));
        let excess = if owners.len() > MAX_CLAIM_OWNERS { owners.pop_front() } else { None };
        (owner, excess.map(|(_, owner)| owner))
    }

    /// Opens by `open`, which also says which handle the client then holds; an opening sent again after a
    /// break gets the answer of the first, and no second handle.
    pub fn open_once(
        &self,
        client: u64,
        key: HandleKey,
        open: impl FnOnce() -> Result<(Reply, Handle), Failure>,
    ) -> Result<Reply, Failure> {
        if let Some(reply) = self.begin_opening(client, key)? {
            return Ok(reply);
        }
        let opened = open();
        let mut clients = self.lock();
        let known = clients.entry(client).or_default();
        known.openings.retain(|(opening, _)| *opening != key);
        if let Ok((reply, handle)) = &opened {
            known.handles.push(*handle);
            remember(&mut known.openings, (key, Some(reply.clone())));
        }
        // It was away for so long that it counted as dead: the handle goes unless it comes back.
        if known.connections == 0 && known.alone_since.is_none() {
            known.alone_since = Some(Instant::now());
        }
        drop(clients);
        self.opened.notify_all();
        opened.map(|(reply, _)| reply)
    }

    /// Returns the answer of an earlier opening with the same key; none when this is the first.
    fn begin_opening(&self, client: u64, key: HandleKey) -> Result<Option<Reply>, Failure> {
        let deadline = Instant::now() + REPEAT_TIMEOUT;
        let mut clients = self.lock();
        loop {
            let known = clients.entry(client).or_default();
            match known.openings.iter().find(|(opening, _)| *opening == key) {
                None => {
                    let of_client = known.handles.len();
                    admit(of_client, clients.values().map(|client| client.handles.len()).sum())?;
                    remember(&mut clients.entry(client).or_default().openings, (key, None));
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

    /// Notes that the handle was taken off: it does not go with the client that opened it any more, which may be
    /// another process of the job.
    pub fn gave_back(&self, handle: Handle) {
        self.lock().values_mut().for_each(|client| {
            client.handles.retain(|held| *held != handle);
            client.closed.retain(|held| *held != handle);
        });
    }

    /// Notes that the client has committed a file as the last it does with this handle.
    pub fn closed(&self, client: u64, handle: Handle) {
        if let Some(client) = self.lock().get_mut(&client) {
            remember(&mut client.closed, handle);
        }
    }

    /// Takes the handles of closed files that clients had no time to give back before they ended.
    pub fn take_closed(&self) -> Vec<Handle> {
        let mut clients = self.lock();
        let ended = clients.values_mut().filter(|client| client.connections == 0);
        ended.flat_map(|client| client.closed.drain(..)).collect()
    }

    /// Takes the handles of clients that had left by then. The others come to the node that is started next.
    pub fn take_handles_of_gone(&self, by: Instant) -> Vec<Handle> {
        let mut clients = self.lock();
        let gone = clients.values_mut().filter(|client| client.alone_since.is_some_and(|since| since <= by));
        gone.flat_map(|client| std::mem::take(&mut client.handles)).collect()
    }

    /// Returns the handles of clients that stayed away too long.
    pub fn take_dead(&self) -> Vec<Vec<Handle>> {
        let mut clients = self.clients.lock().expect("no panic holds it");
        let is_dead = |client: &Client| client.alone_since.is_some_and(|since| since.elapsed() > REATTACH_TIMEOUT);
        let dead: Vec<u64> = clients.iter().filter(|(_, client)| is_dead(client)).map(|(id, _)| *id).collect();
        let handles_of = |client: Client| client.handles.into_iter().chain(client.closed).collect();
        dead.into_iter().filter_map(|id| clients.remove(&id).map(handles_of)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Client>> {
        self.clients.lock().expect("no panic holds it")
    }
}

fn admit(of_client: usize, of_all: usize) -> Result<(), Failure> {
    let why = match () {
        () if of_client >= MAX_OF_CLIENT => format!("this process has {of_client} files open; close some"),
        () if of_all >= MAX_OPEN => format!("programs have {of_all} files open at this node; try again later"),
        () => return Ok(()),
    };
    Err(Failure::new(FailureKind::Unavailable, format!("no file was opened: {why}")))
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

    fn key(number: u8) -> HandleKey {
        HandleKey([number; HandleKey::BYTES])
    }

    fn handle(number: u8) -> Handle {
        (SessionId(7), key(number))
    }

    fn open(clients: &Clients, number: u8) -> Result<Reply, Failure> {
        clients.open_once(1, key(number), || Ok((Reply::Done {}, handle(number))))
    }

    #[test]
    fn claim_owners_are_a_client_s_own_until_its_last_connection_ends() {
        let clients = Clients::default();
        let owner =
            |client: u64, number: u64| clients.claim_owner(client, number, || ClaimOwner(100 * client + number));
        [1, 1, 2].into_iter().for_each(|client| clients.connected(client, 0));
        assert_eq!(owner(1, 5), (ClaimOwner(105), None));
        assert_eq!(clients.claim_owner(1, 5, || panic!("it is known")), (ClaimOwner(105), None));
        assert_eq!(owner(2, 5), (ClaimOwner(205), None));
        assert!(clients.disconnected(1).is_empty(), "it has another connection");
        assert_eq!(clients.disconnected(1), [ClaimOwner(105)]);
        assert_eq!(clients.disconnected(2), [ClaimOwner(205)]);
    }

    #[test]
    fn the_claim_owner_that_is_not_used_ends_where_a_client_has_too_many() {
        let clients = Clients::default();
        let owner = |number: u64| clients.claim_owner(1, number, || ClaimOwner(number));
        (0..MAX_CLAIM_OWNERS as u64).for_each(|number| assert_eq!(owner(number), (ClaimOwner(number), None)));
        owner(0);
        assert_eq!(owner(9999), (ClaimOwner(9999), Some(ClaimOwner(1))));
    }

    #[test]
    fn an_opening_sent_again_adds_no_second_handle() {
        let clients = Clients::default();
        clients.connected(1, 0);
        open(&clients, 5).unwrap();
        let again = clients.open_once(1, key(5), || panic!("it is not opened again"));
        assert_eq!(again.unwrap(), Reply::Done {});
        open(&clients, 6).unwrap();
        let _ = clients.disconnected(1);
        assert_eq!(clients.take_handles_of_gone(Instant::now()), [handle(5), handle(6)]);
    }

    #[test]
    fn a_node_that_stops_leaves_the_files_of_clients_that_are_there() {
        let clients = Clients::default();
        [1, 2].into_iter().for_each(|client| clients.connected(client, 0));
        for (client, number) in [(1, 5), (2, 6)] {
            clients.open_once(client, key(number), || Ok((Reply::Done {}, handle(number)))).unwrap();
        }
        let _ = clients.disconnected(1);
        let asked = Instant::now();
        // Its connection ends with the node.
        let _ = clients.disconnected(2);
        assert_eq!(clients.take_handles_of_gone(asked), [handle(5)]);
    }

    #[test]
    fn files_that_are_open_are_bounded_for_a_client_and_in_all() {
        let clients = Clients::default();
        let open = |client: u64, number: u64| {
            let mut key = HandleKey([0; HandleKey::BYTES]);
            key.0[..8].copy_from_slice(&(number + 1).to_le_bytes());
            clients
                .open_once(client, key, || Ok((Reply::Done {}, (SessionId(number), key))))
                .map(|_| (SessionId(number), key))
        };
        let first = open(1, 0).unwrap();
        assert!((1..MAX_OF_CLIENT as u64).all(|number| open(1, number).is_ok()));
        assert!(open(1, 1 << 40).unwrap_err().text.contains("close some"));
        clients.gave_back(first);
        open(1, 1 << 40).unwrap();
        for client in 2..=(MAX_OPEN / MAX_OF_CLIENT) as u64 {
            let handles = vec![first; MAX_OF_CLIENT];
            clients.lock().insert(client, Client { handles, ..Client::default() });
        }
        assert!(open(1 << 41, 1 << 41).unwrap_err().text.contains("try again later"));
    }

    #[test]
    fn an_opening_that_failed_is_tried_again() {
        let clients = Clients::default();
        let failed = clients.open_once(1, key(5), || Err(Failure::new(FailureKind::Io, "once".to_owned())));
        assert!(failed.is_err());
        open(&clients, 5).unwrap();
        assert_eq!(clients.take_handles_of_gone(Instant::now()), [handle(5)]);
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
                    Ok((Reply::Done {}, handle(5)))
                };
                clients.open_once(1, key(5), slow).unwrap();
            });
            has_begun.recv().unwrap();
            clients.open_once(1, key(5), || panic!("it is not opened again")).unwrap();
        });
        assert_eq!(clients.take_handles_of_gone(Instant::now()), [handle(5)]);
    }

    #[test]
    fn a_handle_that_any_process_of_the_job_gave_back_goes_with_no_client() {
        let clients = Clients::default();
        open(&clients, 5).unwrap();
        open(&clients, 6).unwrap();
        clients.gave_back(handle(5));
        clients.gave_back(handle(5));
        assert_eq!(clients.take_handles_of_gone(Instant::now()), [handle(6)]);
    }

    #[test]
    fn handles_of_closed_files_are_taken_of_clients_that_have_ended() {
        let clients = Clients::default();
        [1, 2].into_iter().for_each(|client| clients.connected(client, 0));
        open(&clients, 5).unwrap();
        [(1, 5), (1, 6), (2, 7)].into_iter().for_each(|(client, number)| clients.closed(client, handle(number)));
        assert_eq!(clients.take_closed(), [], "they may still give them back");
        clients.gave_back(handle(6));
        let _ = clients.disconnected(1);
        assert_eq!(clients.take_closed(), [handle(5)]);
        assert_eq!(clients.take_closed(), []);
    }

    #[test]
    fn the_handle_of_a_client_that_is_away_goes_with_it() {
        let clients = Clients::default();
        open(&clients, 5).unwrap();
        assert!(clients.lock()[&1].alone_since.is_some());
        clients.connected(1, 0);
        assert!(clients.lock()[&1].alone_since.is_none());
    }
}
