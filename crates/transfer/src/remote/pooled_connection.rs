//! One connection to a node, for one request at a time.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use format::Settings;

use super::outage::Attempts;
use crate::connection::{Connection, Frame};
use crate::handshake::{Handshake, Rejection, Step};
use crate::liveness::Liveness;
use crate::message::{Reply, Request};
use crate::{Credentials, Error, Result, SILENCE_TIMEOUT};

/// A node that lives but makes no progress for this long has failed.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(120);
/// A node that reports progress but does not answer is believed no longer than this.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(40 * 60);
/// Catalog queries wait for no other client's data: a node that does not answer within this will not.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);
/// A node that lives but does not welcome its client is given up after this.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(60);
/// Messages that an honest node has sent since the last answer are read much sooner.
const READ_UP_TIMEOUT: Duration = Duration::from_secs(5);

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
    connection: Connection,
    /// The node process at the other end.
    pub incarnation: u64,
    pub settings: Settings,
    requests: u64,
    broken: bool,
}

impl PooledConnection {
    /// Opens a connection, with TLS and a secret if there are credentials for them: the node must have its part of
    /// each.
    pub fn open(address: &str, hello: Request, credentials: &Credentials) -> Result<Self> {
        Self::open_within((SILENCE_TIMEOUT, WELCOME_TIMEOUT), address, hello, credentials)
    }

    /// As `open`; `silence`: how long the node may send nothing; `welcome`: how long it may not welcome this client.
    pub fn open_within(
        timeouts: (Duration, Duration),
        address: &str,
        hello: Request,
        credentials: &Credentials,
    ) -> Result<Self> {
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
            match (Self::try_open((SILENCE_TIMEOUT, WELCOME_TIMEOUT), address, hello.clone(), credentials), &busy) {
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
    fn noted(address: &str, opened: std::result::Result<Self, OpenFailure>) -> Result<Self> {
        let mut welcoming = WELCOMING.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.is_ok() && welcoming.len() < MAX_WELCOMING {
            welcoming.insert(address.to_owned());
        }
        opened.map_err(|failure| failure.with_doubt(doubt(welcoming.contains(address))))
    }

    fn try_open(
        (silence, welcome): (Duration, Duration),
        address: &str,
        hello: Request,
        credentials: &Credentials,
    ) -> std::result::Result<Self, OpenFailure> {
        let connection = Connection::open(address)?;
        if let Some(tls) = &credentials.tls {
            connection.begin_tls(tls, silence).map_err(OpenFailure::BeforeWelcome)?;
        }
        connection.set_receive_timeout(Some(silence))?;
        let settings = Settings::new(Default::default());
        let mut connection = PooledConnection { connection, incarnation: 0, settings, requests: 0, broken: false };
        let deadline = Instant::now() + welcome;
        let handshake = Handshake::new(address, credentials.secret.clone(), &hello, connection.next_number());
        let (settings, incarnation) = connection.greet(&hello, handshake, deadline)?;
        connection.connection.set_receive_timeout(Some(SILENCE_TIMEOUT))?;
        let damaged = |source| Error::Protocol { peer: address.to_owned(), source };
        connection.settings = Settings::from_text(&settings).map_err(damaged)?;
        connection.incarnation = incarnation;
        Ok(connection)
    }

    fn next_number(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    /// Sends Hello, carries the messages of the handshake, and returns the content of Welcome.
    fn greet(
        &mut self,
        hello: &Request,
        mut handshake: Handshake,
        deadline: Instant,
    ) -> std::result::Result<(String, u64), OpenFailure> {
        let sent = self.connection.send(hello.kind(), self.requests, &hello.encode(), &[]);
        sent.map_err(OpenFailure::BeforeWelcome)?;
        loop {
            let (answered, reply, _) = self.receive().map_err(OpenFailure::BeforeWelcome)?;
            if Instant::now() > deadline {
                let why = "no welcome: it says that it lives, and does not welcome this client";
                return Err(OpenFailure::BeforeWelcome(self.unavailable(why.into())));
            }
            match handshake.take(answered, reply) {
                Ok(Step::Wait) => {}
                Ok(Step::Finish { settings, incarnation }) => return Ok((settings, incarnation)),
                Ok(Step::Send(request)) => {
                    let number = self.next_number();
                    let sent = self.connection.send(request.kind(), number, &request.encode(), &[]);
                    sent.map_err(OpenFailure::BeforeWelcome)?;
                }
                Err(Rejection::ForNow(why)) => return Err(OpenFailure::Busy(self.unavailable(why))),
                Err(Rejection::ForGood(error)) => return Err(error.into()),
            }
        }
    }

    fn receive(&self) -> Result<(u64, Reply, Vec<u8>)> {
        let Some(frame) = self.connection.receive()? else {
            return Err(self.unavailable("the node closed the connection".into()));
        };
        let reply = decode(self.connection.peer(), &frame)?;
        Ok((frame.header.request, reply, frame.payload))
    }

    /// Returns whether another request may be sent: the node is there, and has sent nothing but heartbeats meanwhile.
    pub fn is_usable(&mut self) -> bool {
        let deadline = Instant::now() + READ_UP_TIMEOUT;
        while !self.broken && !self.connection.is_quiet() {
            // A node that keeps sending would be read for ever.
            self.broken = Instant::now() > deadline || !matches!(self.receive(), Ok((0, Reply::Alive { .. }, _)));
        }
        !self.broken
    }

    /// Sends the request and waits for its answer. After [`Error::Unavailable`] the request may or may not have been
    /// carried out.
    pub fn ask(&mut self, request: &Request, payload: &[&[u8]]) -> Result<(Reply, Vec<u8>)> {
        let answer = self.exchange(request, payload);
        self.broken |= matches!(answer, Err(Error::Unavailable { .. } | Error::Protocol { .. }));
        answer
    }

    fn exchange(&mut self, request: &Request, payload: &[&[u8]]) -> Result<(Reply, Vec<u8>)> {
        let number = self.next_number();
        let mut work = Work::begin(self.connection.peer(), answer_timeout(request));
        let sent =
            self.connection.send_hearing(request.kind(), number, &request.encode(), payload, &mut |frame| match (
                frame.header.request,
                decode(self.connection.peer(), &frame)?,
            ) {
                (0, reply) => work.hear(reply),
                _ => Err(self.misbehaved("a request was answered before it was sent")),
            });
        sent?;
        loop {
            let (answered, reply, payload) = self.receive()?;
            match (answered, reply) {
                (0, reply) => work.hear(reply)?,
                (number, _) if number != self.requests => {
                    return Err(self.misbehaved(&format!("{number} was answered, {} was asked", self.requests)));
                }
                (_, Reply::Failed { failure }) => return Err(Error::Failed(failure)),
                (_, reply) => return Ok((reply, payload)),
            }
        }
    }

    fn unavailable(&self, why: String) -> Error {
        Error::Unavailable { peer: self.connection.peer().to_owned(), why }
    }

    pub fn misbehaved(&self, why: &str) -> Error {
        let source = format::Error::Corrupt { what: "reply", why: why.to_owned() };
        Error::Protocol { peer: self.connection.peer().to_owned(), source }
    }
}

/// The messages of a node while it works for a request.
struct Work<'a> {
    peer: &'a str,
    node: Liveness,
    timeout: Duration,
    begun: Instant,
}

impl<'a> Work<'a> {
    fn begin(peer: &'a str, timeout: Duration) -> Self {
        let begun = Instant::now();
        Work { peer, node: Liveness::begin(begun), timeout, begun }
    }

    /// Handles an unsolicited message; an error is the end of the request.
    fn hear(&mut self, reply: Reply) -> Result<()> {
        let unavailable = |why| Err(Error::Unavailable { peer: self.peer.to_owned(), why });
        match reply {
            // The node's goodbye: it may be about an earlier request, so this one may be sent elsewhere.
            Reply::Failed { failure } => return unavailable(failure.text),
            Reply::Alive { progress } => self.node.beat(progress, Instant::now()),
            _ => {}
        }
        if self.node.advanced().elapsed() > PROGRESS_TIMEOUT {
            let seconds = PROGRESS_TIMEOUT.as_secs();
            return unavailable(format!("the node lives and has got nothing done for {seconds} s; see its messages"));
        }
        if self.begun.elapsed() > self.timeout {
            let seconds = self.timeout.as_secs();
            return unavailable(format!(
                "the node says that it works and has not answered for {seconds} s; see its messages"
            ));
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

fn decode(peer: &str, frame: &Frame) -> Result<Reply> {
    let reply = Reply::decode(frame.header.kind, &frame.body);
    reply.map_err(|source| Error::Protocol { peer: peer.to_owned(), source })
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
    use crate::message::FailureKind;

    /// Returns the error of a client that connects to a server which does this to its connection.
    fn refusal(serve: impl FnOnce(TcpStream) + Send) -> Error {
        refusal_within((Duration::from_secs(60), Duration::from_secs(60)), serve)
    }

    /// As `refusal`, with these timeouts for silence and for the welcome.
    fn refusal_within(timeouts: (Duration, Duration), serve: impl FnOnce(TcpStream) + Send) -> Error {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let hello = Request::Hello { client: 1, stream: 2, job: String::new(), application: String::new() };
        std::thread::scope(|scope| {
            scope.spawn(move || serve(listener.accept().unwrap().0));
            let opened = PooledConnection::try_open(timeouts, &address, hello, &Credentials::default());
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
        let mut work = Work::begin("node", Duration::from_millis(50));
        let begun = Instant::now();
        let error = (1..).find_map(|progress| work.hear(Reply::Alive { progress }).err()).unwrap();
        assert!(
            matches!(error, Error::Unavailable { .. }) && error.to_string().contains("says that it works"),
            "{error}"
        );
        assert!(begun.elapsed() < Duration::from_secs(60));
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
            let said = [&format::FRAME_MAGIC[..], &[protocol], b" and nobody knows what comes after"].concat();
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
