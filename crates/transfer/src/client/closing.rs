//! How a process lets go of a session: when nothing is kept any more, and the last process when all others have gone.
//!
//! With acknowledgement at `received` the others of a job close in the background too. Were the session to end before
//! them, what they send again to a node that was restarted would have no place any more.

use std::sync::Arc;

use super::handover::{Completion, Done, gather};
use super::lane::Lane;
use super::session::Session;
use crate::message::{Reply, Request};
use crate::{Error, Result};

/// Whether other processes still use a session that this one has let go of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Others {
    Gone,
    /// They had nothing to make durable for long, and may use it for another ticket.
    Stay,
}

impl Session {
    /// The last handle of this process goes: waits until nothing is kept, and, if wanted, until the other processes are
    /// gone; then says so to the nodes.
    pub fn close_then(self: &Arc<Self>, awaits_others: bool, done: Done<Others>) {
        let session = self.clone();
        self.after_commit(Box::new(move || {
            session.press();
            let closing = session.clone();
            session.fate.when_empty(Box::new(move |kept| match kept {
                Ok(()) if awaits_others => closing.await_others_then(done),
                kept => closing.detach_then(kept.map(|()| Others::Gone), done),
            }));
        }));
    }

    fn await_others_then(self: Arc<Self>, done: Done<Others>) {
        let session = self.clone();
        let request = |lane: &Lane| Request::AwaitOthers { session: self.id, seat: lane.seat };
        let alone =
            move |replies: Result<Vec<Reply>>| session.detach_then(replies.map(|replies| others(&replies)), done);
        self.ask_seats(request, Box::new(alone));
    }

    fn detach_then(self: Arc<Self>, others: Result<Others>, done: Done<Others>) {
        let session = self.clone();
        let end = move |result| {
            session.lanes.iter().for_each(Lane::end);
            session.process.forget(session.id);
            done(result);
        };
        let others = match others {
            Ok(others) => others,
            Err(error) => return end(Err(error)),
        };
        let completions = gather(self.lanes.len(), Box::new(move |replies| end(replies.map(|_| others))));
        for (lane, completion) in self.lanes.iter().zip(completions) {
            lane.ask(Request::Detach { session: self.id, seat: lane.seat }, ending(lane, completion));
        }
    }

    /// Takes one ticket's handle off the session; if all went well, what was sent is a version then.
    pub fn leave_then(self: &Arc<Self>, closed: Result<()>, done: Done<()>) {
        let session = self.clone();
        let leave = move |committed: Result<()>| {
            let request = Request::Leave { session: session.id };
            session.ask_home(request, Box::new(move |left| done(committed.and(left))));
        };
        if closed.is_ok() && self.may_lack_bytes() {
            self.ask_home(Request::CommitPath { session: self.id }, Box::new(leave));
        } else {
            leave(closed);
        }
    }

    /// Asks outside of any lane, since those have left already.
    fn ask_home(&self, request: Request, done: Done<()>) {
        let answered: Completion = Box::new(move |answer| done(answer.map(drop)));
        let (home, patience) = (self.home().address(), self.process.settings.patience);
        self.process.ask_node(&home, request, patience, answered);
    }
}

/// A lane whose farewell is answered leaves at once: it must not be attached again, to a new node, while others wait for
/// theirs.
fn ending(lane: &Arc<Lane>, completion: Completion) -> Completion {
    let lane = lane.clone();
    Box::new(move |answer| {
        if answer.is_ok() {
            lane.end();
        }
        completion(answer);
    })
}

fn others(replies: &[Reply]) -> Others {
    let are_gone = replies.iter().all(|reply| matches!(reply, Reply::Others { streams: 0 }));
    if are_gone { Others::Gone } else { Others::Stay }
}

/// Whether the ticket's handle is to be taken off: not while others use it, and not at nodes that are gone; then it ends
/// with the process, or with its lease.
pub(super) fn may_leave(closed: &Result<Others>) -> bool {
    !matches!(closed, Ok(Others::Stay) | Err(Error::Unavailable { .. }))
}
