//! Calls that the server has and whose replies have not come: which turn each of them holds.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::applications::add;
use crate::shares::Turn;

use super::record::Passed;

/// A server that has not answered for so long has lost the call, or is not serving anybody.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Serving {
    pub xid: u32,
    pub turn: Turn,
    /// What the reply is to bring (bytes); none for a write, which is served whole by any reply.
    pub expected_bytes: Option<u64>,
    pub cost_bytes: u64,
    /// When the call came, and when it was sent on.
    pub came: Instant,
    pub sent: Instant,
}

/// In the order they were sent: replies mostly come in that order, and of calls with the same xid (sent again by an
/// impatient client) the oldest is answered first.
#[derive(Default)]
pub struct InService {
    calls: VecDeque<Serving>,
}

impl InService {
    pub fn sent(&mut self, call: Serving) {
        self.calls.push_back(call);
    }

    /// A reply was read whole. One to no call of ours belongs to a call that passed unscheduled.
    pub fn answered(&mut self, reply: Passed) {
        let Some(xid) = reply.xid.filter(|_| reply.is_reply) else { return };
        let Some(at) = self.calls.iter().position(|call| call.xid == xid) else { return };
        let call = self.calls.remove(at).expect("the position was just found");
        let counters = &call.turn.stream().application().counters;
        let served = call.expected_bytes.map_or(call.cost_bytes, |expected| expected.min(reply.bytes as u64));
        let moved = if call.expected_bytes.is_some() { &counters.down_bytes } else { &counters.up_bytes };
        add(moved, served);
        counters.latencies.note(call.came.elapsed());
        call.turn.complete(served);
    }

    /// The client or the server has stopped taking what the other sends. Others must not wait for these: their turns
    /// end here, charged in full, since the server will serve them when things move again.
    pub fn release_all(&mut self) {
        for call in self.calls.drain(..) {
            call.turn.complete(call.cost_bytes);
        }
    }

    /// Gives back all turns: there is nobody left to answer.
    pub fn clear(&mut self) {
        self.calls.clear();
    }

    /// Gives back the turns of calls that are not going to be answered, and says how many there were.
    pub fn give_up(&mut self, now: Instant) -> usize {
        let before = self.calls.len();
        self.calls.retain(|call| now.duration_since(call.sent) < PATIENCE);
        before - self.calls.len()
    }
}
