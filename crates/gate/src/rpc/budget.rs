//! The memory that calls may hold while they wait: one budget for all connections, and a window for each.
//!
//! A connection may hold as much as is still free (the dynamic thresholds of Choudhury and Hahne, 1998): a few busy ones
//! use nearly all of it, many share it evenly, and one that comes later finds room. Without that, the writes of one
//! application would keep those of another from even being queued. Buffers are used again without being cleared.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::sync::Notify;

/// What one connection may hold at most (bytes), unless a single call is longer.
pub const WINDOW_BYTES: usize = 16 << 20;
/// Shorter calls are not counted; [`super::connection::MAX_QUEUED_CALLS`] bounds them.
pub const COUNTED_FROM_BYTES: usize = 4 << 10;
/// What is kept of buffers not in use (bytes).
const KEPT_BYTES: usize = 4 << 20;

pub struct Budget {
    limit_bytes: Cell<usize>,
    used_bytes: Cell<usize>,
    released: Notify,
    spare: RefCell<Vec<Vec<u8>>>,
    spare_bytes: Cell<usize>,
}

impl Budget {
    pub fn new(limit_bytes: usize) -> Rc<Self> {
        Rc::new(Budget {
            limit_bytes: Cell::new(limit_bytes),
            used_bytes: Cell::new(0),
            released: Notify::new(),
            spare: RefCell::default(),
            spare_bytes: Cell::new(0),
        })
    }

    /// From now on; what is held stays.
    pub fn set_limit(&self, limit_bytes: usize) {
        self.limit_bytes.set(limit_bytes);
        self.released.notify_waiters();
    }

    #[cfg(test)]
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.get()
    }

    fn has_room(&self, held_bytes: usize, bytes: usize) -> bool {
        let free_bytes = self.limit_bytes.get().saturating_sub(self.used_bytes.get());
        bytes <= free_bytes && (held_bytes == 0 || held_bytes + bytes <= free_bytes.min(WINDOW_BYTES))
    }

    /// A buffer of at least this length whose first bytes are not cleared.
    fn buffer(&self, bytes: usize) -> Vec<u8> {
        let mut spare = self.spare.borrow_mut();
        match spare.iter().position(|buffer| buffer.len() >= bytes && buffer.len() / 2 <= bytes) {
            Some(at) => {
                let buffer = spare.swap_remove(at);
                self.spare_bytes.set(self.spare_bytes.get() - buffer.len());
                buffer
            }
            None => vec![0; bytes],
        }
    }

    fn keep(&self, buffer: Vec<u8>) {
        if self.spare_bytes.get() + buffer.len() <= KEPT_BYTES {
            self.spare_bytes.set(self.spare_bytes.get() + buffer.len());
            self.spare.borrow_mut().push(buffer);
        }
    }
}

/// One connection's part of the budget.
pub struct Window {
    budget: Rc<Budget>,
    held_bytes: Cell<usize>,
}

impl Window {
    pub fn new(budget: Rc<Budget>) -> Rc<Self> {
        Rc::new(Window { budget, held_bytes: Cell::new(0) })
    }

    /// The most that one call can ever hold (bytes).
    pub fn limit_bytes(&self) -> usize {
        self.budget.limit_bytes.get()
    }

    /// Room for a long call: waits until there is some. Never comes when the call is longer than the whole budget.
    pub async fn hold(self: &Rc<Self>, bytes: usize) -> Held {
        loop {
            let released = self.budget.released.notified();
            if self.budget.has_room(self.held_bytes.get(), bytes) {
                self.held_bytes.set(self.held_bytes.get() + bytes);
                self.budget.used_bytes.set(self.budget.used_bytes.get() + bytes);
                let buffer = self.budget.buffer(bytes);
                return Held { buffer, bytes, counted_bytes: bytes, window: Some(self.clone()) };
            }
            released.await;
        }
    }
}

/// The bytes of one call, on their way from the client to the server. Gives its room back when dropped.
pub struct Held {
    buffer: Vec<u8>,
    bytes: usize,
    counted_bytes: usize,
    window: Option<Rc<Window>>,
}

impl Held {
    /// A short call, which is not counted.
    pub fn short(bytes: &[u8]) -> Self {
        Held { buffer: bytes.to_vec(), bytes: bytes.len(), counted_bytes: 0, window: None }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.bytes]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.bytes]
    }

    /// Keeps only so many of its bytes; its room stays as it was.
    pub fn shorten(&mut self, bytes: usize) {
        self.bytes = self.bytes.min(bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(window) = self.window.take() else { return };
        let budget = &window.budget;
        window.held_bytes.set(window.held_bytes.get() - self.counted_bytes);
        budget.used_bytes.set(budget.used_bytes.get() - self.counted_bytes);
        budget.keep(std::mem::take(&mut self.buffer));
        budget.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    /// What holding gives without waiting.
    fn hold(window: &Rc<Window>, bytes: usize) -> Option<Held> {
        let mut holding = Box::pin(window.hold(bytes));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match holding.as_mut().poll(&mut context) {
            Poll::Ready(held) => Some(held),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_latecomer_finds_room_beside_one_that_takes_all_it_can() {
        let budget = Budget::new(8 << 20);
        let (greedy, late) = (Window::new(budget.clone()), Window::new(budget.clone()));
        let all: Vec<Held> = std::iter::from_fn(|| hold(&greedy, 1 << 20)).collect();
        assert_eq!(all.len(), 4, "half of the budget, and the other half is free");
        assert!(hold(&late, 1 << 20).is_some());
        drop(all);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn a_window_holds_so_much_and_one_longer_call_alone() {
        let window = Window::new(Budget::new(64 << 20));
        let long = hold(&window, WINDOW_BYTES + 1).unwrap();
        assert!(hold(&window, COUNTED_FROM_BYTES).is_none());
        drop(long);
        let all: Vec<Held> = std::iter::from_fn(|| hold(&window, 1 << 20)).collect();
        assert_eq!(all.len(), WINDOW_BYTES >> 20);
    }

    #[test]
    fn the_budget_is_never_passed_and_a_release_wakes_who_waits() {
        let budget = Budget::new(3 << 20);
        let windows: Vec<_> = (0..4).map(|_| Window::new(budget.clone())).collect();
        let mut held: Vec<Option<Held>> = windows.iter().map(|window| hold(window, 1 << 20)).collect();
        assert!(held[2].is_some() && held[3].is_none());
        let mut waiting = Box::pin(windows[3].hold(1 << 20));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        held[0] = None;
        assert!(waiting.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn buffers_are_used_again_and_few_are_kept() {
        let budget = Budget::new(64 << 20);
        let window = Window::new(budget.clone());
        let mut held = hold(&window, 1 << 20).unwrap();
        held.bytes_mut().fill(7);
        let place = held.bytes().as_ptr();
        drop(held);
        assert_eq!(hold(&window, (1 << 20) - 9).unwrap().bytes().as_ptr(), place);
        drop((0..8).map(|_| hold(&window, 1 << 20).unwrap()).collect::<Vec<_>>());
        assert!(budget.spare_bytes.get() <= KEPT_BYTES);
    }
}
