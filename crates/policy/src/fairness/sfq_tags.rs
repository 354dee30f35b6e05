//! Start and finish tags of start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996), per application.
//!
//! S = max(V, F of the one before), F = S + cost / weight; the least S is served next and V is then that S; when the
//! server is idle V is the largest F served. The tag of a queue's head is enough: while a flow is backlogged its F is
//! never behind V, so S = F for all but the first.

use super::heap::Heap;

/// Tags of all applications; those with something queued are in a heap by start tag, ties in order of arrival.
pub struct SfqTags {
    finish: Vec<f64>,
    queued: Heap<(f64, u64)>,
    virtual_time: f64,
    largest_finish: f64,
    arrivals: u64,
}

impl SfqTags {
    pub fn new() -> Self {
        SfqTags { finish: Vec::new(), queued: Heap::new(), virtual_time: 0.0, largest_finish: 0.0, arrivals: 0 }
    }

    /// A new application owes nothing.
    pub fn add(&mut self, application: u32) {
        if self.finish.len() <= application as usize {
            self.finish.resize(application as usize + 1, 0.0);
        }
        self.finish[application as usize] = 0.0;
    }

    /// Notes that something is queued where nothing was.
    pub fn arrive(&mut self, application: u32) {
        let start = self.finish[application as usize].max(self.virtual_time);
        self.queue_at(application, start);
    }

    /// Notes that nothing is queued any more, and nothing was started.
    pub fn leave(&mut self, application: u32) {
        self.queued.remove(application);
    }

    /// Returns the application with the least start tag.
    pub fn first(&self) -> Option<u32> {
        self.queued.first().map(|(_, application)| application)
    }

    /// The first application starts a request of this virtual length; `more` when it has others queued.
    pub fn start(&mut self, virtual_length: f64, more: bool) {
        let Some(((start, _), application)) = self.queued.first() else { return };
        self.virtual_time = start;
        let finish = start + virtual_length;
        self.finish[application as usize] = finish;
        self.largest_finish = self.largest_finish.max(finish);
        if more {
            self.queue_at(application, finish);
        } else {
            self.queued.remove(application);
        }
    }

    /// DSFQ (Wang and Merchant, FAST 2007) when positive: service received elsewhere delays the next start tag. When
    /// negative: charges not served are given back, but never into the past.
    pub fn shift(&mut self, application: u32, virtual_length: f64) {
        let finish = &mut self.finish[application as usize];
        *finish += virtual_length;
        let start = finish.max(self.virtual_time);
        if self.queued.contains(application) {
            self.queue_at(application, start);
        }
    }

    /// Notes that nothing is queued nor in service.
    pub fn idle(&mut self) {
        self.virtual_time = self.virtual_time.max(self.largest_finish);
    }

    fn queue_at(&mut self, application: u32, start: f64) {
        self.arrivals += 1;
        self.queued.set(application, (start, self.arrivals));
    }
}
