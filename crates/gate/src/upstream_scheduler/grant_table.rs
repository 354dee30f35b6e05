//! Grants that are waited for or in service, by the number the scheduler knows them by. Numbers are used again.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use policy::fairness::{Request, Time};

use super::grant::QueueKey;

#[derive(Default)]
pub(super) struct GrantTable {
    entries: Vec<Option<GrantEntry>>,
    free: Vec<usize>,
    queued: u64,
    /// Those that wait, and those in service.
    waiting: usize,
    started: usize,
}

struct GrantEntry {
    queue: Rc<QueueKey>,
    /// As the scheduler has it.
    request: Request,
    /// Order of arrival.
    number: u64,
    state: GrantState,
}

/// The state of a grant when it was removed.
pub(super) enum Removed {
    Queued,
    Started,
    Expired,
}

enum GrantState {
    Queued(Option<Waker>),
    Started {
        at: Time,
        progress_at: Time,
        awaits_reply: bool,
    },
    /// Started, and ended without its holder.
    Expired {
        at: Time,
    },
}

impl GrantTable {
    /// Returns the request, with its number.
    pub fn queue(&mut self, queue: Rc<QueueKey>, request: Request) -> Request {
        self.queued += 1;
        self.waiting += 1;
        let state = GrantState::Queued(None);
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        let request = Request { id: at as u64, ..request };
        self.entries[at] = Some(GrantEntry { queue, request, number: self.queued, state });
        request
    }

    fn entry(&mut self, id: u64) -> &mut GrantEntry {
        let at = usize::try_from(id).expect("an index became the number");
        self.entries[at].as_mut().expect("who holds a number has its ticket")
    }

    pub fn cost_bytes(&mut self, id: u64) -> u64 {
        self.entry(id).request.cost_bytes
    }

    /// Returns those that wait, and those in service.
    pub fn counts(&self) -> (usize, usize) {
        (self.waiting, self.started)
    }

    /// Returns how many are in service then.
    pub fn start(&mut self, id: u64, now: Time) -> usize {
        self.waiting -= 1;
        self.started += 1;
        let before = std::mem::replace(
            &mut self.entry(id).state,
            GrantState::Started { at: now, progress_at: now, awaits_reply: false },
        );
        if let GrantState::Queued(Some(waker)) = before {
            waker.wake();
        }
        self.started
    }

    /// Ready with the time of its start.
    pub fn poll_started(&mut self, id: u64, context: &Context<'_>) -> Poll<Time> {
        match &mut self.entry(id).state {
            GrantState::Started { at, .. } | GrantState::Expired { at } => Poll::Ready(*at),
            GrantState::Queued(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Notes that the server makes progress with it.
    pub fn progress(&mut self, id: u64, now: Time) {
        if let GrantState::Started { progress_at, .. } = &mut self.entry(id).state {
            *progress_at = now;
        }
    }

    /// Notes that the server has all of its bytes, and shows nothing before its reply.
    pub fn awaits_reply(&mut self, id: u64) {
        if let GrantState::Started { awaits_reply, .. } = &mut self.entry(id).state {
            *awaits_reply = true;
        }
    }

    /// Ends the grants in service for which `is_too_old` holds, given their last progress and whether they await a
    /// reply only; returns their numbers, queues and costs.
    pub fn expire(&mut self, is_too_old: impl Fn(Time, bool) -> bool) -> Vec<(u64, Rc<QueueKey>, u64)> {
        let mut expired = Vec::new();
        for (id, entry) in (0_u64..).zip(&mut self.entries) {
            let Some(entry) = entry else { continue };
            if let GrantState::Started { at, progress_at, awaits_reply } = entry.state
                && is_too_old(progress_at, awaits_reply)
            {
                entry.state = GrantState::Expired { at };
                self.started -= 1;
                expired.push((id, entry.queue.clone(), entry.request.cost_bytes));
            }
        }
        expired
    }

    pub fn remove(&mut self, id: u64) -> Removed {
        let at = usize::try_from(id).expect("an index became the number");
        let entry = self.entries[at].take().expect("who holds a number has its ticket");
        self.free.push(at);
        match entry.state {
            GrantState::Queued(_) => {
                self.waiting -= 1;
                Removed::Queued
            }
            GrantState::Started { .. } => {
                self.started -= 1;
                Removed::Started
            }
            GrantState::Expired { .. } => Removed::Expired,
        }
    }

    /// Hands over all that are not started, in the order they came.
    pub fn requeue(&self, mut enqueue: impl FnMut(&Rc<QueueKey>, Request)) {
        let live = self.entries.iter().flatten();
        let mut queued: Vec<_> = live.filter(|entry| matches!(entry.state, GrantState::Queued(_))).collect();
        queued.sort_by_key(|entry| entry.number);
        for entry in queued {
            enqueue(&entry.queue, entry.request);
        }
    }
}
