//! Calls that the server has and has not answered, each with its grant.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::applications::{Application, add};
use crate::flows::{HUNG_TIMEOUT, Unanswered};
use crate::outstanding::SentRequest;
use crate::upstream_scheduler::Grant;

use super::record::Passed;

/// A call that is not answered for so long loses its grant: others do not wait for it.
pub const LATE_TIMEOUT: Duration = Duration::from_secs(1);
/// Most calls of a connection that are shown as outstanding after they were given up.
const MAX_GIVEN_UP: usize = 256;

pub struct Serving {
    pub xid: u32,
    pub application: std::rc::Rc<Application>,
    /// Until the call is late.
    pub grant: Option<Grant>,
    pub unanswered: Unanswered,
    pub outstanding: SentRequest,
    /// The expected length of the reply (bytes); none for a write, which is served whole by any reply.
    pub expected_bytes: Option<u64>,
    pub cost_bytes: u64,
    /// When the call came, and when it was sent on.
    pub came: Instant,
    pub sent: Instant,
}

impl Serving {
    /// Ends its grant, charged in full, since the server will serve it some time.
    pub fn end_grant(&mut self) {
        if let Some(grant) = self.grant.take() {
            grant.give_back(self.cost_bytes);
        }
    }

    fn due(&self) -> Instant {
        self.sent + if self.grant.is_some() { LATE_TIMEOUT } else { HUNG_TIMEOUT }
    }
}

/// In the order they were sent: replies mostly come in that order, and of calls with the same xid (sent again by an
/// impatient client) the oldest is answered first.
#[derive(Default)]
pub struct InService {
    calls: VecDeque<Serving>,
    /// Calls that are only shown any more, by xid.
    given_up: VecDeque<(u32, SentRequest)>,
}

impl InService {
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    pub fn sent(&mut self, call: Serving) {
        self.calls.push_back(call);
    }

    /// Notes that a reply was read whole. One to no call of ours belongs to a call that passed unscheduled.
    pub fn answered(&mut self, reply: Passed) {
        let Some(xid) = reply.xid.filter(|_| reply.is_reply) else { return };
        let Some(at) = self.calls.iter().position(|call| call.xid == xid) else {
            let given_up = self.given_up.iter().position(|(of, _)| *of == xid);
            given_up.into_iter().for_each(|at| drop(self.given_up.remove(at)));
            return;
        };
        let call = self.calls.remove(at).expect("the position was just found");
        let counters = &call.application.counters;
        let served = call.expected_bytes.map_or(call.cost_bytes, |expected| expected.min(reply.bytes as u64));
        let moved = if call.expected_bytes.is_some() { &counters.down_bytes } else { &counters.up_bytes };
        add(moved, served);
        counters.latencies.note(call.came.elapsed());
        call.unanswered.note_answer();
        if let Some(grant) = call.grant {
            grant.complete(served);
        }
    }

    /// Ends the grants of all calls: the client or the server has stopped taking what the other sends, and others must
    /// not wait for that.
    pub fn release_all(&mut self) {
        for mut call in std::mem::take(&mut self.calls) {
            call.end_grant();
            self.give_up(call);
        }
    }

    /// Gives back all grants: there is no client left to answer.
    pub fn clear(&mut self) {
        self.calls.clear();
        self.given_up.clear();
    }

    fn give_up(&mut self, call: Serving) {
        if self.given_up.len() < MAX_GIVEN_UP {
            self.given_up.push_back((call.xid, call.outstanding));
        }
    }

    /// Returns when the next call is late or given up, if none is answered.
    pub fn next_due(&self) -> Option<Instant> {
        self.calls.iter().map(Serving::due).min()
    }

    /// Ends the grants of calls that are late, and gives up those that hang.
    pub fn sweep(&mut self, now: Instant) {
        for mut call in std::mem::take(&mut self.calls) {
            if call.due() > now {
                self.calls.push_back(call);
            } else if call.grant.is_some() {
                call.end_grant();
                call.unanswered.note_late();
                self.calls.push_back(call);
            } else {
                self.give_up(call);
            }
        }
    }
}
