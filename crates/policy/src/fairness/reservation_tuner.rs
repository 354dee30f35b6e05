//! How much of the server is worth keeping free for an application that is behind and has nothing queued: all of it,
//! the slots it is about to fill, or nothing.
//!
//! All of it is the surest way to let it catch up, and the dearest. As long as waiting costs no throughput, nothing is
//! compared. Once waiting uses up its budget, or the application waited for uses less than half of its target share,
//! the part of the server that it gets is compared, over windows of some hundreds of milliseconds, with what it gets
//! when less is kept. The choice of most worth, a part of the server less its cost, is kept for the next 4, 8, 16, 32
//! windows; then all are tried again, since the part that an application can use changes.

use super::Time;

/// A window lasts so long, and then until it has so many of the largest requests, or so long.
const WINDOW_NS: u64 = 300_000_000;
const WINDOW_REQUESTS: u64 = 64;
const MAX_WINDOW_NS: u64 = 600_000_000;
/// An application that uses less of its target share is compared whatever the balance: a server that stalls some
/// streams shows no true rate.
const MIN_USED: f64 = 0.5;
/// An answer holds for so many windows at first, and for so many when it was often the same.
const MIN_HELD_WINDOWS: u32 = 4;
const MAX_HELD_WINDOWS: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reservation {
    Nothing,
    Slots,
    All,
}

pub struct ReservationTuner {
    kept: Reservation,
    /// It is so only since the window began: the choice before still has effects.
    is_settling: bool,
    /// For so many more windows nothing else is tried, and the next time for so many.
    held_windows: u32,
    next_held_windows: u32,
    /// The best of the present comparison, its worth, and the best of the last one.
    best: Reservation,
    best_worth: f64,
    last_best: Reservation,
    window: Window,
}

/// The service started since the window began.
#[derive(Default)]
struct Window {
    since: Time,
    asked: Time,
    own_bytes: u64,
    all_bytes: u64,
    /// Waiting used up its budget.
    was_exhausted: bool,
}

/// The part of all service that waiting takes when it uses up its budget, and whether it has now.
#[derive(Clone, Copy)]
pub struct Price {
    pub share: f64,
    pub is_exhausted: bool,
}

/// All that was ever started at the server, and the largest request.
#[derive(Clone, Copy)]
pub struct Started {
    pub all_bytes: u64,
    pub largest_bytes: u64,
}

impl ReservationTuner {
    pub fn new() -> Self {
        ReservationTuner {
            kept: Reservation::All,
            is_settling: false,
            held_windows: 0,
            next_held_windows: MIN_HELD_WINDOWS,
            best: Reservation::All,
            best_worth: f64::MIN,
            last_best: Reservation::All,
            window: Window::default(),
        }
    }

    /// Notes that it started a request.
    pub fn started(&mut self, cost_bytes: u64) {
        self.window.own_bytes += cost_bytes;
    }

    /// To be asked whenever there is a reason to wait. `due`: the part of the server it is entitled to.
    pub fn kept(&mut self, due: f64, price: Price, started: Started, now: Time) -> Reservation {
        let was_asked_lately = now.since(self.window.asked) < WINDOW_NS;
        self.window.asked = now;
        self.window.was_exhausted |= price.is_exhausted;
        if !was_asked_lately {
            self.window.begin(started, now);
        } else if self.window.is_over(started, now) {
            let all_bytes = (started.all_bytes - self.window.all_bytes).max(1);
            self.judge(self.window.own_bytes as f64 / all_bytes as f64, due, price.share);
            self.window.begin(started, now);
        }
        self.kept
    }

    /// Notes that a window is over in which it had this part of all that was started.
    fn judge(&mut self, part: f64, due: f64, cost: f64) {
        if std::mem::take(&mut self.is_settling) {
            return;
        }
        if self.held_windows > 0 {
            self.held_windows -= 1;
            if self.held_windows == 0 {
                self.best_worth = f64::MIN;
                self.keep(Reservation::All);
            }
            return;
        }
        let is_dear = self.kept != Reservation::Nothing && (self.window.was_exhausted || part < MIN_USED * due);
        let tuner = if is_dear { part - cost } else { part };
        if tuner > self.best_worth {
            (self.best, self.best_worth) = (self.kept, tuner);
        }
        match self.kept {
            Reservation::All if is_dear => self.keep(Reservation::Slots),
            Reservation::Slots if is_dear => self.keep(Reservation::Nothing),
            // A choice that costs nothing needs no comparison with less.
            Reservation::All => self.best_worth = f64::MIN,
            Reservation::Slots | Reservation::Nothing => self.hold(),
        }
    }

    fn keep(&mut self, kept: Reservation) {
        self.is_settling = self.kept != kept;
        self.kept = kept;
    }

    /// The surer the answer, the longer it holds.
    fn hold(&mut self) {
        let is_as_before = (self.best == Reservation::All) == (self.last_best == Reservation::All);
        self.held_windows = if is_as_before { self.next_held_windows } else { MIN_HELD_WINDOWS };
        self.next_held_windows = (2 * self.held_windows).min(MAX_HELD_WINDOWS);
        self.last_best = self.best;
        self.keep(self.best);
    }
}

impl Window {
    fn begin(&mut self, started: Started, now: Time) {
        *self = Window { since: now, asked: now, all_bytes: started.all_bytes, ..Window::default() };
    }

    fn is_over(&self, started: Started, now: Time) -> bool {
        let bytes = started.all_bytes - self.all_bytes;
        let ns = now.since(self.since);
        ns >= WINDOW_NS && (bytes >= WINDOW_REQUESTS * started.largest_bytes || ns >= MAX_WINDOW_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: f64 = 0.035;
    const REQUEST: u64 = 64 << 10;

    /// Windows in which it gets this part of the server, and whether waiting uses up its budget; answers what was kept in
    /// each.
    fn windows(
        tuner: &mut ReservationTuner,
        count: usize,
        of: impl Fn(Reservation) -> (f64, bool),
    ) -> Vec<Reservation> {
        with_due(tuner, count, 0.01, of)
    }

    fn with_due(
        tuner: &mut ReservationTuner,
        count: usize,
        due: f64,
        of: impl Fn(Reservation) -> (f64, bool),
    ) -> Vec<Reservation> {
        let (mut now, mut all_bytes) = (tuner.window.asked, tuner.window.all_bytes);
        let mut seen = Vec::new();
        for _ in 0..count {
            let before = tuner.kept;
            let (part, is_dear) = of(before);
            tuner.started((part * 100.0 * REQUEST as f64) as u64);
            all_bytes += 100 * REQUEST;
            for _ in 0..4 {
                now = now.after(80_000_000);
                let price = Price { share: COST, is_exhausted: is_dear };
                tuner.kept(due, price, Started { all_bytes, largest_bytes: REQUEST }, now);
            }
            seen.push(before);
        }
        seen
    }

    fn count(seen: &[Reservation], kept: Reservation) -> usize {
        seen.iter().filter(|&&one| one == kept).count()
    }

    #[test]
    fn what_costs_nothing_is_not_compared() {
        let mut tuner = ReservationTuner::new();
        assert_eq!(count(&windows(&mut tuner, 100, |_| (0.01, false)), Reservation::All), 100);
    }

    #[test]
    fn who_uses_nothing_of_its_due_is_not_waited_for() {
        let mut tuner = ReservationTuner::new();
        let seen = with_due(&mut tuner, 400, 0.8, |_| (0.0, false));
        assert!(count(&seen, Reservation::Nothing) > 320, "{}", count(&seen, Reservation::Nothing));
    }

    #[test]
    fn all_is_kept_where_it_moves_more_than_it_costs() {
        let mut tuner = ReservationTuner::new();
        let seen = windows(&mut tuner, 400, |kept| if kept == Reservation::All { (0.5, true) } else { (0.4, true) });
        assert!(count(&seen, Reservation::All) > 320, "{}", count(&seen, Reservation::All));
    }

    #[test]
    fn what_moves_less_than_it_costs_is_seldom_tried() {
        let mut tuner = ReservationTuner::new();
        let seen =
            windows(&mut tuner, 400, |kept| if kept == Reservation::Nothing { (0.05, false) } else { (0.06, true) });
        assert!(count(&seen, Reservation::Nothing) > 320, "{}", count(&seen, Reservation::Nothing));
    }

    #[test]
    fn slots_that_cost_nothing_do_where_all_gives_little_more() {
        let mut tuner = ReservationTuner::new();
        let seen = windows(&mut tuner, 400, |kept| (0.4, kept == Reservation::All));
        assert!(
            count(&seen, Reservation::Slots) > 320 && count(&seen, Reservation::Nothing) == 0,
            "{}",
            count(&seen, Reservation::Slots)
        );
    }

    #[test]
    fn another_answer_is_found_when_things_change() {
        let mut tuner = ReservationTuner::new();
        windows(&mut tuner, 400, |kept| (0.4, kept == Reservation::All));
        let seen = windows(&mut tuner, 100, |kept| if kept == Reservation::All { (0.5, true) } else { (0.4, true) });
        assert!(count(&seen[60..], Reservation::All) > 25, "{seen:?}");
    }
}
