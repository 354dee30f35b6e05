//! The stream that each stripe of a session goes over.
//!
//! A stripe is given to the stream that is expected to bring it first (`policy::streams`), and stays there until all of
//! it that was written is durable: what is written over it must not overtake it, not even when both are sent again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use policy::streams::{StreamPace, first};

use super::send_queue::SendQueue;

/// Stripes in the map before those that are released are looked for.
const MIN_SWEEP: usize = 64;

pub(super) struct StripeStreams {
    /// Streams of stripe set 0, then of stripe set 1, and so on.
    pub queues: Vec<Arc<SendQueue>>,
    pub stripe_bytes: u64,
    streams: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    stripes: HashMap<u64, Stripe>,
    sweep_at: usize,
}

struct Stripe {
    queue: usize,
    /// Writers that are copying into it.
    writers: usize,
    /// The highest sequence written so far.
    sequence: u64,
}

impl StripeStreams {
    pub fn new(queues: Vec<Arc<SendQueue>>, streams: usize, stripe_bytes: u64) -> Self {
        StripeStreams { queues, stripe_bytes, streams, held: Mutex::default() }
    }

    pub fn streams(&self) -> usize {
        self.streams
    }

    pub fn stripe_sets(&self) -> usize {
        self.queues.len() / self.streams
    }

    /// Calls `copy` with the send queue for bytes at `offset`, all of one stripe.
    pub fn write<R>(&self, offset: u64, copy: impl FnOnce(&Arc<SendQueue>) -> R) -> R {
        let stripe = offset / self.stripe_bytes;
        if self.streams == 1 {
            return copy(&self.queues[self.first_queue(stripe)]);
        }
        let queue = self.begin(stripe);
        let copied = copy(&self.queues[queue]);
        self.end(stripe, queue);
        copied
    }

    /// Returns the index of the send queue that a read at `offset` goes to: behind what this process wrote there. Requests for
    /// a stripe that it did not write, of this many bytes, rotate over the streams, so that one read uses several.
    pub fn read(&self, offset: u64, request_bytes: u64) -> usize {
        let stripe = offset / self.stripe_bytes;
        let held = if self.streams == 1 { None } else { self.held().stripes.get(&stripe).map(|stripe| stripe.queue) };
        let offset_in_set = stripe / self.stripe_sets() as u64 * self.stripe_bytes + offset % self.stripe_bytes;
        let rotating = (offset_in_set / request_bytes % self.streams as u64) as usize;
        held.unwrap_or_else(|| self.first_queue(stripe) + rotating)
    }

    /// Returns the first send queue of the stripe's set: stripes rotate over the stripe sets.
    fn first_queue(&self, stripe: u64) -> usize {
        (stripe % self.stripe_sets() as u64) as usize * self.streams
    }

    fn begin(&self, stripe: u64) -> usize {
        let mut held = self.held();
        if let Some(known) = held.stripes.get_mut(&stripe)
            && !known.is_released(&self.queues)
        {
            known.writers += 1;
            return known.queue;
        }
        held.sweep(&self.queues);
        let queue = self.choose(stripe);
        held.stripes.insert(stripe, Stripe { queue, writers: 1, sequence: 0 });
        queue
    }

    fn end(&self, stripe: u64, queue: usize) {
        let sequence = self.queues[queue].highest_sequence();
        let mut held = self.held();
        let stripe = held.stripes.get_mut(&stripe).expect("a stripe that is being written is kept");
        stripe.writers -= 1;
        stripe.sequence = stripe.sequence.max(sequence);
    }

    fn choose(&self, stripe: u64) -> usize {
        let begin = self.first_queue(stripe);
        let paces: Vec<StreamPace> =
            self.queues[begin..begin + self.streams].iter().map(|queue| queue.pace()).collect();
        begin + first(&paces, self.stripe_bytes)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("nothing panics while it holds the stripes' routes")
    }
}

impl Held {
    /// Forgets stripes that are released, now and then: those that are not are bounded by the window.
    fn sweep(&mut self, queues: &[Arc<SendQueue>]) {
        if self.stripes.len() >= self.sweep_at.max(MIN_SWEEP) {
            self.stripes.retain(|_, stripe| !stripe.is_released(queues));
            self.sweep_at = 2 * self.stripes.len();
        }
    }
}

impl Stripe {
    fn is_released(&self, queues: &[Arc<SendQueue>]) -> bool {
        self.writers == 0 && queues[self.queue].has_released(self.sequence)
    }
}
