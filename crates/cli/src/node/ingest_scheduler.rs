//! The order of writes when several applications want the node's bandwidth; for threads.
//!
//! Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995) whose rounds are the node's syncs: a round makes all
//! earlier writes durable, and as it begins every application may have its part by weight of the next *quantum* taken
//! in. So data not yet durable stays within two quanta, whichever application pauses, and it does not matter whether
//! the disk, the node's cores or its memory is scarce. The quantum follows from how long rounds last.
//!
//! The next round begins when one waits for it, but only after those who still may write have done so: for a while, if
//! they go on, and with a bound on what such waiting costs. An application that is alone never waits. Never block while
//! holding a claim: a connection waits before it claims segments, never between a claim and its content. Should rounds
//! not end all the same, no wait is longer than `LONGEST_WAIT`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// All applications' quanta together, in bytes: at first, and the bounds.
const FIRST_QUANTUM: u64 = 16 << 20;
const MIN_QUANTUM: u64 = 4 << 20;
const MAX_QUANTUM: u64 = 128 << 20;
/// A round that takes longer had too much to do: others' commits wait for it.
const LONG_ROUND: Duration = Duration::from_millis(500);
/// Rounds that follow each other faster cost too many syncs.
const SHORT_ROUND: Duration = Duration::from_millis(150);
/// An application that has written within this time keeps a share.
const PRESENT: Duration = Duration::from_secs(2);
/// A round waits for applications that may write on until they pause for so long, and at most as long as a long round.
const PAUSE: Duration = Duration::from_millis(200);
/// An application waited for in vain is not waited for again before so many times as long: the part of the time lost
/// so.
const VAIN_PARTS: u32 = 20;
/// Less than the timeout of clients (60 s), after which they believe the node dead.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Names come from clients; those beyond this number share as one.
const MAX_APPLICATIONS: usize = 1000;
/// The share of writers without an application name, and of applications beyond the limit.
const OTHER: &str = "other";
/// The sleep between checks for waiting writes, and when there are none.
const SHORT_NAP: Duration = Duration::from_millis(5);
const LONG_NAP: Duration = Duration::from_millis(200);

pub(crate) struct IngestScheduler {
    /// None: no application waits for another.
    weights: Option<HashMap<String, u32>>,
    state: Mutex<State>,
    /// A write may go on.
    granted: Condvar,
    /// A write began to wait.
    wait_began: Condvar,
}

struct State {
    applications: HashMap<String, Application>,
    quantum_bytes: u64,
    /// When the last round ended.
    ended: Instant,
    tickets: u64,
    is_open: bool,
}

struct Application {
    weight: u32,
    connections: usize,
    /// When it last wrote.
    last_seen: Option<Instant>,
    /// The bytes it may still write; the write that begins above 0 may end below.
    credit_bytes: i64,
    waiting: VecDeque<Waiting>,
    unawaited_until: Instant,
}

struct Waiting {
    ticket: u64,
    bytes: u64,
    since: Instant,
}

/// A connection's part in an application; dropped with the connection.
pub(crate) struct Member {
    ingest: Arc<IngestScheduler>,
    name: String,
}

impl IngestScheduler {
    /// Without `weights` nothing is shared; applications without a weight weigh 1.
    pub fn new(weights: Option<HashMap<String, u32>>) -> Arc<Self> {
        let state = State {
            applications: HashMap::new(),
            quantum_bytes: FIRST_QUANTUM,
            ended: Instant::now(),
            tickets: 0,
            is_open: weights.is_none(),
        };
        Arc::new(IngestScheduler {
            weights,
            state: Mutex::new(state),
            granted: Condvar::new(),
            wait_began: Condvar::new(),
        })
    }

    /// Adds a connection of this application.
    pub fn join(self: &Arc<Self>, application: &str) -> Member {
        let weight = self.weights.as_ref().and_then(|weights| weights.get(application).copied());
        let name = self.lock().join(application, weight, Instant::now());
        Member { ingest: self.clone(), name }
    }

    /// Returns the bytes that wait now, by application, of those that have any waiting.
    pub fn waiting_bytes(&self) -> HashMap<String, u64> {
        let state = self.lock();
        let waiting = |application: &Application| application.waiting.iter().map(|waiting| waiting.bytes).sum();
        let all = state.applications.iter().map(|(name, application)| (name.clone(), waiting(application)));
        all.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// Ends all waiting: the node stops.
    pub fn open(&self) {
        self.lock().is_open = true;
        self.granted.notify_all();
    }

    /// Sleeps until a round is due, or a little; true when one begins. All writes until now belong to it.
    pub fn begin_round(&self) -> bool {
        let mut state = self.lock();
        if state.waiters().next().is_none() {
            state = self.wait_began.wait_timeout(state, LONG_NAP).expect("no panic holds it").0;
        }
        let is_due = state.is_round_due(Instant::now());
        if is_due {
            state.grant(Instant::now());
            self.granted.notify_all();
        } else if state.waiters().next().is_some() {
            drop(state);
            std::thread::sleep(SHORT_NAP);
        }
        is_due
    }

    /// Notes that all that belonged to the round is durable, which took so long.
    pub fn end_round(&self, took: Duration) {
        self.lock().end_round(took, Instant::now());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic holds it")
    }
}

impl Member {
    /// Waits until so many more bytes of this application may be taken in.
    pub fn wait_for_turn(&self, bytes: u64) {
        let mut state = self.ingest.lock();
        let began = Instant::now();
        let Some(ticket) = state.ask(&self.name, bytes, began) else { return };
        self.ingest.wait_began.notify_one();
        while state.is_waiting(&self.name, ticket) && !state.is_open && began.elapsed() < LONGEST_WAIT {
            let left = LONGEST_WAIT.saturating_sub(began.elapsed());
            state = self.ingest.granted.wait_timeout(state, left).expect("no panic holds it").0;
        }
        state.let_go(&self.name, ticket, Instant::now());
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.ingest.lock().leave(&self.name);
    }
}

impl State {
    fn join(&mut self, name: &str, weight: Option<u32>, now: Instant) -> String {
        let is_one_too_many = weight.is_none() && self.applications.len() >= MAX_APPLICATIONS;
        let is_known = self.applications.contains_key(name);
        let name = if name.is_empty() || (is_one_too_many && !is_known) { OTHER } else { name };
        let new = || Application {
            weight: weight.unwrap_or(1),
            connections: 0,
            last_seen: None,
            credit_bytes: 0,
            waiting: VecDeque::new(),
            unawaited_until: now,
        };
        self.applications.entry(name.to_owned()).or_insert_with(new).connections += 1;
        name.to_owned()
    }

    fn leave(&mut self, name: &str) {
        let application = self.applications.get_mut(name).expect("who leaves has joined");
        application.connections -= 1;
        if application.connections == 0 {
            self.applications.remove(name);
        }
    }

    /// Returns a waiter's number, when there is something to wait for.
    fn ask(&mut self, name: &str, bytes: u64, now: Instant) -> Option<u64> {
        let is_shared =
            self.applications.iter().any(|(other, application)| other != name && application.is_present(now));
        let application = self.applications.get_mut(name).expect("who asks has joined");
        application.last_seen = Some(now);
        if self.is_open || !is_shared {
            return None;
        }
        if application.waiting.is_empty() && application.credit_bytes > 0 {
            application.charge(bytes);
            return None;
        }
        self.tickets += 1;
        application.waiting.push_back(Waiting { ticket: self.tickets, bytes, since: now });
        Some(self.tickets)
    }

    fn is_waiting(&self, name: &str, ticket: u64) -> bool {
        self.applications[name].waiting.iter().any(|waiting| waiting.ticket == ticket)
    }

    /// Goes on, whether it was granted or will wait no more.
    fn let_go(&mut self, name: &str, ticket: u64, now: Instant) {
        let application = self.applications.get_mut(name).expect("who waits has joined");
        application.last_seen = Some(now);
        if let Some(at) = application.waiting.iter().position(|waiting| waiting.ticket == ticket) {
            let bytes = application.waiting[at].bytes;
            application.waiting.remove(at);
            application.charge(bytes);
        }
    }

    fn waiters(&self) -> impl Iterator<Item = &Waiting> {
        self.applications.values().filter_map(|application| application.waiting.front())
    }

    fn is_round_due(&mut self, now: Instant) -> bool {
        let Some(since) = self.waiters().map(|waiting| waiting.since).min() else { return false };
        let held = now.duration_since(since.max(self.ended));
        let mut is_due = true;
        for application in self.applications.values_mut() {
            is_due &= !application.is_worth_waiting(held, now);
        }
        is_due
    }

    fn grant(&mut self, now: Instant) {
        let present = self.applications.values().filter(|application| application.is_present(now));
        let weights: u64 = present.map(|application| u64::from(application.weight)).sum();
        let quantum_bytes = self.quantum_bytes;
        for application in self.applications.values_mut() {
            let is_present = application.is_present(now);
            let part = quantum_bytes * u64::from(application.weight) / weights.max(1);
            application.grant(if is_present { part.max(1) as i64 } else { 0 });
        }
    }

    fn end_round(&mut self, took: Duration, now: Instant) {
        if took > LONG_ROUND {
            self.quantum_bytes = (self.quantum_bytes / 2).max(MIN_QUANTUM);
        } else if now.duration_since(self.ended) < SHORT_ROUND {
            self.quantum_bytes = (self.quantum_bytes * 2).min(MAX_QUANTUM);
        }
        self.ended = now;
    }
}

impl Application {
    fn is_present(&self, now: Instant) -> bool {
        !self.waiting.is_empty() || self.has_written_within(PRESENT, now)
    }

    fn has_written_within(&self, time: Duration, now: Instant) -> bool {
        self.last_seen.is_some_and(|seen| now.duration_since(seen) < time)
    }

    fn charge(&mut self, bytes: u64) {
        self.credit_bytes -= i64::try_from(bytes).unwrap_or(i64::MAX / 2);
    }

    /// Keeps unused credit for one more round.
    fn grant(&mut self, part_bytes: i64) {
        self.credit_bytes = (self.credit_bytes + part_bytes).min(2 * part_bytes);
        while self.credit_bytes > 0 {
            let Some(waiting) = self.waiting.pop_front() else { break };
            self.charge(waiting.bytes);
        }
    }

    /// Whether others, who have waited for the next round so long, should go on waiting until this one has had its part.
    fn is_worth_waiting(&mut self, held: Duration, now: Instant) -> bool {
        if !self.waiting.is_empty() || !self.is_present(now) || now < self.unawaited_until {
            return false;
        }
        if !self.has_written_within(PAUSE, now) || held >= LONG_ROUND {
            self.unawaited_until = now + held.min(LONG_ROUND) * VAIN_PARTS;
            return false;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn ingest(list: &[(&str, u32)]) -> Arc<IngestScheduler> {
        IngestScheduler::new(Some(list.iter().map(|(name, weight)| (name.to_string(), *weight)).collect()))
    }

    /// A disk that makes durable what lies in its cache, at a rate.
    #[derive(Default)]
    struct Disk {
        cache: Mutex<Vec<(&'static str, u64)>>,
        durable: Mutex<HashMap<&'static str, u64>>,
        max_cached_bytes: AtomicU64,
        over: AtomicBool,
    }

    impl Disk {
        fn take(&self, name: &'static str, bytes: u64) {
            let mut cache = self.cache.lock().unwrap();
            cache.push((name, bytes));
            self.max_cached_bytes.fetch_max(cache.iter().map(|(_, bytes)| bytes).sum(), Ordering::Relaxed);
        }

        fn sync(&self, bytes_per_s: u64) {
            let batch = std::mem::take(&mut *self.cache.lock().unwrap());
            let bytes: u64 = batch.iter().map(|(_, bytes)| bytes).sum();
            std::thread::sleep(Duration::from_micros(1000 + bytes * 1_000_000 / bytes_per_s));
            let mut durable = self.durable.lock().unwrap();
            batch.iter().for_each(|(name, bytes)| *durable.entry(name).or_default() += bytes);
        }

        fn is_over(&self) -> bool {
            self.over.load(Ordering::Relaxed)
        }
    }

    /// Connections of applications that write for so long, each a piece of so many bytes at a time.
    fn write_for(seconds: f64, ingest: &Arc<IngestScheduler>, connections: &[(&'static str, u64)]) -> Disk {
        let disk = Disk::default();
        std::thread::scope(|threads| {
            for &(name, bytes) in connections {
                let disk = &disk;
                threads.spawn(move || {
                    let member = ingest.join(name);
                    while !disk.is_over() {
                        member.wait_for_turn(bytes);
                        disk.take(name, bytes);
                        std::thread::sleep(Duration::from_micros(200));
                    }
                });
            }
            threads.spawn(|| {
                while !disk.is_over() {
                    if ingest.begin_round() {
                        let began = Instant::now();
                        disk.sync(200 * MIB);
                        ingest.end_round(began.elapsed());
                    }
                }
            });
            std::thread::sleep(Duration::from_secs_f64(seconds));
            disk.over.store(true, Ordering::Relaxed);
            ingest.open();
        });
        disk
    }

    #[test]
    fn the_disk_is_shared_by_weight_not_by_connections_or_write_sizes() {
        let genome = ("genome", MIB);
        let mut ratios = Vec::new();
        // A thread that gets no core for a while is as one that pauses.
        while ratios.len() < 3 && !ratios.last().is_some_and(|ratio| (3.2..4.9).contains(ratio)) {
            let ingest = ingest(&[("climate", 4)]);
            let disk = write_for(3.0, &ingest, &[("climate", MIB / 4), ("climate", MIB / 4), genome, genome, genome]);
            let most = disk.max_cached_bytes.into_inner();
            assert!(most < 3 * MAX_QUANTUM, "{most} bytes were in memory only");
            let durable = disk.durable.into_inner().unwrap();
            ratios.push(durable["climate"] as f64 / durable["genome"] as f64);
        }
        assert!(ratios.last().is_some_and(|ratio| (3.2..4.9).contains(ratio)), "{ratios:?}");
    }

    #[test]
    fn a_lone_application_never_waits() {
        let ingest = ingest(&[("climate", 4)]);
        let (climate, genome) = (ingest.join("climate"), ingest.join("genome"));
        let now = Instant::now();
        let asks = |member: &Member, now| ingest.lock().ask(&member.name, MIB, now).is_some();
        assert!((0..100).all(|_| !asks(&climate, now)), "genome is there, but does not write");
        assert!(asks(&genome, now), "now there are two");
        assert!(!asks(&genome, now + PRESENT), "the other has not written for long");
        drop(climate);
        assert!(!asks(&genome, now), "the other has gone");
    }

    #[test]
    fn without_sharing_no_write_waits() {
        let ingest = IngestScheduler::new(None);
        let (climate, genome) = (ingest.join("climate"), ingest.join("genome"));
        climate.wait_for_turn(MIB);
        assert!(ingest.lock().ask(&genome.name, MIB, Instant::now()).is_none());
    }

    /// Two applications that share: `climate` has credit left, `genome` waits.
    fn one_waits(ingest: &Arc<IngestScheduler>, now: Instant) -> (Member, Member) {
        let (climate, genome) = (ingest.join("climate"), ingest.join("genome"));
        let mut state = ingest.lock();
        assert!(state.ask("climate", 1, now).is_none());
        assert!(state.ask("genome", MIB, now).is_some());
        state.applications.get_mut("climate").unwrap().credit_bytes = 1;
        drop(state);
        (climate, genome)
    }

    #[test]
    fn a_round_waits_for_who_may_write_on_until_it_pauses_and_not_again_at_once() {
        let (ingest, now) = (ingest(&[]), Instant::now());
        let _members = one_waits(&ingest, now);
        let mut state = ingest.lock();
        assert!(!state.is_round_due(now + PAUSE / 2));
        assert!(state.is_round_due(now + PAUSE));
        state.applications.get_mut("climate").unwrap().last_seen = Some(now + PAUSE);
        assert!(state.is_round_due(now + PAUSE * 3 / 2), "it was waited for in vain just now");
    }

    #[test]
    fn a_round_does_not_wait_long_for_who_writes_slowly() {
        let (ingest, now) = (ingest(&[]), Instant::now());
        let _members = one_waits(&ingest, now);
        let mut state = ingest.lock();
        let due = (1..100).map(|n| now + PAUSE / 10 * n).find(|&now| {
            state.applications.get_mut("climate").unwrap().last_seen = Some(now);
            state.is_round_due(now)
        });
        assert!(due.is_some_and(|due| due < now + LONG_ROUND + PAUSE));
    }

    #[test]
    fn what_was_taken_in_too_much_is_missing_in_later_rounds() {
        let (ingest, now) = (ingest(&[("climate", 3)]), Instant::now());
        let _members = one_waits(&ingest, now);
        let mut state = ingest.lock();
        state.quantum_bytes = 4 * MIB;
        state.ask("genome", 10 * MIB, now);
        let waiting = |state: &State| state.applications["genome"].waiting.len();
        state.grant(now);
        assert_eq!((waiting(&state), state.applications["genome"].credit_bytes), (1, 0));
        state.grant(now);
        assert_eq!((waiting(&state), state.applications["genome"].credit_bytes), (0, -9 * MIB as i64));
        (0..9).for_each(|_| state.grant(now));
        assert_eq!(state.applications["genome"].credit_bytes, 0);
        assert_eq!(state.applications["climate"].credit_bytes, 6 * MIB as i64, "what is not used is kept once");
    }

    #[test]
    fn when_rounds_never_come_waiting_ends_with_the_node() {
        let ingest = ingest(&[]);
        let _members = one_waits(&ingest, Instant::now());
        std::thread::scope(|threads| {
            let third = threads.spawn(|| ingest.join("genome").wait_for_turn(MIB));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!third.is_finished());
            ingest.open();
        });
    }

    #[test]
    fn rounds_grow_while_they_are_short_and_shrink_when_they_are_long() {
        let ingest = ingest(&[]);
        let mut state = ingest.lock();
        let now = state.ended;
        (0..20).for_each(|_| state.end_round(Duration::from_millis(1), now));
        assert_eq!(state.quantum_bytes, MAX_QUANTUM);
        (0..20).for_each(|n| state.end_round(Duration::from_secs(1), now + Duration::from_secs(n)));
        assert_eq!(state.quantum_bytes, MIN_QUANTUM);
    }

    #[test]
    fn names_of_strangers_are_bounded_and_those_of_the_gone_forgotten() {
        let ingest = ingest(&[("climate", 4)]);
        let many: Vec<_> = (0..2 * MAX_APPLICATIONS).map(|n| ingest.join(&n.to_string())).collect();
        assert_eq!(ingest.lock().applications.len(), MAX_APPLICATIONS + 1);
        let climate = ingest.join("climate");
        drop(many);
        assert_eq!(ingest.lock().applications.keys().collect::<Vec<_>>(), ["climate"]);
        drop(climate);
    }
}
