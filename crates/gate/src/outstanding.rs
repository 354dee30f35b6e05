//! Requests that were sent to a server and have no answer yet, for those that look: how many, and since when.
//!
//! They count until they are answered or their connection ends, also when they hold no grant any more: a server that
//! does not answer would otherwise look idle.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use crate::applications::Application;

/// Of one application, at all servers of the gate.
#[derive(Default)]
pub struct Outstanding {
    /// By number, and so by time.
    sent: RefCell<BTreeMap<u64, Instant>>,
    last: Cell<u64>,
}

impl Outstanding {
    pub fn count(&self) -> u64 {
        self.sent.borrow().len() as u64
    }

    pub fn oldest_age(&self) -> Duration {
        self.sent.borrow().first_key_value().map_or(Duration::ZERO, |(_, sent)| sent.elapsed())
    }
}

/// Counts as outstanding until it is dropped.
pub struct SentRequest {
    application: Rc<Application>,
    number: u64,
}

impl SentRequest {
    pub fn of(application: &Rc<Application>) -> Self {
        let outstanding = &application.counters.outstanding;
        let number = outstanding.last.get() + 1;
        outstanding.last.set(number);
        outstanding.sent.borrow_mut().insert(number, Instant::now());
        SentRequest { application: application.clone(), number }
    }
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        self.application.counters.outstanding.sent.borrow_mut().remove(&self.number);
    }
}
