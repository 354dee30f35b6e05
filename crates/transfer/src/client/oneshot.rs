//! Passes answers from the I/O threads to callers that wait, or to a continuation.

use std::sync::{Arc, Condvar, Mutex};

use crate::message::Reply;
use crate::{Error, Result};

/// A node's answer; payload where one travelled.
pub(super) struct Answer {
    pub reply: Reply,
    pub payload: Vec<u8>,
}

/// Called once, in an I/O thread and without any lock held.
pub(super) type Completion = Done<Answer>;

/// Called once with the outcome.
pub(super) type Done<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// A cell that passes one value to one waiting thread.
pub(super) struct OneShot<T> {
    value: Mutex<Option<T>>,
    left: Condvar,
}

impl<T: Send + 'static> OneShot<T> {
    pub fn new() -> Arc<Self> {
        Arc::new(OneShot { value: Mutex::new(None), left: Condvar::new() })
    }

    pub fn leave(&self, value: T) {
        *self.value.lock().expect("leaving a value does not panic") = Some(value);
        self.left.notify_all();
    }

    pub fn wait(&self) -> T {
        let mut value = self.value.lock().expect("leaving a value does not panic");
        loop {
            match value.take() {
                Some(value) => return value,
                None => value = self.left.wait(value).expect("leaving a value does not panic"),
            }
        }
    }

    /// Returns a function that leaves the value here.
    pub fn sender(self: &Arc<Self>) -> Box<dyn FnOnce(T) + Send> {
        let oneshot = self.clone();
        Box::new(move |value| oneshot.leave(value))
    }
}

struct Gathering {
    left: usize,
    replies: Vec<Reply>,
    failure: Option<Error>,
    done: Option<Done<Vec<Reply>>>,
}

/// Returns `count` completions; `done` is called when all of them were, with the replies in no particular order or the
/// first failure.
pub(super) fn gather(count: usize, done: Done<Vec<Reply>>) -> Vec<Completion> {
    assert!(count > 0, "a session has stripe sets");
    let gathering = Gathering { left: count, replies: Vec::new(), failure: None, done: Some(done) };
    let gathering = Arc::new(Mutex::new(gathering));
    let completion = || -> Completion {
        let gathering = gathering.clone();
        Box::new(move |result| take_in(&gathering, result))
    };
    (0..count).map(|_| completion()).collect()
}

fn take_in(gathering: &Mutex<Gathering>, result: Result<Answer>) {
    let mut held = gathering.lock().expect("taking in a reply does not panic");
    match result {
        Ok(answer) => held.replies.push(answer.reply),
        Err(error) => {
            held.failure.get_or_insert(error);
        }
    }
    held.left -= 1;
    if held.left > 0 {
        return;
    }
    let outcome = match held.failure.take() {
        Some(error) => Err(error),
        None => Ok(std::mem::take(&mut held.replies)),
    };
    let done = held.done.take();
    drop(held);
    done.expect("the last completion comes once")(outcome);
}
