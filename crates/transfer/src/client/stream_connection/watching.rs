//! Timeouts of a connection: attempts that are given up, nodes that have fallen silent, and nodes that live but make no
//! progress.

use std::time::{Duration, Instant};

use super::super::reactor::IoContext;
use super::super::send_queue::{Action, REACH_TIMEOUT};
use super::super::stream::{Ask, Reach};
use super::{Phase, StreamConnection};
use crate::message::Request;
use crate::node_connection::{Bulk, Disconnect, head};
use crate::{ALIVE_INTERVAL, Error, RESOLVE_TIMEOUT, SILENCE_TIMEOUT};

/// Reported about a peer that accepted the connection and sent nothing.
pub(super) const UNGREETED: &str = "it answers no greeting; is it a thalweg node?";
/// How often a connected node is checked, and the gap after which its silence cannot be judged.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);
const WATCH_GAP: Duration = Duration::from_secs(2);

/// Returns how long a connected node may send nothing: short enough that another node has a part of the timeout.
fn silence_timeout(timeout: Duration) -> Duration {
    SILENCE_TIMEOUT.min(timeout * 3 / 5).max(ALIVE_INTERVAL * 3)
}

impl StreamConnection {
    /// Gives up an attempt to connect, which has its own limits, so that another address, or another time, gets its
    /// chance.
    pub(super) fn give_up_attempt(&mut self, context: &IoContext, now: Instant) {
        let outcome = match &mut self.phase {
            Phase::Resolving(resolution) => match resolution.poll() {
                Some(resolved) => return self.resolved(resolved, context, now),
                None if now < self.begun.unwrap_or(now) + RESOLVE_TIMEOUT => Ok(()),
                None => {
                    let why = format!("its name is not resolved within {} s", RESOLVE_TIMEOUT.as_secs());
                    Err(Disconnect::Broken(why))
                }
            },
            Phase::Open(node) => node.check_greeting(now),
            _ => Ok(()),
        };
        if let Err(disconnect) = outcome {
            self.broke(disconnect, context, now);
        }
    }

    /// Watches a connected node. A node that holds this process back, or works long for it, sends heartbeats: one that
    /// does not is gone, and one that lives but makes no progress for the timeout has failed.
    pub(super) fn watch(&mut self, context: &IoContext, now: Instant) {
        if now < self.watched + WATCH_INTERVAL {
            return;
        }
        // Nothing was received in that gap: silence is counted from now on.
        let has_gap = now > self.watched + WATCH_GAP;
        let watched = std::mem::replace(&mut self.watched, now);
        self.say_alive(context, now);
        let is_busy = self.is_busy();
        let liveness = &mut self.node().liveness;
        if has_gap || !is_busy {
            liveness.wait_from(now);
        }
        if !is_busy {
            return;
        }
        let (heard, advanced, arrived) = (liveness.heard(), liveness.advanced(), liveness.arrived());
        let is_silent = now >= heard + silence_timeout(context.timeout);
        if is_silent {
            context.streams.suspect(&self.stream.address, arrived);
        }
        if is_silent || (!has_gap && self.stream.is_suspected(arrived)) {
            self.trouble = Some((heard, String::new()));
            self.stream.queues().iter().for_each(|(queue, _)| queue.node_is_silent(arrived, now));
            let why = format!("it has sent nothing for {} s", now.saturating_duration_since(arrived).as_secs());
            return self.broke(Disconnect::Broken(why), context, now);
        }
        if advanced > self.welcomed {
            self.fine();
        }
        self.fail_stuck_requests(context, watched, now);
    }

    /// Returns whether the node owes this process something.
    pub(super) fn is_busy(&self) -> bool {
        !self.attaching.is_empty() || self.stream.is_busy()
    }

    /// Sends heartbeats while the process holds a file's lock for which others may wait, so that nodes can see whether
    /// it runs.
    fn say_alive(&mut self, context: &IoContext, now: Instant) {
        if self.must_say_alive(context) && now >= self.said_alive + ALIVE_INTERVAL {
            self.said_alive = now;
            let measure = head(&Request::Measure {}, self.stream.number(), &[]);
            self.node().push(measure, Bulk::None);
        }
    }

    /// Returns whether this stream must send heartbeats. The first one sends them for the process: locks are held over it.
    pub(super) fn must_say_alive(&self, context: &IoContext) -> bool {
        self.stream.index == 0 && context.streams.holds_lock()
    }

    /// `watched`: when it was called before.
    fn fail_stuck_requests(&mut self, context: &IoContext, watched: Instant, now: Instant) {
        let least = ALIVE_INTERVAL * 3;
        let liveness = &self.node().liveness;
        let (heard, worked, advanced) = (liveness.heard(), liveness.worked(), liveness.advanced());
        let is_silent = now >= heard + ALIVE_INTERVAL * 2;
        let works = worked > watched || now < worked + WATCH_INTERVAL * 2;
        let what = match (is_silent, works) {
            (true, _) => "has sent nothing",
            (false, true) => "lives and works, and has got nothing of this done",
            (false, false) => "lives and has got nothing done",
        };
        let stuck = |since: Instant| {
            let waited = now.saturating_duration_since(if is_silent { heard } else { since }).as_secs();
            let why = format!("the node {what} for {waited} s; see its messages");
            Error::Unavailable { peer: self.stream.address.clone(), why }
        };
        let since = |ask: &Ask| ask.stuck_since(advanced, least, now);
        for ask in self.stream.take_asks(|ask| since(ask).is_some()) {
            let error = stuck(since(&ask).unwrap_or(now));
            (ask.completion)(Err(error));
        }
        for (queue, has_asked) in self.stream.asking_queues() {
            let waits = queue.is_awaited(has_asked, &context.window);
            if let Some(since) = queue.stuck_since(waits, works, least, now) {
                queue.status.fail(stuck(since));
            }
        }
    }

    /// Discounts the time for which the process was stopped: nothing was waited for meanwhile.
    pub fn stopped(&mut self, time: Duration) {
        let now = Instant::now();
        let shift = |instant: Instant| (instant + time).min(now);
        if let Phase::Open(node) = &mut self.phase {
            node.stopped(time, now);
        }
        (self.watched, self.welcomed) = (shift(self.watched), shift(self.welcomed));
        self.begun = self.begun.map(shift);
        self.trouble = self.trouble.take().map(|(since, why)| (shift(since), why));
        self.stream.stopped(time, now);
    }

    /// Moves send queues that have waited long for this node, and fails what has waited too long.
    pub(super) fn fail_waiting(&mut self, context: &IoContext, now: Instant) {
        let silent = || {
            let (begun, is_greeting) = match &self.phase {
                Phase::Open(node) => (node.begun(), node.is_greeting()),
                _ => (self.begun.unwrap_or(now), false),
            };
            let why = if is_greeting { UNGREETED } else { "no answer" };
            (begun, why.to_owned())
        };
        let (since, why) = self.trouble.clone().unwrap_or_else(silent);
        if now >= since + REACH_TIMEOUT {
            self.stream.set_reach(Reach::Absent);
        }
        let is_out_of_reach = context.streams.is_out_of_reach(&self.stream.address, self.stream.index);
        let unavailable = || Error::Unavailable {
            peer: self.stream.address.clone(),
            why: format!("the node cannot be reached ({why}); gave up after {} s", context.timeout.as_secs_f32()),
        };
        for ask in self.stream.take_asks(|ask| ask.is_expired(since, now)) {
            (ask.completion)(Err(unavailable()));
        }
        for (queue, waits) in self.stream.queues() {
            let patient = match queue.action(waits, is_out_of_reach, now) {
                Action::Wait => true,
                Action::Move => queue.move_on(&context.streams, now),
                Action::Fail => false,
            };
            if !patient {
                queue.status.fail(unavailable());
            }
        }
    }
}
