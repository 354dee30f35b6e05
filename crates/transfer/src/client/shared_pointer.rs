//! The shared file pointer of a handle, kept by the home node.
//!
//! Moves go one at a time and are numbered, so that one sent again after a break is not done twice. A node process keeps
//! positions in memory: when another took its place, the position is lost, and every move from then on is an error.

use std::sync::{Mutex, PoisonError};

use format::{ErrorCode, HandleKey, MAX_FILE_BYTES};

use super::oneshot::{Answer, OneShot};
use super::session::Session;
use super::unexpected;
use crate::message::{Reply, Request};
use crate::{Error, Result};

/// Counts this process's moves of the pointer.
#[derive(Default)]
pub(super) struct SharedPointer {
    moves: Mutex<u64>,
}

/// As all processes of the handle have set the pointer together.
pub struct PointerStart {
    /// Counts how often they have set it.
    pub generation: u64,
    /// Where it stood then (etypes).
    pub position: u64,
}

impl SharedPointer {
    /// Moves the pointer by so many etypes; returns where it stood before.
    pub fn advance(&self, session: &Session, key: HandleKey, start: &PointerStart, by: u64) -> Result<u64> {
        check("the shared file pointer's move", by)?;
        check("the shared file pointer's position", start.position)?;
        let mut moves = self.moves.lock().unwrap_or_else(PoisonError::into_inner);
        *moves += 1;
        let home = session.home();
        let (generation, initial) = (start.generation, start.position);
        let request = Request::MovePointer { session: session.id, key, number: *moves, generation, initial, by };
        let answer: std::sync::Arc<OneShot<Result<Answer>>> = OneShot::new();
        home.ask(request, answer.sender());
        let reply = answer.wait()?.reply;
        if home.was_replaced() {
            let why = "the node process that kept the file's shared file pointer was replaced, and the position is lost; \
                       close the file and open it again";
            return Err(Error::Unavailable { peer: home.address(), why: why.into() });
        }
        match reply {
            Reply::Pointer { position } => Ok(position),
            other => Err(unexpected(&home.address(), "a move of the shared file pointer", other.kind())),
        }
    }
}

fn check(what: &str, etypes: u64) -> Result<()> {
    if etypes <= MAX_FILE_BYTES {
        return Ok(());
    }
    Err(Error::Refused(
        ErrorCode::CallRefused,
        format!("{what}, {etypes} etypes, is above the limit of {MAX_FILE_BYTES}"),
    ))
}
