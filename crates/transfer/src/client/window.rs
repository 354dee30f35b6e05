//! The window: the bounded memory for what was written and is not durable yet, shared by a whole process.
//!
//! Every byte a caller hands over is charged before it is copied and given back when its [`Payload`] is dropped,
//! which happens when the node says durable, or when the file is given up. Buffers are used again.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::waker::Waker;

/// A frame's payload is at most this long (bytes).
pub(super) const FRAME_BYTES: usize = 1 << 20;
/// Idle buffers kept for use again.
const SPARE_BUFFERS: usize = 16;

pub(super) struct Window {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
    waiting: AtomicUsize,
    gate: Mutex<()>,
    room: Condvar,
    spare: Mutex<Vec<Vec<u8>>>,
    /// Started writes wait for room too; the thread that copies them is woken.
    stalled: AtomicBool,
    copier: Arc<Waker>,
}

impl Window {
    pub fn new(limit_bytes: usize, copier: Arc<Waker>) -> Self {
        Window {
            limit_bytes,
            used_bytes: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            gate: Mutex::new(()),
            room: Condvar::new(),
            spare: Mutex::new(Vec::new()),
            stalled: AtomicBool::new(false),
            copier,
        }
    }

    /// Charges the bytes if there is room.
    fn try_reserve(&self, bytes: usize) -> bool {
        let charge = |used: usize| (used + bytes <= self.limit_bytes).then_some(used + bytes);
        self.used_bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, charge).is_ok()
    }

    fn release(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(self.gate.lock().expect("no holder of the gate panics"));
            self.room.notify_all();
        }
        if self.stalled.swap(false, Ordering::SeqCst) {
            self.copier.wake();
        }
    }

    /// Returns when room was made, or after `timeout`.
    pub fn wait_for_room(&self, timeout: Duration) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let gate = self.gate.lock().expect("no holder of the gate panics");
        if self.used_bytes.load(Ordering::SeqCst) + FRAME_BYTES > self.limit_bytes {
            drop(self.room.wait_timeout(gate, timeout));
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Notes that a started write found no room: the next release wakes the copying thread.
    pub fn stall(&self) {
        self.stalled.store(true, Ordering::SeqCst);
    }

    /// Returns whether no room was made since [`Window::stall`].
    pub fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::SeqCst)
    }

    /// Returns whether a writer waits for room.
    pub fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0 || self.is_stalled()
    }

    pub fn is_half_full(&self) -> bool {
        self.used_bytes.load(Ordering::Relaxed) > self.limit_bytes / 2
    }

    #[cfg(test)]
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::SeqCst)
    }

    fn buffer(&self) -> Vec<u8> {
        self.spare.lock().expect("pushing buffers does not panic").pop().unwrap_or_default()
    }

    fn put_back(&self, mut buffer: Vec<u8>) {
        let mut spare = self.spare.lock().expect("pushing buffers does not panic");
        if buffer.capacity() >= FRAME_BYTES && spare.len() < SPARE_BUFFERS {
            buffer.clear();
            spare.push(buffer);
        }
    }
}

/// Bytes copied from the program, charged to the window as long as they live.
pub(super) struct Payload {
    bytes: Vec<u8>,
    charged_bytes: usize,
    window: Arc<Window>,
}

impl Payload {
    pub fn new(window: &Arc<Window>) -> Self {
        Payload { bytes: window.buffer(), charged_bytes: 0, window: window.clone() }
    }

    /// Copies `source` behind what is there, charging `overhead_bytes` besides; false when the window is full.
    pub fn append(&mut self, source: &[u8], overhead_bytes: usize) -> bool {
        let charge = source.len() + overhead_bytes;
        if !self.window.try_reserve(charge) {
            return false;
        }
        self.charged_bytes += charge;
        if self.bytes.capacity() == 0 && source.len() > FRAME_BYTES / 16 {
            self.bytes.reserve_exact(FRAME_BYTES);
        }
        self.bytes.extend_from_slice(source);
        true
    }

    /// Returns the same bytes in a buffer of their size, when the present one is much larger.
    pub fn fit(mut self) -> Self {
        if self.bytes.len() < self.bytes.capacity() / 4 {
            let small = self.bytes.as_slice().to_vec();
            self.window.put_back(std::mem::replace(&mut self.bytes, small));
        }
        self
    }

    /// Makes a payload of bytes that another one is already charged for.
    pub fn uncharged(bytes: Vec<u8>, window: &Arc<Window>) -> Self {
        Payload { bytes, charged_bytes: 0, window: window.clone() }
    }

    pub fn window(&self) -> &Arc<Window> {
        &self.window
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.window.put_back(std::mem::take(&mut self.bytes));
        self.window.release(self.charged_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_makes_room_again() {
        let window = Arc::new(Window::new(1000, Arc::new(Waker::new().unwrap())));
        let mut first = Payload::new(&window);
        assert!(first.append(&[1; 700], 100));
        assert!(!first.append(&[1; 200], 1));
        assert_eq!(first.bytes().len(), 700);
        let first = first.fit();
        assert_eq!(window.used_bytes(), 800);
        drop(first);
        assert_eq!(window.used_bytes(), 0);
    }
}
