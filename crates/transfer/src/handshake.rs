//! How a client introduces itself to a node, and what it believes until it is welcome; see `docs/format.md`.
//!
//! After Hello a node that has a secret sends Challenge. The client answers with Prove, the node with Proved, and only
//! then with Welcome. A client that has a secret accepts no Welcome of a node that has not proved it. All of this is
//! decided here, for commands and MPI programs alike; they only carry the messages.

use format::{ErrorCode, Nonce, Role, Secret};

use crate::Error;
use crate::message::{Failure, FailureKind, Reply, Request};
use crate::random::random_bytes;

type Result<T, E = Error> = std::result::Result<T, E>;

/// A client process, as all its connections introduce it.
pub(crate) struct ClientIdentity {
    /// The process's random number.
    pub client: u64,
    pub job: String,
    /// The application charged for the node's bandwidth; empty: none.
    pub application: String,
}

impl ClientIdentity {
    /// A process of no job and no application.
    pub fn nameless(client: u64) -> Self {
        ClientIdentity { client, job: String::new(), application: String::new() }
    }

    /// Returns the Hello of the connection with this number.
    pub fn hello(&self, stream: u32) -> Request {
        let (job, application) = (self.job.clone(), self.application.clone());
        Request::Hello { client: self.client, stream, job, application }
    }
}

/// A client's side of one connection's handshake.
pub(crate) struct Handshake {
    peer: String,
    secret: Option<Secret>,
    /// The body of the Hello that was sent, and its number.
    hello: Vec<u8>,
    number: u64,
    nonces: Option<(Nonce, Nonce)>,
    is_proved: bool,
}

/// The action after a message of the node.
pub(crate) enum Step {
    Wait,
    Send(Request),
    /// The client is welcome: the text of the store's settings, and the node process's number.
    Finish {
        settings: String,
        incarnation: u64,
    },
}

/// Why a node does not welcome this client.
pub(crate) enum Rejection {
    /// It takes no client now: its own words.
    ForNow(String),
    /// It will answer the next Hello alike.
    ForGood(Error),
}

impl From<Error> for Rejection {
    fn from(error: Error) -> Self {
        Rejection::ForGood(error)
    }
}

impl Handshake {
    /// Begins with this Hello, sent as the request of this number.
    pub fn new(peer: &str, secret: Option<Secret>, hello: &Request, number: u64) -> Self {
        let hello = hello.encode();
        Handshake { peer: peer.to_owned(), secret, hello, number, nonces: None, is_proved: false }
    }

    /// Handles a message of the node that answers the request of this number, 0 for none.
    pub fn take(&mut self, answered: u64, reply: Reply) -> Result<Step, Rejection> {
        let is_answer = answered == self.number;
        match reply {
            Reply::Welcome { settings, incarnation } if is_answer => {
                self.admit()?;
                Ok(Step::Finish { settings, incarnation })
            }
            Reply::Failed { failure } if is_for_good(failure.kind, is_answer) => {
                Err(self.rejected(failure, is_answer).into())
            }
            Reply::Failed { failure: Failure { text, .. } } => Err(Rejection::ForNow(text)),
            other if is_answer => {
                let why = format!("Hello was answered by message {:#x}", other.kind());
                let source = format::Error::Corrupt { what: "reply", why };
                Err(Error::Protocol { peer: self.peer.clone(), source }.into())
            }
            Reply::Challenge { nonce } => Ok(Step::Send(self.prove(nonce)?)),
            Reply::Proved { proof } => {
                self.check(&proof)?;
                Ok(Step::Wait)
            }
            _ => Ok(Step::Wait),
        }
    }

    /// Fails unless a Welcome may be accepted now: a node that must prove the secret has done so.
    fn admit(&self) -> Result<()> {
        if self.secret.is_some() && !self.is_proved {
            return Err(self.refused(
                "it did not prove that it has the secret that this process was given (THALWEG_SECRET_FILE); start the \
                 node with --secret-file, or unset the variable",
            ));
        }
        Ok(())
    }

    fn prove(&mut self, of_node: Nonce) -> Result<Request> {
        let Some(secret) = &self.secret else {
            return Err(self.refused(
                "the node asks for a secret and this process has none; set THALWEG_SECRET_FILE to a copy of the \
                 node's secret file",
            ));
        };
        if self.nonces.is_some() {
            return Err(self.refused("the node asks for the secret twice"));
        }
        let of_client = random_bytes()?;
        let proof = secret.proof(Role::Client, &of_node, &of_client, &self.hello);
        self.nonces = Some((of_node, of_client));
        Ok(Request::Prove { nonce: of_client, proof })
    }

    fn check(&mut self, proof: &[u8; 32]) -> Result<()> {
        let (Some(secret), Some((of_node, of_client))) = (&self.secret, &self.nonces) else {
            return Err(self.refused("the node proves a secret that was not asked for"));
        };
        self.is_proved = secret.proves(proof, Role::Node, of_node, of_client, &self.hello);
        if !self.is_proved {
            return Err(self.refused("the node has another secret than this process (THALWEG_SECRET_FILE)"));
        }
        Ok(())
    }

    /// Returns the error of a node that takes no client like this one: what it refuses unasked, before Welcome, is the
    /// proof of the secret, or a client that speaks no TLS.
    fn rejected(&self, failure: Failure, is_answer: bool) -> Error {
        let is_unasked_refusal = failure.kind == FailureKind::Refused && !is_answer;
        match (is_unasked_refusal, self.nonces.is_some()) {
            (true, true) => self.refused(&failure.text),
            (true, false) => Error::Refused(ErrorCode::TlsRefused, format!("{}: {}", self.peer, failure.text)),
            _ => Error::of_node(&self.peer, failure),
        }
    }

    fn refused(&self, why: &str) -> Error {
        Error::Refused(ErrorCode::SecretRefused, format!("{}: {why}", self.peer))
    }
}

/// Returns whether a node that fails like this before Welcome will answer the next Hello alike. A failure that answers
/// no request is a node's goodbye: to a crowd, or to bytes that were damaged on their way.
fn is_for_good(kind: FailureKind, is_answer: bool) -> bool {
    use FailureKind::*;
    match is_answer {
        true => !matches!(kind, Unavailable | Io | Full),
        false => kind == Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: u64 = 7;

    fn secret(byte: u8) -> Secret {
        Secret::from_text(&Secret::text_of(&[byte; format::SECRET_BYTES])).unwrap()
    }

    fn welcome() -> Reply {
        Reply::Welcome { settings: "settings".into(), incarnation: 3 }
    }

    fn handshake(secret: Option<Secret>) -> (Handshake, Vec<u8>) {
        let hello = ClientIdentity::nameless(1).hello(2);
        (Handshake::new("node:1", secret, &hello, NUMBER), hello.encode())
    }

    #[test]
    fn a_node_without_secret_welcomes_at_once() {
        let (mut shaking, _) = handshake(None);
        assert!(matches!(shaking.take(0, Reply::Alive { progress: 1 }), Ok(Step::Wait)));
        assert!(matches!(shaking.take(NUMBER, welcome()), Ok(Step::Finish { incarnation: 3, .. })));
    }

    #[test]
    fn a_welcome_counts_only_after_the_node_has_proved_the_secret() {
        let (mut shaking, hello) = handshake(Some(secret(1)));
        assert!(matches!(shaking.take(NUMBER, welcome()), Err(Rejection::ForGood(Error::Refused(..)))));
        let of_node = [9; 32];
        let Ok(Step::Send(Request::Prove { nonce, proof })) = shaking.take(0, Reply::Challenge { nonce: of_node })
        else {
            panic!("a challenge is answered by a proof")
        };
        assert!(secret(1).proves(&proof, Role::Client, &of_node, &nonce, &hello));
        let proof = secret(1).proof(Role::Node, &of_node, &nonce, &hello);
        assert!(matches!(shaking.take(NUMBER + 1, Reply::Proved { proof }), Ok(Step::Wait)));
        assert!(matches!(shaking.take(NUMBER, welcome()), Ok(Step::Finish { .. })));
    }

    #[test]
    fn a_node_with_another_secret_is_refused() {
        let (mut shaking, hello) = handshake(Some(secret(1)));
        let Ok(Step::Send(Request::Prove { nonce, .. })) = shaking.take(0, Reply::Challenge { nonce: [9; 32] }) else {
            panic!("a challenge is answered by a proof")
        };
        let proof = secret(2).proof(Role::Node, &[9; 32], &nonce, &hello);
        assert!(matches!(shaking.take(8, Reply::Proved { proof }), Err(Rejection::ForGood(Error::Refused(..)))));
    }

    #[test]
    fn only_what_will_be_answered_alike_is_refused_for_good() {
        let failed = |kind| Reply::Failed { failure: Failure::new(kind, "why") };
        for (answered, kind, for_good) in [
            (0, FailureKind::Refused, true),
            (0, FailureKind::Corrupt, false),
            (0, FailureKind::Unavailable, false),
            (NUMBER, FailureKind::Corrupt, true),
            (NUMBER, FailureKind::Unavailable, false),
            (NUMBER, FailureKind::Full, false),
        ] {
            let rejected = handshake(None).0.take(answered, failed(kind)).err().expect("it is no welcome");
            assert_eq!(matches!(rejected, Rejection::ForGood(_)), for_good, "{answered} {kind:?}");
        }
        let strange = handshake(None).0.take(NUMBER, Reply::Done {});
        assert!(matches!(strange, Err(Rejection::ForGood(Error::Protocol { .. }))));
    }
}
