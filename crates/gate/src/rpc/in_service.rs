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
    /// Calls that are only shown any more, by xid; an answer shows that the server lives.
    given_up: VecDeque<(u32, SentRequest, Unanswered)>,
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
            let at = self.given_up.iter().position(|(of, ..)| *of == xid);
            let given_up = at.and_then(|at| self.given_up.remove(at));
            given_up.into_iter().for_each(|(.., unanswered)| unanswered.note_answer());
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

    fn give_up(&mut self, mut call: Serving) {
        call.unanswered.give_up();
        if self.given_up.len() < MAX_GIVEN_UP {
            self.given_up.push_back((call.xid, call.outstanding, call.unanswered));
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::applications::Applications;
    use crate::config::Config;
    use crate::flows::Flows;

    const FILE: &str = "[[listen]]\nprotocol = \"nfs\"\naddress = \"127.0.0.1:0\"\nupstream = \"127.0.0.1:1\"";

    #[test]
    fn a_reply_to_a_call_that_was_given_up_shows_that_the_server_lives() {
        let applications = Applications::new(&Config::parse(Path::new("gate.toml"), FILE).expect("it is right"));
        let application = applications.all().remove(0);
        let flow = Flows::default().of(&application);
        let mut unanswered = flow.sent(4096);
        unanswered.note_late();
        let sent = Instant::now();
        let mut in_service = InService::default();
        in_service.sent(Serving {
            xid: 1,
            application: application.clone(),
            grant: None,
            unanswered,
            outstanding: SentRequest::of(&application),
            expected_bytes: None,
            cost_bytes: 4096,
            came: sent,
            sent,
        });
        in_service.sweep(sent + HUNG_TIMEOUT);
        assert!(in_service.len() == 0 && flow.hangs());
        in_service.answered(Passed { xid: Some(1), is_reply: true, bytes: 100 });
        assert!(!flow.is_late());
        assert_eq!(application.counters.outstanding.count(), 0);
    }
}
