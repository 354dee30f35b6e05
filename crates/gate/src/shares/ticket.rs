//! Turns that are waited for or in service, by the number the scheduler knows them by. Numbers are used again.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use policy::fairness::{Request, Time};

use super::turn::StreamKey;

#[derive(Default)]
pub(super) struct Tickets {
    tickets: Vec<Option<Ticket>>,
    free: Vec<usize>,
    queued: u64,
    /// Those that wait, and those in service.
    waiting: usize,
    started: usize,
}

struct Ticket {
    stream: Rc<StreamKey>,
    /// As the scheduler has it.
    request: Request,
    /// Order of arrival.
    number: u64,
    state: TicketState,
}

/// What a ticket was when it was taken out.
pub(super) enum Removed {
    Queued,
    Started,
    Expired,
}

enum TicketState {
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

impl Tickets {
    /// The request, with its number.
    pub fn queue(&mut self, stream: Rc<StreamKey>, request: Request) -> Request {
        self.queued += 1;
        self.waiting += 1;
        let state = TicketState::Queued(None);
        let at = self.free.pop().unwrap_or_else(|| {
            self.tickets.push(None);
            self.tickets.len() - 1
        });
        let request = Request { id: at as u64, ..request };
        self.tickets[at] = Some(Ticket { stream, request, number: self.queued, state });
        request
    }

    fn ticket(&mut self, id: u64) -> &mut Ticket {
        let at = usize::try_from(id).expect("an index became the number");
        self.tickets[at].as_mut().expect("who holds a number has its ticket")
    }

    pub fn cost_bytes(&mut self, id: u64) -> u64 {
        self.ticket(id).request.cost_bytes
    }

    /// Those that wait, and those in service.
    pub fn counts(&self) -> (usize, usize) {
        (self.waiting, self.started)
    }

    /// How many are in service then.
    pub fn start(&mut self, id: u64, now: Time) -> usize {
        self.waiting -= 1;
        self.started += 1;
        let before = std::mem::replace(
            &mut self.ticket(id).state,
            TicketState::Started { at: now, progress_at: now, awaits_reply: false },
        );
        if let TicketState::Queued(Some(waker)) = before {
            waker.wake();
        }
        self.started
    }

    /// Ready with the time of its start.
    pub fn poll_started(&mut self, id: u64, context: &Context<'_>) -> Poll<Time> {
        match &mut self.ticket(id).state {
            TicketState::Started { at, .. } | TicketState::Expired { at } => Poll::Ready(*at),
            TicketState::Queued(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The server makes progress with it.
    pub fn progress(&mut self, id: u64, now: Time) {
        if let TicketState::Started { progress_at, .. } = &mut self.ticket(id).state {
            *progress_at = now;
        }
    }

    /// The server has all of what it is for, and shows nothing before its reply.
    pub fn awaits_reply(&mut self, id: u64) {
        if let TicketState::Started { awaits_reply, .. } = &mut self.ticket(id).state {
            *awaits_reply = true;
        }
    }

    /// Ends those in service for which this is said of their last progress, and of whether they await a reply only; tells
    /// their numbers, streams and costs.
    pub fn expire(&mut self, is_too_old: impl Fn(Time, bool) -> bool) -> Vec<(u64, Rc<StreamKey>, u64)> {
        let mut expired = Vec::new();
        for (id, ticket) in (0_u64..).zip(&mut self.tickets) {
            let Some(ticket) = ticket else { continue };
            if let TicketState::Started { at, progress_at, awaits_reply } = ticket.state
                && is_too_old(progress_at, awaits_reply)
            {
                ticket.state = TicketState::Expired { at };
                self.started -= 1;
                expired.push((id, ticket.stream.clone(), ticket.request.cost_bytes));
            }
        }
        expired
    }

    pub fn remove(&mut self, id: u64) -> Removed {
        let at = usize::try_from(id).expect("an index became the number");
        let ticket = self.tickets[at].take().expect("who holds a number has its ticket");
        self.free.push(at);
        match ticket.state {
            TicketState::Queued(_) => {
                self.waiting -= 1;
                Removed::Queued
            }
            TicketState::Started { .. } => {
                self.started -= 1;
                Removed::Started
            }
            TicketState::Expired { .. } => Removed::Expired,
        }
    }

    /// Hands over all that are not started, in the order they came.
    pub fn requeue(&self, mut enqueue: impl FnMut(&Rc<StreamKey>, Request)) {
        let live = self.tickets.iter().flatten();
        let mut queued: Vec<_> = live.filter(|ticket| matches!(ticket.state, TicketState::Queued(_))).collect();
        queued.sort_by_key(|ticket| ticket.number);
        for ticket in queued {
            enqueue(&ticket.stream, ticket.request);
        }
    }
}
