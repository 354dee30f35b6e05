//! How a client and a node prove their secret to each other, as seen from the client; see `docs/format.md`.
//!
//! After Hello a node that has a secret sends Challenge. The client answers with Prove, the node with Proved, and only
//! then with Welcome. A client that has a secret accepts no Welcome of a node that has not proved it.

use format::{Nonce, Role, Secret};

use crate::message::{Reply, Request};
use crate::random::random_bytes;
use crate::{Error, Result};

/// A client's side of one connection's greeting.
pub(crate) struct Challenge {
    peer: String,
    secret: Option<Secret>,
    /// The body of the Hello that was sent.
    hello: Vec<u8>,
    nonces: Option<(Nonce, Nonce)>,
    is_proved: bool,
}

impl Challenge {
    pub fn new(peer: &str, secret: Option<Secret>, hello: &Request) -> Self {
        Challenge { peer: peer.to_owned(), secret, hello: hello.encode(), nonces: None, is_proved: false }
    }

    /// Handles a message that arrived before Welcome; returns the request to send in reply, if any.
    pub fn take(&mut self, reply: &Reply) -> Result<Option<Request>> {
        match reply {
            Reply::Challenge { nonce } => self.prove(*nonce).map(Some),
            Reply::Proved { proof } => self.check(proof).map(|()| None),
            _ => Ok(None),
        }
    }

    /// Fails unless a Welcome may be accepted now: a node that must prove the secret has done so.
    pub fn admit(&self) -> Result<()> {
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
            return Err(self.refused("the node proves a secret that nobody asked for"));
        };
        self.is_proved = secret.proves(proof, Role::Node, of_node, of_client, &self.hello);
        if !self.is_proved {
            return Err(self.refused("the node has another secret than this process (THALWEG_SECRET_FILE)"));
        }
        Ok(())
    }

    fn refused(&self, why: &str) -> Error {
        Error::Refused(format!("{}: {why}", self.peer))
    }
}
