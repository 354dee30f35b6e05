//! One connection to a node, for one request at a time.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use format::Settings;

use super::outage::Attempts;
use crate::message::{Reply, Request};
use crate::node_connection::{Disconnect, Event, HandshakeTimeouts, LAST_HANDSHAKE_NUMBER, NodeConnection};
use crate::{Credentials, Error, SILENCE_TIMEOUT, resolve};

type Result<T, E = Error> = std::result::Result<T, E>;

/// A node that lives but makes no progress for this long has failed.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(120);
/// A node that reports progress but does not answer is believed no longer than this.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(40 * 60);
/// Catalog queries wait for no other client's data: a node that does not answer within this will not.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);
/// A node that lives but does not welcome its client is given up after this.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the times above are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// How long a node may leave this process without a welcome.
const HANDSHAKE_TIMEOUTS: HandshakeTimeouts = HandshakeTimeouts { silence: SILENCE_TIMEOUT, welcome: WELCOME_TIMEOUT };

/// A connection is taken in one, and a client welcomed in another; with TLS and a secret it takes more, which may count:
/// the time is an estimate.
const MIN_ROUND_TRIPS: u32 = 2;

/// Addresses of nodes that have welcomed this process; more are not remembered.
static WELCOMING: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
const MAX_WELCOMING: usize = 1024;

/// Returns what may be wrong with a peer that answers no greeting.
fn doubt(has_welcomed: bool) -> &'static str {
    match has_welcomed {
        true => "it did earlier, so it stands still or is overloaded",
        false => "it may stand still, or is it a thalweg node?",
    }
}

pub(super) struct PooledConnection {
    node: NodeConnection,
    /// The node process at the other end.
    pub incarnation: u64,
    pub settings: Settings,
    last_number: u64,
    is_broken: bool,
    /// How long an answer is under way: as connecting and the handshake took it.
    pub round_trip: Duration,
    /// Of payloads of requests, and of answers to requests that were sent one behind another.
    pub carried_bytes: u64,
    /// Counts, for all connections of a process, the times that something could be sent.
    pub sent: Arc<AtomicU64>,
}

impl PooledConnection {
    /// Opens a connection, with TLS and a secret if there are credentials for them: the node must have its part of
    /// each.
    pub fn open(address: &str, hello: Request, credentials: &Credentials) -> Result<Self> {
        Self::noted(address, Self::try_open(HANDSHAKE_TIMEOUTS, address, hello, credentials))
    }

    /// As `open`, but gives the node up when it has not welcomed this process within `timeout`.
    pub fn open_within(timeout: Duration, address: &str, hello: Request, credentials: &Credentials) -> Result<Self> {
        let timeouts = HandshakeTimeouts { silence: timeout, welcome: timeout };
        Self::noted(address, Self::try_open(timeouts, address, hello, credentials))
    }

    /// As `open`, but tries again while `attempts` last where the node answers that it takes no client now.
    pub fn open_when_free(
        address: &str,
        hello: Request,
        credentials: &Credentials,
        mut attempts: Attempts,
    ) -> Result<Self> {
        let mut busy = None;
        loop {
            match (Self::try_open(HANDSHAKE_TIMEOUTS, address, hello.clone(), credentials), &busy) {
                (Err(OpenFailure::Busy(error)), _) => attempts.wait(busy.insert(error).clone())?,
                // Among a crowd it may hang up without a word.
                (Err(OpenFailure::BeforeWelcome(Error::Unavailable { .. })), Some(said)) => {
                    attempts.wait(said.clone())?
                }
                (opened, _) => return Self::noted(address, opened),
            }
        }
    }

    /// Remembers who welcomed this process.
    fn noted(address: &str, opened: Result<Self, OpenFailure>) -> Result<Self> {
        let mut welcoming = WELCOMING.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.is_ok() && welcoming.len() < MAX_WELCOMING {
            welcoming.insert(address.to_owned());
        }
        opened.map_err(|failure| failure.with_doubt(doubt(welcoming.contains(address))))
    }

    fn try_open(
        timeouts: HandshakeTimeouts,
        address: &str,
        hello: Request,
        credentials: &Credentials,
    ) -> Result<Self, OpenFailure> {
        let candidates = resolve::candidates(address)?;
        let dialled_at = Instant::now();
        let dialled = NodeConnection::dial(address, candidates, &hello, credentials, timeouts, Instant::now());
        let mut node = dialled.map_err(|disconnect| OpenFailure::of(address, false, disconnect))?;
        let welcomed = await_welcome(&mut node);
        let (settings, incarnation) =
            welcomed.map_err(|disconnect| OpenFailure::of(address, node.is_greeting(), disconnect))?;
        let damaged = |source| Error::Protocol { peer: address.to_owned(), source };
        let settings = Settings::from_text(&settings).map_err(damaged)?;
        let (last_number, is_broken) = (LAST_HANDSHAKE_NUMBER, false);
        let round_trip = dialled_at.elapsed() / MIN_ROUND_TRIPS;
        let (carried_bytes, sent) = (0, Arc::default());
        Ok(PooledConnection { node, incarnation, settings, last_number, is_broken, round_trip, carried_bytes, sent })
    }

    /// Returns whether another request may be sent: the node is there, and has sent nothing but heartbeats meanwhile.
    pub fn is_usable(&mut self) -> bool {
        self.is_broken |= !matches!(self.node.next(Instant::now()), Ok(None));
        !self.is_broken
    }

    /// Sends the request and waits for its answer. After [`Error::Unavailable`] the request may or may not have been
    /// carried out.
    pub fn ask(&mut self, request: &Request, payload: &[&[u8]]) -> Result<(Reply, Vec<u8>)> {
        let answer = self.exchange(request, payload);
        self.is_broken |= matches!(answer, Err(Error::Unavailable { .. } | Error::Protocol { .. }));
        answer
    }

    /// Sends requests one behind another, and then takes their answers, all or an error. After any error some of the
    /// requests may have been carried out, and the connection is of no more use.
    pub fn ask_all(&mut self, requests: &[(Request, Arc<Vec<u8>>)]) -> Result<Vec<Reply>> {
        let mut replies = Vec::with_capacity(requests.len());
        self.ask_each(requests, &mut |answer| {
            replies.push(answer?.0);
            Ok(true)
        })?;
        Ok(replies)
    }

    /// Sends requests one behind another, and hands over their answers, or how they failed, as long as `take` wants more. Where it
    /// wanted less than all, and after any error, the connection is of no more use.
    pub fn ask_each(
        &mut self,
        requests: &[(Request, Arc<Vec<u8>>)],
        take: &mut dyn FnMut(Result<(Reply, Vec<u8>)>) -> Result<bool>,
    ) -> Result<()> {
        let first = self.last_number + 1;
        self.is_broken = true;
        for (request, payload) in requests {
            self.last_number += 1;
            self.carried_bytes += payload.len() as u64;
            self.node.push_shared(self.last_number, request, payload)?;
        }
        for (number, (request, _)) in (first..).zip(requests) {
            let answer = self.receive(number, request, &[]);
            match &answer {
                Ok((_, payload)) => self.carried_bytes += payload.len() as u64,
                Err(Error::Failed(_)) => {}
                Err(_) => return answer.map(drop),
            }
            if !take(answer)? {
                return Ok(());
            }
        }
        self.is_broken = false;
        Ok(())
    }

    fn exchange(&mut self, request: &Request, payload: &[&[u8]]) -> Result<(Reply, Vec<u8>)> {
        self.last_number += 1;
        self.carried_bytes += payload.iter().map(|piece| piece.len() as u64).sum::<u64>();
        self.node.push_lent(self.last_number, request, payload)?;
        self.receive(self.last_number, request, payload)
    }

    /// Waits for the answer to the request of this number, the oldest without one.
    fn receive(&mut self, number: u64, request: &Request, payload: &[&[u8]]) -> Result<(Reply, Vec<u8>)> {
        let work = Work::begin(Instant::now(), answer_timeout(request));
        self.node.liveness.wait_from(work.begun);
        loop {
            match self.answer(number, &work, payload) {
                Ok(Some((Reply::Failed { failure }, _))) => return Err(Error::Failed(failure)),
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {}
                Err(disconnect) => return Err(self.error(disconnect)),
            }
        }
    }

    /// Sends what can be sent, waits a while, and returns the answer, if it came.
    fn answer(&mut self, asked: u64, work: &Work, payload: &[&[u8]]) -> Result<Option<(Reply, Vec<u8>)>, Disconnect> {
        if let Some(answer) = self.arrived(asked)? {
            return Ok(Some(answer));
        }
        if self.node.flush(payload)? {
            // A node that takes bytes is not silent.
            self.node.liveness.hear(Instant::now());
            self.sent.fetch_add(1, Ordering::Relaxed);
        }
        self.node.wait(CHECK_INTERVAL)?;
        if let Some(answer) = self.arrived(asked)? {
            return Ok(Some(answer));
        }
        let now = Instant::now();
        self.node.check_silence(now)?;
        work.check(self.node.liveness.advanced(), now)?;
        Ok(None)
    }

    /// Returns the answer to the request of this number, if it is here.
    fn arrived(&mut self, asked: u64) -> Result<Option<(Reply, Vec<u8>)>, Disconnect> {
        while let Some(event) = self.node.next(Instant::now())? {
            match event {
                Event::Welcome { .. } => unreachable!("the handshake is over"),
                // The node's goodbye: it may be about an earlier request, so this one may be sent elsewhere.
                Event::Message { number: 0, reply: Reply::Failed { failure }, .. } => {
                    return Err(Disconnect::Broken(failure.text));
                }
                Event::Message { number: 0, .. } => {}
                Event::Message { number, reply, payload } => {
                    self.check_number(number, asked)?;
                    return Ok(Some((reply, payload)));
                }
            }
        }
        Ok(None)
    }

    /// Fails unless it is the request at hand that is answered, and all was sent if it is the last.
    fn check_number(&self, number: u64, asked: u64) -> Result<(), Disconnect> {
        let wrong = |why: String| Err(Disconnect::Misunderstood(format::Error::Corrupt { what: "reply", why }));
        if number != asked {
            return wrong(format!("{number} was answered, {asked} was asked"));
        }
        if asked == self.last_number && !self.node.has_sent() {
            return wrong("a request was answered before it was sent".to_owned());
        }
        Ok(())
    }

    fn error(&self, disconnect: Disconnect) -> Error {
        error_of(self.node.address(), disconnect)
    }

    pub fn misbehaved(&self, why: &str) -> Error {
        self.error(Disconnect::Misunderstood(format::Error::Corrupt { what: "reply", why: why.to_owned() }))
    }
}

/// Waits until the handshake is over; returns the content of Welcome.
fn await_welcome(node: &mut NodeConnection) -> Result<(String, u64), Disconnect> {
    loop {
        node.wait(CHECK_INTERVAL)?;
        match node.next(Instant::now())? {
            Some(Event::Welcome { settings, incarnation }) => return Ok((settings, incarnation)),
            Some(Event::Message { .. }) => unreachable!("the handshake comes first"),
            None => node.check_greeting(Instant::now())?,
        }
    }
}

fn error_of(peer: &str, disconnect: Disconnect) -> Error {
    let peer = peer.to_owned();
    match disconnect {
        Disconnect::Broken(why) | Disconnect::Busy(why) => Error::Unavailable { peer, why },
        Disconnect::Misunderstood(source) => Error::Protocol { peer, source },
        Disconnect::Refused(error) => error,
    }
}

/// How long a node that lives is believed while it works for a request.
struct Work {
    timeout: Duration,
    begun: Instant,
}

impl Work {
    fn begin(begun: Instant, timeout: Duration) -> Self {
        Work { timeout, begun }
    }

    /// Fails when the node has last done something, for this client or others, too long ago, or works for too long.
    fn check(&self, advanced: Instant, now: Instant) -> Result<(), Disconnect> {
        if now > advanced + PROGRESS_TIMEOUT {
            let seconds = PROGRESS_TIMEOUT.as_secs();
            return Err(Disconnect::Broken(format!(
                "the node lives and has got nothing done for {seconds} s; see its messages"
            )));
        }
        if now > self.begun + self.timeout {
            let seconds = self.timeout.as_secs();
            return Err(Disconnect::Broken(format!(
                "the node says that it works and has not answered for {seconds} s; see its messages"
            )));
        }
        Ok(())
    }
}

/// Returns how long a node that reports progress is believed.
fn answer_timeout(request: &Request) -> Duration {
    use Request::*;
    match request {
        Begin { .. } | Entry { .. } | List { .. } | Versions { .. } => QUERY_TIMEOUT,
        PathSessions { .. } | Checkpoints { .. } | JobFailures { .. } => QUERY_TIMEOUT,
        _ => ANSWER_TIMEOUT,
    }
}

/// Why there is no connection.
enum OpenFailure {
    /// The other end was reached, and has not welcomed this client.
    BeforeWelcome(Error),
    /// The node says that it takes no client now.
    Busy(Error),
    Otherwise(Error),
}

impl From<Error> for OpenFailure {
    fn from(error: Error) -> Self {
        OpenFailure::Otherwise(error)
    }
}

impl OpenFailure {
    /// `is_greeting`: whether the other end took the connection.
    fn of(address: &str, is_greeting: bool, disconnect: Disconnect) -> Self {
        match disconnect {
            Disconnect::Busy(_) => OpenFailure::Busy(error_of(address, disconnect)),
            Disconnect::Broken(why) if !is_greeting => {
                let why = format!("no server answers ({why}); is `thalweg node` running there?");
                OpenFailure::Otherwise(error_of(address, Disconnect::Broken(why)))
            }
            Disconnect::Broken(_) => OpenFailure::BeforeWelcome(error_of(address, disconnect)),
            Disconnect::Misunderstood(_) | Disconnect::Refused(_) => {
                OpenFailure::Otherwise(error_of(address, disconnect))
            }
        }
    }

    fn with_doubt(self, doubt: &str) -> Error {
        match self {
            OpenFailure::BeforeWelcome(Error::Unavailable { peer, why }) => {
                Error::Unavailable { peer, why: format!("{why}, before it answered a greeting; {doubt}") }
            }
            OpenFailure::BeforeWelcome(error) | OpenFailure::Busy(error) | OpenFailure::Otherwise(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::super::outage::Outage;
    use super::*;
    use crate::Connection;
    use crate::message::FailureKind;

    /// Returns the error of a client that connects to a server which does this to its connection.
    fn refusal(serve: impl FnOnce(TcpStream) + Send) -> Error {
        refusal_within((Duration::from_secs(60), Duration::from_secs(60)), serve)
    }

    /// As `refusal`, with these timeouts for silence and for the welcome.
    fn refusal_within((silence, welcome): (Duration, Duration), serve: impl FnOnce(TcpStream) + Send) -> Error {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let hello = Request::Hello { client: 1, stream: 2, job: String::new(), application: String::new() };
        std::thread::scope(|scope| {
            scope.spawn(move || serve(listener.accept().unwrap().0));
            let opened = PooledConnection::try_open(
                HandshakeTimeouts { silence, welcome },
                &address,
                hello,
                &Credentials::default(),
            );
            opened.err().expect("this is no node").with_doubt(doubt(false))
        })
    }

    #[test]
    fn who_says_nothing_is_not_waited_for() {
        let timeouts = (Duration::from_millis(200), Duration::from_secs(60));
        let error = refusal_within(timeouts, |stream| {
            let mut greeting = Vec::new();
            // Until the client gives up.
            let _ = (&stream).read_to_end(&mut greeting);
        });
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("is it a thalweg node?"), "{error}");
    }

    #[test]
    fn a_node_that_only_says_that_it_works_is_believed_for_a_while() {
        let begun = Instant::now();
        let work = Work::begin(begun, Duration::from_secs(300));
        let at = |s: u64| begun + Duration::from_secs(s);
        assert!(work.check(at(200), at(299)).is_ok());
        let said = |advanced, now| match work.check(advanced, now) {
            Err(Disconnect::Broken(why)) => why,
            _ => panic!("it is not believed"),
        };
        assert!(said(at(300), at(301)).contains("says that it works"));
        assert!(said(at(100), at(221)).contains("has got nothing done"));
        let list = Request::List { directory: Default::default(), recursive: true, after: None, limit: 1 };
        assert!(answer_timeout(&list) <= Duration::from_secs(60));
    }

    #[test]
    fn a_node_that_sends_no_welcome_is_given_up() {
        let timeouts = (Duration::from_secs(60), Duration::from_millis(500));
        let error = refusal_within(timeouts, |stream| {
            let address = stream.peer_addr().unwrap();
            let connection = Connection::accepted(stream, address).unwrap();
            let alive = Reply::Alive { progress: 1 };
            while connection.send(alive.kind(), 0, &alive.encode(), &[]).is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        assert!(error.to_string().contains("no welcome"), "{error}");
    }

    #[test]
    fn a_node_that_has_welcomed_this_process_is_not_asked_whether_it_is_one() {
        assert!(!doubt(true).contains("is it a thalweg node?"));
    }

    /// Returns how a client fares at a node that takes no client `times` times, and hangs up at the next.
    fn at_a_busy_node(times: usize, timeout: Duration) -> Result<PooledConnection> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for number in 0.. {
                let (stream, peer) = listener.accept().unwrap();
                let connection = Connection::accepted(stream, peer).unwrap();
                let Ok(Some(hello)) = connection.receive() else { continue };
                let failure = crate::message::Failure::new(FailureKind::Unavailable, "it serves 7 connections");
                let settings = Settings::new(Default::default()).to_text();
                let (reply, request) = match number {
                    number if number < times => (Reply::Failed { failure }, 0),
                    number if number == times => continue,
                    _ => (Reply::Welcome { settings, incarnation: 1 }, hello.header.request),
                };
                connection.send(reply.kind(), request, &reply.encode(), &[]).unwrap();
                // Until the client has read it.
                let _ = connection.receive();
            }
        });
        let hello = Request::Hello { client: 1, stream: 2, job: String::new(), application: String::new() };
        let outage = Outage::new(timeout);
        PooledConnection::open_when_free(&address, hello, &Credentials::default(), Attempts::new(&outage))
    }

    #[test]
    fn a_node_that_takes_no_client_now_is_tried_again() {
        at_a_busy_node(2, Duration::from_secs(60)).map(drop).unwrap();
    }

    #[test]
    fn a_node_that_takes_no_client_is_quoted_and_not_doubted() {
        let error = at_a_busy_node(usize::MAX, Duration::from_millis(300)).err().expect("it never takes one");
        let said = error.to_string();
        assert!(said.contains("it serves 7 connections") && !said.contains("greeting"), "{said}");
    }

    #[test]
    fn who_hangs_up_at_a_greeting_is_named() {
        let error = refusal(drop);
        assert!(error.to_string().contains("is it a thalweg node?"), "{error}");
    }

    #[test]
    fn a_node_of_another_release_is_refused_whatever_it_says() {
        for (protocol, older) in [(format::PROTOCOL - 1, "the peer is"), (format::PROTOCOL + 1, "this program is")] {
            let said = [&format::FRAME_MAGIC[..], &[protocol], b" and unknown bytes come after"].concat();
            let error = refusal(|mut stream| stream.write_all(&said).unwrap());
            assert!(matches!(error, Error::Protocol { .. }) && error.to_string().contains(older), "{error}");
        }
    }

    #[test]
    fn another_service_is_recognized_by_its_first_words() {
        for said in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"SSH-2", b"\0\xff\x7f"] {
            let error = refusal(|mut stream| {
                stream.write_all(said).unwrap();
                // It goes on waiting: the text must suffice.
                std::thread::sleep(Duration::from_millis(100));
            });
            assert!(error.to_string().contains("no thalweg peer"), "{error}");
            assert!(error.to_string().contains(&said[..3].escape_ascii().to_string()), "{error}");
        }
    }
}
