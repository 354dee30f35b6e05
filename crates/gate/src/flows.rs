//! Each application's unanswered requests (NFS and GlusterFS: calls) at one server.
//!
//! A request that is not answered for a while loses its grant, so that its bytes no longer keep others waiting. But it
//! may still be served: until it is answered or given up, its application has no more unanswered than its part of the
//! depth. So an application whose requests hang takes no other's part, and one whose server is slow keeps its own.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::applications::Application;

/// A request that is not answered for so long after it lost its grant no longer counts against its application. Its
/// reply still passes.
pub const HUNG_TIMEOUT: Duration = Duration::from_secs(10);

/// An application that wanted something so lately shares the server with others.
const SHARED: Duration = Duration::from_secs(2);

/// Of one server.
#[derive(Default)]
pub struct Flows {
    open: RefCell<Vec<Weak<Flow>>>,
}

/// One application at this server.
pub struct Flow {
    application: Rc<Application>,
    /// Calls that wait, and bytes that were sent.
    waiting: Cell<usize>,
    unanswered_bytes: Cell<u64>,
    /// Unanswered calls that have lost their grants.
    late: Cell<usize>,
    /// Nothing was answered since a call was late.
    hangs: Cell<bool>,
    /// When it last wanted something, if it wants nothing now.
    wanted_at: Cell<Option<Instant>>,
    eased: Notify,
    /// Wakes one of those that wait for `room`.
    has_eased: Notify,
}

impl Flows {
    pub fn of(&self, application: &Rc<Application>) -> Rc<Flow> {
        let mut open = self.open.borrow_mut();
        open.retain(|flow| flow.strong_count() > 0);
        let known = open.iter().filter_map(Weak::upgrade).find(|flow| Rc::ptr_eq(&flow.application, application));
        known.unwrap_or_else(|| {
            let flow = Rc::new(Flow {
                application: application.clone(),
                waiting: Cell::new(0),
                unanswered_bytes: Cell::new(0),
                late: Cell::new(0),
                hangs: Cell::new(false),
                wanted_at: Cell::new(None),
                eased: Notify::new(),
                has_eased: Notify::new(),
            });
            open.push(Rc::downgrade(&flow));
            flow
        })
    }

    /// Returns the application's part of this depth, by the weights of those that want some now.
    fn part_bytes(&self, of: &Flow, depth_bytes: u64, group_weight: impl Fn(&str) -> u32) -> u64 {
        let mut top_weight = 0;
        let mut beside_weight = 0;
        let mut groups: Vec<Rc<str>> = Vec::new();
        let group = of.application.group();
        for flow in self.open.borrow().iter().filter_map(Weak::upgrade) {
            if !flow.wants() && !std::ptr::eq(&*flow, of) {
                continue;
            }
            let weight = u64::from(flow.application.weight());
            let its_group = flow.application.group();
            if its_group.is_some() && its_group == group {
                beside_weight += weight;
            }
            match its_group {
                None => top_weight += weight,
                Some(name) if groups.contains(&name) => {}
                Some(name) => {
                    top_weight += u64::from(group_weight(&name));
                    groups.push(name);
                }
            }
        }
        let own = f64::from(of.application.weight());
        let part = match group {
            None => own / top_weight as f64,
            Some(name) => f64::from(group_weight(&name)) / top_weight as f64 * own / beside_weight as f64,
        };
        (depth_bytes as f64 * part) as u64
    }

    /// Whether another application wants something of the server, or did a moment ago: a client that has its answer mostly
    /// asks for more.
    pub fn is_shared(&self, by: &Flow) -> bool {
        let open = self.open.borrow();
        open.iter().filter_map(Weak::upgrade).any(|flow| !std::ptr::eq(&*flow, by) && flow.wanted_lately())
    }

    /// Whether a call of this cost may be sent now.
    pub fn may_send(&self, flow: &Flow, cost_bytes: u64, depth_bytes: u64, group_weight: impl Fn(&str) -> u32) -> bool {
        let unanswered_bytes = flow.unanswered_bytes.get();
        if !flow.is_late() || unanswered_bytes == 0 {
            return true;
        }
        unanswered_bytes.saturating_add(cost_bytes) <= self.part_bytes(flow, depth_bytes, group_weight)
    }
}

impl Flow {
    /// Whether some of its calls are late, or all that were sent since: then its grants end when its calls are sent.
    pub fn is_late(&self) -> bool {
        self.late.get() > 0 || self.hangs.get()
    }

    pub fn hangs(&self) -> bool {
        self.hangs.get()
    }

    /// Wakes all that wait, in their order, when one of its requests is over.
    pub fn eased(&self) -> &Notify {
        &self.eased
    }

    /// Returns when there is room for another request, as `has_room` says. Those that wait are woken one after the other, in
    /// no certain order: thousands that asked for grants at once would find room for one, again and again.
    pub async fn room(self: &Rc<Self>, has_room: impl Fn() -> bool) -> Woken {
        loop {
            self.has_eased.notified().await;
            if has_room() {
                if !self.is_late() {
                    self.has_eased.notify_one();
                }
                return Woken { flow: Some(self.clone()) };
            }
        }
    }

    fn wants(&self) -> bool {
        self.waiting.get() > 0 || self.unanswered_bytes.get() > 0
    }

    fn wanted_lately(&self) -> bool {
        self.wants() || self.wanted_at.get().is_some_and(|at| at.elapsed() < SHARED)
    }

    fn note_wanted(&self) {
        if !self.wants() {
            self.wanted_at.set(Some(Instant::now()));
        }
    }

    /// Counts a call as waiting until this is dropped.
    pub fn wait(self: &Rc<Self>) -> Wait {
        self.waiting.set(self.waiting.get() + 1);
        Wait(self.clone())
    }

    /// Counts a call as sent and without answer until this is dropped.
    pub fn sent(self: &Rc<Self>, cost_bytes: u64) -> Unanswered {
        self.unanswered_bytes.set(self.unanswered_bytes.get() + cost_bytes);
        Unanswered { flow: self.clone(), cost_bytes, state: State::InTime }
    }
}

pub struct Wait(Rc<Flow>);

impl Drop for Wait {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
        self.0.note_wanted();
    }
}

pub struct Unanswered {
    flow: Rc<Flow>,
    cost_bytes: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    InTime,
    Late,
    GivenUp,
}

impl Unanswered {
    pub fn note_late(&mut self) {
        if self.state == State::InTime {
            self.state = State::Late;
            self.flow.late.set(self.flow.late.get() + 1);
            self.flow.hangs.set(true);
        }
    }

    /// Counts the request no longer. Its answer may still come, and then shows that the server lives.
    pub fn give_up(&mut self) {
        let state = std::mem::replace(&mut self.state, State::GivenUp);
        if state == State::GivenUp {
            return;
        }
        self.flow.unanswered_bytes.set(self.flow.unanswered_bytes.get() - self.cost_bytes);
        self.flow.late.set(self.flow.late.get() - usize::from(state == State::Late));
        self.flow.note_wanted();
        self.flow.eased.notify_waiters();
        self.flow.has_eased.notify_one();
    }

    pub fn note_answer(&self) {
        self.flow.hangs.set(false);
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Found room when it was woken; dropping it, after its request was sent, wakes the next.
pub struct Woken {
    flow: Option<Rc<Flow>>,
}

impl Woken {
    /// The room was taken meanwhile: no other is to be woken for it.
    pub fn keep(mut self) {
        self.flow = None;
    }
}

impl Drop for Woken {
    fn drop(&mut self) {
        self.flow.iter().for_each(|flow| flow.has_eased.notify_one());
    }
}
