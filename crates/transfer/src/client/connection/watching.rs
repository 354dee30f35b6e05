//! Timeouts of a connection: attempts that are given up, nodes that have fallen silent, and nodes that live but make no
//! progress.

use std::time::{Duration, Instant};

use super::super::frame;
use super::super::outgoing::Bulk;
use super::super::reactor::IoContext;
use super::super::send_queue::{Action, REACH_TIMEOUT};
use super::super::stream::{Ask, Reach};
use super::{Connection, Disconnect, Phase};
use crate::message::Request;
use crate::{ALIVE_INTERVAL, CONNECT_TIMEOUT, Error, RESOLVE_TIMEOUT, SILENCE_TIMEOUT};

/// Reported about a peer that accepted the connection and sent nothing.
pub(super) const UNGREETED: &str = "it answers no greeting; is it a thalweg node?";
/// How often a connected node is checked, and the gap after which its silence cannot be judged.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);
const WATCH_GAP: Duration = Duration::from_secs(2);

impl Connection {
    /// Gives up an attempt to connect, which has its own limits, so that another address, or another time, gets its
    /// chance.
    pub(super) fn give_up_attempt(&mut self, context: &IoContext, now: Instant) {
        let begun = self.begun.unwrap_or(now);
        let (limit, why) = match &self.phase {
            Phase::Resolving(resolution) => match resolution.poll() {
                Some(resolved) => return self.resolved(resolved, context, now),
                None => (RESOLVE_TIMEOUT, "its name is not resolved"),
            },
            Phase::Connecting(_) => (CONNECT_TIMEOUT, "it takes no connection"),
            Phase::Greeting(..) => (SILENCE_TIMEOUT, "no answer"),
            _ => return,
        };
        if now >= begun + limit {
            self.broke(Disconnect::ForNow(format!("{why} within {} s", limit.as_secs())), context, now);
        }
    }

    /// Watches a connected node. A node that holds this process back, or works long for it, sends heartbeats: one that
    /// does not is gone, and one that lives but makes no progress for the timeout has failed.
    pub(super) fn watch(&mut self, context: &IoContext, now: Instant) {
        if now < self.watched + WATCH_INTERVAL {
            return;
        }
        // Nothing was received in that gap: silence is counted from now on.
        if now > self.watched + WATCH_GAP {
            self.node.wait_from(now);
        }
        let watched = std::mem::replace(&mut self.watched, now);
        self.say_alive(context, now);
        if !self.is_busy() {
            self.node.wait_from(now);
            return;
        }
        if self.node.is_silent(now) {
            self.trouble = Some((self.node.heard(), String::new()));
            let why = format!("it has sent nothing for {} s", SILENCE_TIMEOUT.as_secs());
            return self.broke(Disconnect::ForNow(why), context, now);
        }
        if self.node.advanced() > self.welcomed {
            self.fine();
        }
        self.fail_stuck_requests(context, watched, now);
    }

    /// Returns whether the node owes this process something.
    pub(super) fn is_busy(&self) -> bool {
        !self.attaching.is_empty() || self.stream.is_busy()
    }

    /// Sends heartbeats while the process holds a file's lock for which others may wait, so that nodes can tell whether
    /// it runs.
    fn say_alive(&mut self, context: &IoContext, now: Instant) {
        if self.must_say_alive(context) && now >= self.said_alive + ALIVE_INTERVAL {
            self.said_alive = now;
            self.outgoing.push(frame::head(&Request::Measure {}, self.stream.number(), &[]), Bulk::None);
        }
    }

    /// Returns whether this stream must send heartbeats. The first one sends them for the process: locks are held over it.
    pub(super) fn must_say_alive(&self, context: &IoContext) -> bool {
        self.stream.index == 0 && context.streams.holds_lock()
    }

    /// `watched`: when it was called before.
    fn fail_stuck_requests(&mut self, context: &IoContext, watched: Instant, now: Instant) {
        let least = ALIVE_INTERVAL * 3;
        let is_silent = now >= self.node.heard() + ALIVE_INTERVAL * 2;
        let works = self.node.worked() > watched || now < self.node.worked() + WATCH_INTERVAL * 2;
        let what = match (is_silent, works) {
            (true, _) => "has sent nothing",
            (false, true) => "lives and works, and has got nothing of this done",
            (false, false) => "lives and has got nothing done",
        };
        let stuck = |since: Instant| {
            let waited = now.saturating_duration_since(if is_silent { self.node.heard() } else { since }).as_secs();
            let why = format!("the node {what} for {waited} s; see its messages");
            Error::Unavailable { peer: self.stream.address.clone(), why }
        };
        let since = |ask: &Ask| ask.stuck_since(self.node.advanced(), least, now);
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
        self.node.stopped(time, now);
        (self.watched, self.welcomed) = (shift(self.watched), shift(self.welcomed));
        self.begun = self.begun.map(shift);
        self.trouble = self.trouble.take().map(|(since, why)| (shift(since), why));
        self.stream.stopped(time, now);
    }

    /// Moves send queues that have waited long for this node, and fails what has waited too long.
    pub(super) fn fail_waiting(&mut self, context: &IoContext, now: Instant) {
        let silent = || {
            let why = if matches!(self.phase, Phase::Greeting(..)) { UNGREETED } else { "no answer" };
            (self.begun.unwrap_or(now), why.to_owned())
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
