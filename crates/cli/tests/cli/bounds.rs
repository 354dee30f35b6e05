//! Limits on one client's requests to a node, and on access to what is another's.

use catalog::{PathSession, Purpose};
use format::{HandleKey, SessionId, StorePath};
use transfer::Connection;
use transfer::message::{FailureKind, Reply, Request};

use super::node::Node;
use super::runner::Store;

/// A client's connection that is welcome, and counts its requests.
pub(super) struct Client {
    connection: Connection,
    requests: u64,
}

impl Client {
    pub fn greet(address: &str, client: u64) -> Self {
        let mut client_ = Client { connection: Connection::open(address).unwrap(), requests: 0 };
        let hello = Request::Hello { client, stream: 0, job: "job".into(), application: String::new() };
        assert!(matches!(client_.ask(hello), Reply::Welcome { .. }));
        client_
    }

    pub fn ask(&mut self, request: Request) -> Reply {
        self.ask_with(request, &[])
    }

    pub fn ask_with(&mut self, request: Request, payload: &[u8]) -> Reply {
        self.requests += 1;
        self.connection.send(request.kind(), self.requests, &request.encode(), &[payload]).unwrap();
        self.answer()
    }

    /// Asks for something and does not wait for the answer.
    pub fn request(&mut self, request: Request) {
        self.requests += 1;
        self.connection.send(request.kind(), self.requests, &request.encode(), &[]).unwrap();
    }

    /// Receives the answer to the latest request.
    pub fn answer(&mut self) -> Reply {
        loop {
            let frame = self.connection.receive().unwrap().expect("an answer");
            if frame.header.request == self.requests {
                return Reply::decode(frame.header.kind, &frame.body).unwrap();
            }
        }
    }

    /// Returns the node's answer before it hangs up.
    pub fn goodbye(&mut self, request: Request) -> String {
        self.requests += 1;
        self.connection.send(request.kind(), self.requests, &request.encode(), &[]).unwrap();
        loop {
            let frame = self.connection.receive().unwrap().expect("a farewell");
            if let Reply::Failed { failure } = Reply::decode(frame.header.kind, &frame.body).unwrap() {
                return failure.text;
            }
        }
    }

    pub fn open(&mut self, path: &str, address: &str, key: HandleKey) -> SessionId {
        let path = StorePath::new(path.as_bytes()).unwrap();
        let (nodes, stripe_bytes) = (vec![address.to_owned()], 1 << 20);
        match self.ask(Request::OpenPath { path, flags: 6, job: "job".into(), nodes, stripe_bytes, key }) {
            Reply::Opened { session, .. } => session.id,
            other => panic!("an opening was answered {other:?}"),
        }
    }

    pub fn sessions(&mut self) -> Vec<PathSession> {
        match self.ask(Request::PathSessions { after: SessionId(0) }) {
            Reply::PathSessions { sessions, .. } => sessions,
            other => panic!("a listing was answered {other:?}"),
        }
    }
}

#[test]
fn a_client_begins_a_bounded_number_of_sessions() {
    let store = Store::new();
    let node = Node::of(&store);
    let mut greedy = Client::greet(&node.address, 1);
    let mut begin = || greedy.ask(Request::Begin { purpose: Purpose::Write, lease_ms: 60_000 });
    let begun: Vec<SessionId> = std::iter::from_fn(|| match begin() {
        Reply::Session { session } => Some(session.id),
        Reply::Failed { failure } => {
            assert!(failure.kind == FailureKind::Refused && failure.text.contains("sessions open"), "{failure:?}");
            None
        }
        other => panic!("Begin was answered {other:?}"),
    })
    .take(1000)
    .collect();
    assert!((16..=256).contains(&begun.len()), "{} were begun", begun.len());
    let mut other = Client::greet(&node.address, 2);
    let begin = Request::Begin { purpose: Purpose::Write, lease_ms: 60_000 };
    assert!(matches!(other.ask(begin.clone()), Reply::Session { .. }), "others still may");
    assert!(matches!(greedy.ask(Request::End { session: begun[0] }), Reply::Done {}));
    assert!(matches!(greedy.ask(begin), Reply::Session { .. }));
}
