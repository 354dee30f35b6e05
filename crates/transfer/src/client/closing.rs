//! How a process releases a session: once it keeps nothing, and as the last process, once all others have detached.
//!
//! With acknowledgement at `received` the other processes of a job close in the background too. Were the session to end
//! before them, a restarted node could not place what they send again.

use std::sync::Arc;

use format::HandleKey;

use super::oneshot::{Completion, Done, gather};
use super::send_queue::SendQueue;
use super::session::Session;
use crate::message::{Reply, Request};
use crate::{Error, Result};

/// Whether other processes still use a session that this one has released.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Others {
    Gone,
    /// They have had nothing to flush for long, and may use it for another ticket.
    Stay,
}

/// A process's position among those of a ticket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DetachOrder {
    Early,
    /// The last: all others have detached.
    Last,
    /// The last, while the others of this many processes detach in the background.
    Together {
        processes: u32,
    },
}

impl Session {
    /// Closes the last handle of this process: waits until nothing is kept, then notifies the nodes.
    pub fn close_then(self: &Arc<Self>, key: HandleKey, order: DetachOrder, done: Done<Others>) {
        let session = self.clone();
        self.after_commit(Box::new(move || {
            session.hint_flush();
            let closing = session.clone();
            session.status.when_empty(Box::new(move |kept| match (kept, order) {
                (Err(error), _) => closing.detach_then(Err(error), done),
                (Ok(()), DetachOrder::Early) => closing.detach_then(Ok(Others::Gone), done),
                (Ok(()), DetachOrder::Last) => closing.commit_rest_then(key, Ok(Others::Gone), done),
                (Ok(()), DetachOrder::Together { processes }) => closing.await_others_then(key, processes, done),
            }));
        }));
    }

    fn await_others_then(self: Arc<Self>, key: HandleKey, processes: u32, done: Done<Others>) {
        let session = self.clone();
        let request =
            |queue: &SendQueue| Request::AwaitOthers { session: self.id, stripe_set: queue.stripe_set, processes };
        let awaited = move |replies: Result<Vec<Reply>>| {
            session.commit_rest_then(key, replies.map(|replies| others(&replies)), done)
        };
        self.ask_owners(request, Box::new(awaited));
    }

    /// Commits again when others sent bytes again to a new node after the commit; those bytes are durable by now.
    fn commit_rest_then(self: Arc<Self>, key: HandleKey, others: Result<Others>, done: Done<Others>) {
        if !matches!(others, Ok(Others::Gone)) || !self.may_miss_bytes() {
            return self.detach_then(others, done);
        }
        let session = self.clone();
        let committed: Completion = Box::new(move |answer| session.detach_then(answer.map(|_| Others::Gone), done));
        self.home().ask(Request::CommitPath { session: self.id, key }, committed);
    }

    fn detach_then(self: Arc<Self>, others: Result<Others>, done: Done<Others>) {
        let session = self.clone();
        let end = move |result| {
            session.queues().iter().for_each(SendQueue::end);
            session.process.forget(session.id);
            done(result);
        };
        let others = match others {
            Ok(others) => others,
            Err(error) => return end(Err(error)),
        };
        let completions = gather(self.queues().len(), Box::new(move |replies| end(replies.map(|_| others))));
        for (queue, completion) in self.queues().iter().zip(completions) {
            queue.ask(Request::Detach { session: self.id, stripe_set: queue.stripe_set }, ending(queue, completion));
        }
    }

    /// Takes one ticket's handle off the session, as its key allows. Sent outside any send queue, since they may have
    /// ended already.
    pub fn leave_then(&self, key: HandleKey, done: Done<()>) {
        let leave: Completion = Box::new(move |answer| done(answer.map(drop)));
        let (home, timeout) = (self.home().address(), self.process.settings.timeout);
        self.process.ask_node(&home, Request::Leave { session: self.id, key }, timeout, leave);
    }
}

/// Ends a send queue as soon as its detach is answered: it must not be attached again, to a new node, while others wait
/// for their answers.
fn ending(queue: &Arc<SendQueue>, completion: Completion) -> Completion {
    let queue = queue.clone();
    Box::new(move |answer| {
        if answer.is_ok() {
            queue.end();
        }
        completion(answer);
    })
}

fn others(replies: &[Reply]) -> Others {
    let are_gone = replies.iter().all(|reply| matches!(reply, Reply::Others { streams: 0 }));
    if are_gone { Others::Gone } else { Others::Stay }
}

/// Returns whether to take off the ticket's handle: not while others use it, and not at nodes that are gone; then it
/// ends with the process, or with its lease.
pub(super) fn may_leave(closed: &Result<Others>) -> bool {
    !matches!(closed, Ok(Others::Stay) | Err(Error::Unavailable { .. }))
}
