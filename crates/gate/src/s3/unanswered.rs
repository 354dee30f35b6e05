//! Ends connections whose server leaves them without an answer.
//!
//! A client may close its sending side and still read, and the wire does not distinguish it from a client that has
//! gone. So it is kept for as long as clients of NFS are. An end behind bytes that the gate does not read, since the
//! server takes none, is not seen: a connection that is owed an answer then ends after the idle limit, whether its
//! client lives or not.

use std::fmt;
use std::time::Duration;

use policy::fairness::Time;

use crate::s3::connection::Connection;
use crate::s3::limits::IDLE_TIMEOUT;
use crate::socket::ENDED_TIMEOUT;

const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// For how long the server has kept the client waiting, as looks from time to time see it.
#[derive(Default)]
struct Watch {
    ended_since: Option<Time>,
    owed_since: Option<Time>,
}

/// The state seen by one check.
#[derive(Clone, Copy)]
struct Look {
    now: Time,
    /// The server took or sent something then.
    progress_at: Time,
    has_ended: bool,
    is_owed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    Ended,
    Idle,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, timeout) = match self {
            Unanswered::Ended => ("the client has closed its side, and", ENDED_TIMEOUT),
            Unanswered::Idle => ("a request waits, and", IDLE_TIMEOUT),
        };
        write!(f, "{client} the server took and sent nothing for {} s", timeout.as_secs())
    }
}

impl Watch {
    fn judge(&mut self, look: Look) -> Option<Unanswered> {
        let since = |seen: &mut Option<Time>, is_so: bool| {
            *seen = is_so.then(|| seen.unwrap_or(look.now));
            seen.map_or(Duration::ZERO, |seen| Duration::from_nanos(look.now.since(seen.max(look.progress_at))))
        };
        let ended = since(&mut self.ended_since, look.has_ended);
        let owed = since(&mut self.owed_since, look.is_owed);
        if ended >= ENDED_TIMEOUT {
            return Some(Unanswered::Ended);
        }
        (owed >= IDLE_TIMEOUT).then_some(Unanswered::Idle)
    }
}

impl Connection {
    /// Returns when the server has kept the client waiting for too long.
    pub(super) async fn until_unanswered(&self) -> Unanswered {
        let mut watch = Watch::default();
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            if let Some(unanswered) = watch.judge(self.look_for_progress()) {
                return unanswered;
            }
        }
    }

    fn look_for_progress(&self) -> Look {
        // It is the client that is waited for while it does not take its answer, or has not sent all of its body.
        let is_deaf = self.client.unacknowledged() > 0;
        let is_sending = self.is_sending.get() && self.send_window.under_way() == 0;
        let awaits_answer = !self.pending.is_empty() || self.is_answering.get();
        Look {
            now: self.upstream().clock().now(),
            progress_at: self.send_window.with_progress(|progress| progress.last()),
            has_ended: self.client.has_ended() && !is_deaf,
            is_owed: awaits_answer && !is_deaf && !is_sending && !self.pending.is_tunnel(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns after how many seconds a watch ends the connection, of 1000, with the last progress at `progress_s`.
    fn ends_after(has_ended: bool, is_owed: bool, progress_s: u64) -> Option<(u64, Unanswered)> {
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        let mut watch = Watch::default();
        (0..1000).step_by(10).find_map(|now| {
            let progress_at = at(progress_s.min(now));
            let unanswered = watch.judge(Look { now: at(now), progress_at, has_ended, is_owed });
            unanswered.map(|unanswered| (now, unanswered))
        })
    }

    #[test]
    fn a_silent_server_keeps_clients_that_have_ended_a_minute_and_others_five() {
        assert_eq!(ends_after(true, true, 0), Some((60, Unanswered::Ended)));
        assert_eq!(ends_after(true, false, 200), Some((260, Unanswered::Ended)));
        assert_eq!(ends_after(false, true, 0), Some((300, Unanswered::Idle)));
        assert_eq!(ends_after(false, true, 500), Some((800, Unanswered::Idle)));
        assert_eq!(ends_after(false, false, 0), None);
    }

    #[test]
    fn time_before_the_client_ended_does_not_count() {
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        let look = |now, has_ended| Look { now: at(now), progress_at: at(0), has_ended, is_owed: false };
        let mut watch = Watch::default();
        assert_eq!(watch.judge(look(200, false)), None);
        assert_eq!(watch.judge(look(250, true)), None);
        assert_eq!(watch.judge(look(300, true)), None);
        assert_eq!(watch.judge(look(310, true)), Some(Unanswered::Ended));
    }
}
