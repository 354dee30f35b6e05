//! Where this process's segments are reduced: the policy's decision, fed with what its frames cost.
//!
//! All send queues and I/O threads of a process share one, since they share its cores and its link. The lock is held for
//! numbers only.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use format::{Block, Settings};
use policy::reduction::{Adaptive, End, Receipt};

use super::frame::Frame;
use super::oneshot::Answer;
use super::reduce::{Reducer, Whole};
use super::window::FRAME_BYTES;
use crate::message::Reply;

/// Smaller frames say more of round trips than of the link.
const MIN_MEASURED_BYTES: u64 = FRAME_BYTES as u64 / 4;

/// How a client reduces: the means, and the decision when to use them.
#[derive(Clone)]
pub struct AdaptiveReducer {
    pub reducer: Arc<dyn Reducer>,
    pub policy: PolicySource,
}

/// The policy before the first frame.
#[derive(Clone)]
pub enum PolicySource {
    Known(Box<Adaptive>),
    /// Returned, once, when the first file is attached: what it needs is measured while the file is opened.
    Measured(Arc<dyn Fn() -> Adaptive + Send + Sync>),
}

impl PolicySource {
    /// Returns whether frames can ever be reduced at the client.
    pub(super) fn may_use_client(&self) -> bool {
        match self {
            PolicySource::Known(policy) => policy.may_use_client(),
            PolicySource::Measured(_) => true,
        }
    }

    fn get(&self) -> Adaptive {
        match self {
            PolicySource::Known(policy) => Adaptive::clone(policy),
            PolicySource::Measured(measured) => measured(),
        }
    }
}

/// The [`AdaptiveReducer`] of a running process.
pub(super) struct ProcessReduction {
    reducer: Arc<dyn Reducer>,
    initial: PolicySource,
    policy: OnceLock<Mutex<Adaptive>>,
    begun: Instant,
}

impl ProcessReduction {
    pub fn new(from: AdaptiveReducer) -> Self {
        let AdaptiveReducer { reducer, policy: initial } = from;
        ProcessReduction { reducer, initial, policy: OnceLock::new(), begun: Instant::now() }
    }

    /// Waits for what the policy needs to know before the first frame.
    pub fn begin(&self) {
        drop(self.policy());
    }

    /// Takes the model of the store of a node, as it answered for it.
    pub fn use_model(&self, answer: crate::Result<Answer>) {
        match answer {
            Ok(Answer { reply: Reply::Model {}, payload }) if !payload.is_empty() => self.reducer.use_model(&payload),
            // Without the store's model files are as well stored, if not as well encoded.
            _ => {}
        }
    }

    /// Returns whether the next frame's whole segments are reduced here; a frame asks once.
    pub fn takes_next_frame(&self) -> bool {
        self.policy().next_frame(seconds(self.begun.elapsed())) == End::Client
    }

    /// Fingerprints the segments of a frame, once.
    pub fn fingerprint(&self, whole: &Whole, settings: &Settings) {
        let begun = Instant::now();
        if whole.fingerprint(&*self.reducer, settings) {
            self.policy().fingerprinted(whole.bytes(), seconds(begun.elapsed()));
        }
    }

    /// Returns the blocks of the segments that a node wants.
    pub fn encode(&self, whole: &Whole, wanted: &[u32], settings: &Settings) -> Vec<Block> {
        let begun = Instant::now();
        let blocks = whole.blocks(wanted, &*self.reducer, settings);
        let bytes = |of: fn(&Block) -> u32| blocks.iter().map(|block| u64::from(of(block))).sum::<u64>();
        let (raw_bytes, encoded_bytes) =
            (bytes(|block| block.header.raw_bytes), bytes(|block| block.header.stored_bytes));
        whole.note_sent(encoded_bytes);
        if raw_bytes > 0 {
            self.policy().encoded(raw_bytes, encoded_bytes, seconds(begun.elapsed()));
        }
        blocks
    }

    /// Notes how many of a frame's segments a node is missing.
    pub fn offered(&self, whole: &Whole, missing: usize) {
        self.policy().offered(whole.segments() as u64, missing as u64);
    }

    /// Notes a frame that a node has received for the first time, at `now`.
    pub fn received(&self, frame: &Frame, is_link_busy: bool, now: Instant) {
        let bytes = frame.bytes();
        let (end, wire_bytes) = match frame.offered() {
            None => (End::Node, bytes),
            Some(whole) => (End::Client, whole.sent_bytes()),
        };
        if bytes >= MIN_MEASURED_BYTES {
            let receipt = Receipt { end, bytes, wire_bytes, is_link_busy };
            self.policy().received(&receipt, seconds(now.saturating_duration_since(self.begun)));
        }
    }

    fn policy(&self) -> MutexGuard<'_, Adaptive> {
        let policy = self.policy.get_or_init(|| Mutex::new(self.initial.get()));
        policy.lock().expect("the policy does not panic")
    }
}

/// Above zero: the policy divides by it.
fn seconds(time: Duration) -> f64 {
    time.as_secs_f64().max(1e-9)
}
