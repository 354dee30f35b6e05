//! Commands that wait for each other, several at once: each begins when those before it are done, and none after a failure.

use std::sync::{Condvar, Mutex, PoisonError};

/// What is left to do.
struct Left {
    /// For each, how many it waits for.
    waits_for: Vec<usize>,
    ready: Vec<usize>,
    unfinished: usize,
    has_failed: bool,
}

/// Does the work of each item once, behind the items that it needs (by their numbers), on so many threads. Returns the first
/// error; what is under way then is finished.
pub fn run_in_order<E: Send>(
    needs: &[Vec<usize>],
    jobs: usize,
    work: impl Fn(usize) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let waits_for: Vec<usize> = needs.iter().map(Vec::len).collect();
    let ready = (0..needs.len()).rev().filter(|item| waits_for[*item] == 0).collect();
    let left = Mutex::new(Left { waits_for, ready, unfinished: needs.len(), has_failed: false });
    let (changed, error) = (Condvar::new(), Mutex::new(None));
    let lock = || left.lock().unwrap_or_else(PoisonError::into_inner);
    let next = || {
        let mut left = lock();
        loop {
            if left.has_failed || left.unfinished == 0 {
                return None;
            }
            if let Some(item) = left.ready.pop() {
                return Some(item);
            }
            left = changed.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
    };
    let take_turns = || {
        while let Some(item) = next() {
            let done = work(item);
            let mut left = lock();
            left.unfinished -= 1;
            match done {
                Ok(()) => left.release(needs, item),
                Err(first) => {
                    left.has_failed = true;
                    error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(first);
                }
            }
            changed.notify_all();
        }
    };
    std::thread::scope(|scope| {
        (1..jobs.min(needs.len())).for_each(|_| drop(scope.spawn(take_turns)));
        take_turns();
    });
    error.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

impl Left {
    fn release(&mut self, needs: &[Vec<usize>], done: usize) {
        for (item, needs) in needs.iter().enumerate() {
            let count = needs.iter().filter(|needed| **needed == done).count();
            if count > 0 {
                self.waits_for[item] -= count;
                if self.waits_for[item] == 0 {
                    self.ready.push(item);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_done_once_and_behind_what_it_needs() {
        let needs: Vec<Vec<usize>> =
            (0..200).map(|item| (0..item).filter(|one| item % (one + 2) == 0).collect()).collect();
        for jobs in [1, 4] {
            let done = Mutex::new(Vec::new());
            let work = |item: usize| {
                assert!(
                    needs[item].iter().all(|needed| done.lock().unwrap().contains(needed)),
                    "{item} came too early"
                );
                done.lock().unwrap().push(item);
                Ok::<_, ()>(())
            };
            run_in_order(&needs, jobs, work).unwrap();
            let mut done = done.into_inner().unwrap();
            done.sort();
            assert!(done.into_iter().eq(0..200));
        }
    }

    #[test]
    fn nothing_begins_after_a_failure() {
        let needs = vec![vec![], vec![0], vec![1]];
        let done = Mutex::new(Vec::new());
        let work = |item| {
            done.lock().unwrap().push(item);
            if item == 1 { Err("one") } else { Ok(()) }
        };
        assert_eq!(run_in_order(&needs, 3, work), Err("one"));
        assert_eq!(done.into_inner().unwrap(), [0, 1]);
    }
}
