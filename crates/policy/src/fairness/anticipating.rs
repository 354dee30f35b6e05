//! Thalweg's own: SFQ(D) that keeps the ratio when the heavy application has few requests outstanding.
//!
//! Every application has a tag: the virtual time (bytes / weight) it was charged up to, here and elsewhere. The queued
//! one with the least tag is next, unless an application that is *present* without anything queued is behind it by more
//! than a small lead: then the slots it usually fills stay free for the one that is behind, or all of them when it is
//! far behind and that is worth it, for as long as the loss of throughput stays within a budget. An application is
//! present while it has requests queued or in service, and for its idle timeout after.
//!
//! Invariants: charges are never lost except by the stated bounds (`lag_ns`); an application that leaves gains nothing
//! by it; one that was ahead when the others left is still ahead by as much when they are back. `docs/fairness.md` has
//! the why.

use super::budget::Budget;
use super::depth::DepthControl;
use super::discipline::Discipline;
use super::heap::Heap;
use super::queues::{QueuedRequest, Queues};
use super::reference::Reference;
use super::remote_service::RemoteService;
use super::reservation_tuner::{Price, Reservation, ReservationTuner, Started};
use super::turnarounds::TurnaroundEstimate;
use super::{Completion, Next, Settings, Time};

/// An application's tag, and how it behaves.
struct Account {
    tag: f64,
    turnarounds: TurnaroundEstimate,
    /// When it last had nothing queued nor in service.
    left: Time,
    /// Cost of its last request, and how many it usually has queued or in service when one comes.
    request_bytes: u64,
    outstanding: f64,
    tuner: ReservationTuner,
}

impl Account {
    /// Falls slowly: when one comes, others may be on their way.
    fn note_outstanding(&mut self, outstanding: f64) {
        self.outstanding = outstanding.max(self.outstanding - (self.outstanding - outstanding) / 32.0);
    }
}

pub struct Anticipating {
    queues: Queues,
    depth: DepthControl,
    budget: Budget,
    remote_service: RemoteService,
    accounts: Vec<Account>,
    /// Applications with something queued, by tag, then arrival.
    queued: Heap<(f64, u64)>,
    /// Applications present with nothing queued, by tag.
    awaited: Heap<f64>,
    /// Those of them with nothing in service, by the end of their idle timeout.
    leaving: Heap<Time>,
    reference: Reference,
    arrivals: u64,
    max_anticipation_ns: u64,
    lag_ns: f64,
}

impl Anticipating {
    pub fn new(settings: &Settings) -> Self {
        Anticipating {
            queues: Queues::new(settings),
            depth: DepthControl::new(settings.depth),
            budget: Budget::new(settings.waiting_share),
            remote_service: RemoteService::new(),
            accounts: Vec::new(),
            queued: Heap::new(),
            awaited: Heap::new(),
            leaving: Heap::new(),
            reference: Reference::default(),
            arrivals: 0,
            max_anticipation_ns: settings.max_anticipation_ns,
            lag_ns: settings.lag_ns as f64,
        }
    }

    /// Returns the least tag of all present applications: virtual time.
    fn virtual_time(&self) -> Option<f64> {
        match (self.queued.first(), self.awaited.first()) {
            (Some(((queued, _), _)), Some((awaited, _))) => Some(queued.min(awaited)),
            (Some(((tag, _), _)), None) | (None, Some((tag, _))) => Some(tag),
            (None, None) => None,
        }
    }

    /// Changes a tag, and lets the reference follow what that does to virtual time.
    fn charge(&mut self, application: u32, virtual_length: f64) {
        let before = self.virtual_time();
        let tag = self.accounts[application as usize].tag + virtual_length;
        self.set_tag(application, tag);
        self.reference.follow(before, self.virtual_time());
    }

    fn set_tag(&mut self, application: u32, tag: f64) {
        self.accounts[application as usize].tag = tag;
        if self.queued.contains(application) {
            self.arrivals += 1;
            self.queued.set(application, (tag, self.arrivals));
        } else if self.awaited.contains(application) {
            self.awaited.set(application, tag);
        }
    }

    /// Puts an application into the heaps its state asks for.
    fn place(&mut self, application: u32, now: Time) {
        let account = &self.accounts[application as usize];
        let max_anticipation_ns = account.turnarounds.ns(self.max_anticipation_ns);
        if self.queues.queued(application) > 0 {
            self.awaited.remove(application);
            self.leaving.remove(application);
            self.arrivals += 1;
            self.queued.set(application, (account.tag, self.arrivals));
        } else {
            self.queued.remove(application);
            let serving = self.queues.in_service(application) > 0;
            let leaves = account.left.after(max_anticipation_ns);
            if max_anticipation_ns > 0 && (serving || leaves > now) {
                self.awaited.set(application, account.tag);
                if serving {
                    self.leaving.remove(application);
                } else {
                    self.leaving.set(application, leaves);
                }
            } else {
                self.leave(application);
            }
        }
    }

    fn leave(&mut self, application: u32) {
        self.awaited.remove(application);
        self.leaving.remove(application);
        self.queues.set_present(application, false);
    }

    fn let_the_late_go(&mut self, now: Time) {
        while let Some((_, application)) = self.leaving.first().filter(|(at, _)| *at <= now) {
            self.leave(application);
        }
    }

    fn is_present(&self, application: u32) -> bool {
        self.queued.contains(application) || self.awaited.contains(application)
    }

    /// Advances time: idle timeouts end, lumps of service elsewhere trickle in, waiting is paid for.
    fn catch_up(&mut self, now: Time) {
        self.let_the_late_go(now);
        let busy = self.queued.first().is_some();
        self.budget.update(now, busy);
        while let Some((application, virtual_length)) = self.remote_service.due(now, self.depth.rate()) {
            self.charge(application, virtual_length);
            self.limit_lead(application);
        }
        self.reference.fade(self.virtual_time(), now, self.lag_ns);
    }

    /// Returns the virtual length of `ns` of all the service there is, here and elsewhere, for an application.
    fn virtual_lag(&self, application: u32, ns: f64) -> f64 {
        let rate = self.depth.rate() + self.remote_service.rate();
        ns * rate * self.queues.virtual_per_byte(application)
    }

    /// Limits the lead: no application is further ahead than the one furthest behind can make good in `lag_ns`.
    fn limit_lead(&mut self, application: u32) {
        let behind = [self.queued.first().map(|item| item.1), self.awaited.first().map(|item| item.1)];
        for other in behind.into_iter().flatten().filter(|&other| other != application) {
            let lag = self.virtual_lag(other, self.lag_ns).max(self.virtual_lag(application, self.lag_ns));
            let most = self.accounts[other as usize].tag + lag;
            if lag > 0.0 && self.accounts[application as usize].tag > most {
                self.set_tag(application, most);
            }
        }
    }

    /// Whether `application`, first in the queue, is to be held back for one that is behind it; if so how long.
    fn hold(&mut self, application: u32, request: &QueuedRequest, step: f64, now: Time) -> Option<Time> {
        let (behind_tag, behind) = self.awaited.first()?;
        let tag = self.accounts[application as usize].tag;
        let lead = step.max(self.virtual_lag(behind, LEAD_NS));
        if tag <= behind_tag + lead {
            return None;
        }
        let is_far_ahead = tag > behind_tag + FAR_LEADS * lead;
        if self.depth.allows_holding()
            && !self.leaves_enough(behind, request, is_far_ahead, now)
            && self.budget.allows()
        {
            let ends = self.leaving.first().map_or(Time(u64::MAX), |(at, _)| at);
            return Some(ends.min(now.after(self.budget.lasts_ns())));
        }
        self.forgive(behind, tag, now);
        None
    }

    /// Whether the one behind will find enough free beside a request of this cost.
    fn leaves_enough(&mut self, behind: u32, request: &QueuedRequest, is_far_ahead: bool, now: Time) -> bool {
        let started = Started { all_bytes: self.queues.started_bytes(), largest_bytes: self.depth.largest_bytes() };
        let price = Price { share: self.budget.share(), is_exhausted: !self.budget.allows() };
        let due = self.queues.entitled_part(behind);
        match self.accounts[behind as usize].tuner.kept(due, price, started, now) {
            Reservation::All if is_far_ahead => false,
            Reservation::All | Reservation::Slots => self.leaves_slots(behind, request),
            Reservation::Nothing => true,
        }
    }

    /// Whether beside a request of this cost there is room for those that the one behind usually has outstanding.
    fn leaves_slots(&self, behind: u32, request: &QueuedRequest) -> bool {
        let Account { outstanding, request_bytes, .. } = self.accounts[behind as usize];
        let missing = (outstanding.round() as u64).saturating_sub(self.queues.in_service(behind).into());
        let in_flight_bytes = self.queues.outstanding_bytes(request.completion);
        in_flight_bytes + request.cost_bytes + missing * request_bytes <= self.depth.limit_bytes(request.completion)
    }

    /// Bounds the claim of an application that cannot use its share even when waited for.
    fn forgive(&mut self, behind: u32, tag: f64, now: Time) {
        let lag_ns =
            if self.remote_service.is_active(behind, now) { self.lag_ns } else { self.lag_ns * LOCAL_LAG_SHARE };
        let lag = self.virtual_lag(behind, lag_ns);
        let owed = tag - lag - self.accounts[behind as usize].tag;
        if owed > 0.0 {
            self.charge(behind, owed);
        }
    }

    fn start(&mut self, application: u32, cell: u32, virtual_length: f64, now: Time) -> Next {
        let started = self.queues.start(cell, now);
        self.depth.started(&started, now);
        let before = self.virtual_time();
        let account = &mut self.accounts[application as usize];
        account.tag += virtual_length;
        account.request_bytes = started.cost_bytes;
        account.tuner.started(started.cost_bytes);
        let tag = account.tag;
        self.place(application, now);
        // It may have left just now, which is not what moves the reference.
        let after = self.virtual_time().map_or(tag, |others| others.min(tag));
        self.reference.follow(before, Some(after));
        started.started()
    }
}

/// How far others may run ahead of one with nothing queued before they are held back: as far as it could catch up in
/// this time. It costs no share in the long run and spares most waits.
const LEAD_NS: f64 = 10_000_000.0;

/// Further ahead than so many leads, all of the server is kept for the one behind, not only the slots it will fill.
const FAR_LEADS: f64 = 3.0;

/// The part of `lag_ns` that an application may claim that only this server serves.
const LOCAL_LAG_SHARE: f64 = 0.1;

impl Discipline for Anticipating {
    fn queues(&self) -> &Queues {
        &self.queues
    }

    fn queues_mut(&mut self) -> &mut Queues {
        &mut self.queues
    }

    fn added(&mut self, node: u32) {
        let account = Account {
            tag: self.reference.tag(),
            turnarounds: TurnaroundEstimate::new(),
            left: Time(0),
            request_bytes: 0,
            outstanding: 0.0,
            tuner: ReservationTuner::new(),
        };
        match self.accounts.get_mut(node as usize) {
            Some(old) => *old = account,
            None => self.accounts.push(account),
        }
        self.remote_service.add(node);
    }

    fn removed(&mut self, node: u32) {
        self.awaited.remove(node);
        self.leaving.remove(node);
        self.remote_service.remove(node);
    }

    fn enqueued(&mut self, cell: u32, now: Time) {
        self.let_the_late_go(now);
        let application = self.queues.application(self.queues.cell(cell).stream);
        let outstanding = self.queues.queued(application) + self.queues.in_service(application);
        let account = &mut self.accounts[application as usize];
        account.turnarounds.arrived(now, self.max_anticipation_ns);
        account.note_outstanding(outstanding.into());
        if !self.is_present(application) {
            self.queues.set_present(application, true);
            let account = &mut self.accounts[application as usize];
            account.tag = account.tag.max(self.reference.tag());
        }
        if self.queues.queued(application) == 1 {
            self.place(application, now);
        }
    }

    fn withdrawn(&mut self, _cell: u32, application: u32, now: Time) {
        if self.queues.queued(application) == 0 {
            self.accounts[application as usize].left = now;
            self.place(application, now);
        }
    }

    fn next(&mut self, now: Time) -> Next {
        self.catch_up(now);
        let Some((_, application)) = self.queued.first() else {
            if self.queues.outstanding_bytes(Completion::Served) < self.depth.bytes() {
                self.depth.ran_dry();
            }
            return Next::Nothing;
        };
        let Some((cell, head)) = self.queues.head(application) else { return Next::Nothing };
        if !self.queues.admits(&head, self.depth.limit_bytes(head.completion)) {
            self.depth.ran_full(head.completion);
            return Next::Nothing;
        }
        let virtual_length = head.cost_bytes as f64 * self.queues.virtual_per_byte(application);
        match self.hold(application, &head, virtual_length, now) {
            Some(until) => Next::Wait { until },
            None => self.start(application, cell, virtual_length, now),
        }
    }

    fn completed(&mut self, done: &QueuedRequest, served_bytes: u64, now: Time) {
        let busy = self.queued.first().is_some();
        self.budget.update(now, busy);
        // A grant given back is no work of the server's.
        let is_served = done.completion != Completion::Received;
        if let Some(full_rate) = self.depth.full_rate().filter(|_| busy && is_served) {
            self.budget.completed(served_bytes.min(done.cost_bytes) as f64 / full_rate, self.depth.lull_ns());
        }
        self.depth.completed(done, served_bytes, &self.queues, now);
        let application = self.queues.application(done.stream);
        let unserved = done.cost_bytes.saturating_sub(served_bytes);
        if unserved > 0 {
            self.charge(application, -(unserved as f64) * self.queues.virtual_per_byte(application));
        }
        self.accounts[application as usize].turnarounds.completed(now);
        if self.queues.queued(application) == 0 && self.queues.in_service(application) == 0 {
            self.accounts[application as usize].left = now;
            self.place(application, now);
        }
    }

    fn served_at_other_servers(&mut self, application: u32, bytes: u64, now: Time) {
        let virtual_length = bytes as f64 * self.queues.virtual_per_byte(application);
        self.remote_service.note(application, bytes, virtual_length, now);
    }

    fn depth_bytes(&self) -> u64 {
        self.depth.bytes()
    }
}
