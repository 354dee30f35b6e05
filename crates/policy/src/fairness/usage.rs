//! Whom waiting is lost on: who does not use half of what its weight entitles it to, even when it is waited for.
//!
//! Judged over windows of some hundreds of milliseconds; whoever fails is not waited for during the next 1, 2, 4 … 16
//! windows, then tried again, since what it can use changes.

use super::Time;

const USED_LEAST: f64 = 0.5;
const WINDOW_NS: u64 = 300_000_000;
const UNAWAITED_MOST: u32 = 16;

#[derive(Default)]
pub struct Usage {
    since: Time,
    own_bytes: u64,
    /// What all had started when the window began.
    all_bytes: u64,
    /// For so many more windows it is not waited for, and the next time for so many.
    unawaited: u32,
    next_unawaited: u32,
}

impl Usage {
    pub fn started(&mut self, cost_bytes: u64) {
        self.own_bytes += cost_bytes;
    }

    /// Asked whenever there is a reason to wait. `part` of the server is its due; `all_bytes` were ever started.
    pub fn is_worth_waiting(&mut self, part: f64, all_bytes: u64, now: Time) -> bool {
        let ns = now.since(self.since);
        if ns >= WINDOW_NS {
            let due = (all_bytes - self.all_bytes) as f64 * part;
            // A much longer window is one in which nobody asked, so that there is nothing to judge.
            let failed = ns < 4 * WINDOW_NS && (self.own_bytes as f64) < USED_LEAST * due;
            self.judge(failed);
            self.since = now;
            self.own_bytes = 0;
            self.all_bytes = all_bytes;
        }
        self.unawaited == 0
    }

    fn judge(&mut self, failed: bool) {
        if self.unawaited > 0 {
            self.unawaited -= 1;
        } else if failed {
            self.unawaited = self.next_unawaited.max(1);
            self.next_unawaited = (2 * self.next_unawaited).clamp(2, UNAWAITED_MOST);
        } else {
            self.next_unawaited = 1;
        }
    }
}
