//! The gate's clock: nanoseconds since it began, and waits to the tenth of a millisecond.
//!
//! tokio's timers count milliseconds; at 100 MB/s a slice takes 0.65 ms, so a scheduler that held the server idle for
//! one would lose several slices. One timerfd serves all waits of the gate.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use policy::fairness::Time;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::error::{Error, Result};

/// Waits that end this near to each other end together.
const GRAIN_NS: u64 = 100_000;
/// As near those of which few come to their end: each end, also of a wait that was abandoned, is a wake-up.
const COARSE_GRAIN_NS: u64 = 10_000_000;

pub struct Clock {
    began: Instant,
    timer: AsyncFd<OwnedFd>,
    waits: RefCell<BinaryHeap<Reverse<Wait>>>,
    /// When the timer will ring; `u64::MAX` while it is off.
    armed: Cell<u64>,
    made: Cell<u64>,
}

/// Ordered by time, then by age.
struct Wait {
    until: u64,
    number: u64,
    slot: Rc<Slot>,
}

#[derive(Default)]
struct Slot {
    is_over: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Clock {
    /// Must be called within the runtime. [`Clock::run`] must run for waits to end.
    pub fn new() -> Result<Rc<Clock>> {
        let failed = |error| Error::System { what: "making a timer", error };
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags);
        let timer = timer.map_err(|error| failed(error.into()))?;
        // SAFETY: the descriptor is owned by what registers it, and stays open and the same until it is dropped.
        let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) };
        let timer = timer.map_err(|error| failed(error.into()))?;
        let (waits, made) = (RefCell::default(), Cell::default());
        Ok(Rc::new(Clock { began: Instant::now(), timer, waits, armed: Cell::new(u64::MAX), made }))
    }

    pub fn now(&self) -> Time {
        Time(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    pub fn after(&self, duration: Duration) -> Time {
        self.now().after(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns at this time, up to a tenth of a millisecond later.
    pub fn sleep_until(self: &Rc<Self>, until: Time) -> Sleep {
        Sleep { clock: self.clone(), until, grain_ns: GRAIN_NS, slot: None }
    }

    /// Returns after so long, up to a hundredth of a second later: for timeouts, which rarely expire.
    pub fn sleep_about(self: &Rc<Self>, duration: Duration) -> Sleep {
        Sleep { clock: self.clone(), until: self.after(duration), grain_ns: COARSE_GRAIN_NS, slot: None }
    }

    /// Ends waits for ever.
    pub async fn run(self: Rc<Self>) {
        loop {
            let Ok(mut ready) = self.timer.readable().await else { return };
            let mut expirations = [0; 8];
            let _ = ready.try_io(|timer| rustix::io::read(timer.get_ref(), &mut expirations).map_err(Into::into));
            self.armed.set(u64::MAX);
            self.end_waits();
        }
    }

    fn end_waits(&self) {
        let now = self.now().0;
        let mut waits = self.waits.borrow_mut();
        while let Some(Reverse(first)) = waits.peek() {
            let is_abandoned = Rc::strong_count(&first.slot) == 1;
            if first.until > now && !is_abandoned {
                break;
            }
            let Reverse(wait) = waits.pop().expect("it was there");
            wait.slot.is_over.set(true);
            wait.slot.waker.take().inspect(Waker::wake_by_ref);
        }
        let next = waits.peek().map(|Reverse(first)| first.until);
        drop(waits);
        next.inspect(|next| self.arm(*next));
    }

    fn arm(&self, until: u64) {
        if until >= self.armed.get() {
            return;
        }
        self.armed.set(until);
        let left = until.saturating_sub(self.now().0).max(1);
        let value = Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        let set = rustix::time::timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &once);
        set.expect("a timer takes any positive time");
    }

    fn wait(&self, until: Time, grain_ns: u64) -> Rc<Slot> {
        let slot = Rc::new(Slot::default());
        let until = until.0.div_ceil(grain_ns).saturating_mul(grain_ns);
        let number = self.made.get();
        self.made.set(number + 1);
        self.waits.borrow_mut().push(Reverse(Wait { until, number, slot: slot.clone() }));
        self.arm(until);
        slot
    }
}

/// A wait; dropping it abandons it.
pub struct Sleep {
    clock: Rc<Clock>,
    until: Time,
    grain_ns: u64,
    slot: Option<Rc<Slot>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let slot = match &self.slot {
            Some(slot) => slot,
            None if self.until <= self.clock.now() => return Poll::Ready(()),
            None => {
                let slot = self.clock.wait(self.until, self.grain_ns);
                self.slot.insert(slot)
            }
        };
        if slot.is_over.get() {
            return Poll::Ready(());
        }
        *slot.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

impl PartialEq for Wait {
    fn eq(&self, other: &Self) -> bool {
        (self.until, self.number) == (other.until, other.number)
    }
}

impl Eq for Wait {}

impl PartialOrd for Wait {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Wait {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.until, self.number).cmp(&(other.until, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_clock<F: Future>(act: impl FnOnce(Rc<Clock>) -> F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let clock = Clock::new().expect("a timer");
            tokio::task::spawn_local(clock.clone().run());
            act(clock).await
        })
    }

    #[test]
    fn waits_end_in_order_and_never_early() {
        with_clock(|clock| async move {
            let ended = Rc::new(RefCell::new(Vec::new()));
            let tasks: Vec<_> = [3000_u64, 500, 1500, 0]
                .map(|micros| {
                    let (clock, ended) = (clock.clone(), ended.clone());
                    tokio::task::spawn_local(async move {
                        let until = clock.after(Duration::from_micros(micros));
                        clock.sleep_until(until).await;
                        assert!(clock.now() >= until, "{micros} µs ended early");
                        ended.borrow_mut().push(micros);
                    })
                })
                .into();
            for task in tasks {
                task.await.expect("no wait ends early");
            }
            assert_eq!(*ended.borrow(), [0, 500, 1500, 3000]);
        });
    }

    #[test]
    fn abandoned_waits_delay_no_others() {
        with_clock(|clock| async move {
            let long = clock.sleep_until(clock.after(Duration::from_secs(3600)));
            let short = Duration::from_millis(1);
            assert!(tokio::time::timeout(short, long).await.is_err());
            clock.sleep_until(clock.after(short)).await;
        });
    }
}
