//! The applications that share the servers: names, weights, groups and counters. The same objects live through reloads,
//! so that counters go on and queues keep their application.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use crate::config::{Config, Facts, Match, OTHER};
use crate::metrics::Histogram;
use crate::outstanding::Outstanding;
use crate::s3::ClientTimeout;

pub struct Applications {
    table: RefCell<Table>,
    other: Rc<Application>,
}

#[derive(Default)]
struct Table {
    /// Also those that a reload removed, while they are still in use.
    known: HashMap<String, Rc<Application>>,
    rules: Vec<(Match, Rc<Application>)>,
    groups: HashMap<String, u32>,
    anyone_sets_deadlines: bool,
}

pub struct Application {
    name: Rc<str>,
    weight: Cell<u32>,
    group: RefCell<Option<Rc<str>>>,
    deadline: Cell<Option<Duration>>,
    pub(crate) client_timeout: ClientTimeout,
    pub counters: Counters,
}

/// An application's service from all servers of this gate, since the gate began.
#[derive(Default)]
pub struct Counters {
    /// Bytes of bodies and calls from clients to servers, and back.
    pub up_bytes: Cell<u64>,
    pub down_bytes: Cell<u64>,
    /// Bytes of service counted against its share.
    pub charged_bytes: Cell<u64>,
    /// The mean size of a GET's body.
    pub read_bytes: Cell<u64>,
    /// Operations begun.
    pub requests: Cell<u64>,
    /// Turns that are waited for now.
    pub queued: Cell<u64>,
    /// Turns taken and not complete now.
    pub in_service: Cell<u64>,
    /// Requests sent and not answered.
    pub outstanding: Outstanding,
    /// Turns complete after their deadline, and the worst delay past one.
    pub late: Cell<u64>,
    pub worst_late: Cell<Duration>,
    /// From asking for a grant until it begins.
    pub waits: Histogram,
    /// From an operation's beginning until its answer has passed.
    pub latencies: Histogram,
}

/// Objects that the mean size of a GET remembers.
const REMEMBERED_READS: u64 = 8;

impl Counters {
    /// Notes the bytes of a GET.
    pub fn note_read(&self, bytes: u64) {
        let mean = self.read_bytes.get();
        let kept = if mean == 0 { bytes } else { mean - mean / REMEMBERED_READS + bytes / REMEMBERED_READS };
        self.read_bytes.set(kept);
    }

    /// Notes how long past its deadline a grant was complete; zero is in time.
    pub fn note_late(&self, by: Duration) {
        add(&self.late, u64::from(!by.is_zero()));
        self.worst_late.set(self.worst_late.get().max(by));
    }
}

impl Applications {
    pub fn new(config: &Config) -> Self {
        let applications = Applications { table: RefCell::default(), other: Rc::new(Application::new(OTHER.into())) };
        applications.apply(config);
        applications
    }

    /// Takes over what the file says now. Requests that have an application keep it.
    pub fn apply(&self, config: &Config) {
        let mut table = self.table.borrow_mut();
        table.groups = config.groups.iter().map(|group| (group.name.clone(), group.weight)).collect();
        table.anyone_sets_deadlines = config.anyone_sets_deadlines;
        table.rules.clear();
        self.other.set(1, None, None);
        for entry in &config.applications {
            let application = self.find_or_make(&mut table, &entry.name);
            application.set(entry.weight, entry.group.as_deref(), entry.deadline);
            table.rules.push((entry.matches.clone(), application));
        }
        let rules: Vec<_> = table.rules.iter().map(|(_, application)| application.clone()).collect();
        let is_ruled = |application: &Rc<Application>| rules.iter().any(|ruled| Rc::ptr_eq(ruled, application));
        table.known.retain(|_, application| is_ruled(application) || Rc::strong_count(application) > 1);
    }

    fn find_or_make(&self, table: &mut Table, name: &str) -> Rc<Application> {
        if name == OTHER {
            return self.other.clone();
        }
        let known = table.known.entry(name.to_owned());
        known.or_insert_with(|| Rc::new(Application::new(name.into()))).clone()
    }

    /// Returns the first application whose rule holds.
    pub fn of(&self, facts: &Facts<'_>) -> Rc<Application> {
        let table = self.table.borrow();
        let found = table.rules.iter().find(|(matches, _)| matches.holds(facts));
        found.map_or(&self.other, |(_, application)| application).clone()
    }

    /// Returns all of them, by name, with the one for requests that no rule matches.
    pub fn all(&self) -> Vec<Rc<Application>> {
        let mut all: Vec<_> = self.table.borrow().known.values().cloned().collect();
        all.push(self.other.clone());
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Whether its requests may bring a deadline of their own, which lets them overtake others: those of applications
    /// that the file lists, unless it says that anyone's may.
    pub fn may_set_deadline(&self, application: &Rc<Application>) -> bool {
        let table = self.table.borrow();
        table.anyone_sets_deadlines || table.rules.iter().any(|(_, listed)| Rc::ptr_eq(listed, application))
    }

    pub fn group_weight(&self, group: &str) -> u32 {
        self.table.borrow().groups.get(group).copied().unwrap_or(1)
    }
}

impl Application {
    fn new(name: Rc<str>) -> Self {
        Application {
            name,
            weight: Cell::new(1),
            group: RefCell::default(),
            deadline: Cell::default(),
            client_timeout: ClientTimeout::default(),
            counters: Counters::default(),
        }
    }

    fn set(&self, weight: u32, group: Option<&str>, deadline: Option<Duration>) {
        self.weight.set(weight);
        self.deadline.set(deadline);
        if self.group.borrow().as_deref() != group {
            *self.group.borrow_mut() = group.map(Rc::from);
        }
    }

    pub fn name(&self) -> &Rc<str> {
        &self.name
    }

    pub fn weight(&self) -> u32 {
        self.weight.get()
    }

    pub fn group(&self) -> Option<Rc<str>> {
        self.group.borrow().clone()
    }

    /// Within what each of its requests is to be complete.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline.get()
    }
}

/// Adds to a counter.
pub fn add(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get().saturating_add(more));
}

/// Takes from a counter of what is there now.
pub fn take(counter: &Cell<u64>, less: u64) {
    counter.set(counter.get().saturating_sub(less));
}
