//! Turns that are waited for or in service, by the number the scheduler knows them by. Numbers are used again.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use policy::fairness::Time;

use super::turn::StreamKey;

#[derive(Default)]
pub(super) struct Tickets {
    tickets: Vec<Option<Ticket>>,
    free: Vec<usize>,
    queued: u64,
}

struct Ticket {
    stream: Rc<StreamKey>,
    cost_bytes: u64,
    deadline: Option<Time>,
    /// Order of arrival.
    number: u64,
    state: TicketState,
}

enum TicketState {
    Queued(Option<Waker>),
    Started(Time),
}

impl Tickets {
    pub fn queue(&mut self, stream: Rc<StreamKey>, cost_bytes: u64, deadline: Option<Time>) -> u64 {
        self.queued += 1;
        let state = TicketState::Queued(None);
        let ticket = Ticket { stream, cost_bytes, deadline, number: self.queued, state };
        let at = self.free.pop().unwrap_or_else(|| {
            self.tickets.push(None);
            self.tickets.len() - 1
        });
        self.tickets[at] = Some(ticket);
        at as u64
    }

    fn ticket(&mut self, id: u64) -> &mut Ticket {
        let at = usize::try_from(id).expect("an index became the number");
        self.tickets[at].as_mut().expect("who holds a number has its ticket")
    }

    pub fn start(&mut self, id: u64, now: Time) {
        let before = std::mem::replace(&mut self.ticket(id).state, TicketState::Started(now));
        if let TicketState::Queued(Some(waker)) = before {
            waker.wake();
        }
    }

    /// Ready with the time of its start.
    pub fn poll_started(&mut self, id: u64, context: &Context<'_>) -> Poll<Time> {
        match &mut self.ticket(id).state {
            TicketState::Started(at) => Poll::Ready(*at),
            TicketState::Queued(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Whether it had been started.
    pub fn remove(&mut self, id: u64) -> bool {
        let at = usize::try_from(id).expect("an index became the number");
        let ticket = self.tickets[at].take().expect("who holds a number has its ticket");
        self.free.push(at);
        matches!(ticket.state, TicketState::Started(_))
    }

    /// Hands over all that are not started, in the order they came.
    pub fn requeue(&self, mut enqueue: impl FnMut(&Rc<StreamKey>, u64, u64, Option<Time>)) {
        let live = self.tickets.iter().enumerate().filter_map(|(at, ticket)| Some((at, ticket.as_ref()?)));
        let mut queued: Vec<_> = live.filter(|(_, ticket)| matches!(ticket.state, TicketState::Queued(_))).collect();
        queued.sort_by_key(|(_, ticket)| ticket.number);
        for (at, ticket) in queued {
            enqueue(&ticket.stream, at as u64, ticket.cost_bytes, ticket.deadline);
        }
    }
}
