//! A bounded number of threads that work through a bounded queue: what takes long and must not hold up a connection.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use transfer::Replier;
use transfer::message::{Failure, FailureKind, Reply};

type Job = Box<dyn FnOnce() + Send>;

/// Jobs that wait for a thread. Each is some hundred bytes; a job of ten thousand processes syncs at once.
const MAX_QUEUED_JOBS: usize = 32_768;

pub(crate) struct WorkQueue {
    name: &'static str,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

impl WorkQueue {
    /// `name` is that of its threads, and what errors call its jobs.
    pub fn new(name: &'static str) -> Arc<Self> {
        Arc::new(WorkQueue { name, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Starts the threads; they end when the queue is closed and empty.
    pub fn start(self: &Arc<Self>, threads: usize) -> std::io::Result<Vec<JoinHandle<()>>> {
        let spawn = |number| {
            let queue = self.clone();
            std::thread::Builder::new().name(format!("{}-{number}", self.name)).spawn(move || queue.work())
        };
        (0..threads).map(spawn).collect()
    }

    /// False when there is no room for the job, which is dropped.
    #[must_use]
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> bool {
        let mut state = self.lock();
        if state.is_closed || state.jobs.len() >= MAX_QUEUED_JOBS {
            return false;
        }
        state.jobs.push_back(Box::new(job));
        drop(state);
        self.changed.notify_one();
        true
    }

    /// Answers a request with what a job of it returns.
    pub fn answer(&self, replier: Replier, work: impl FnOnce() -> Result<Reply, Failure> + Send + 'static) {
        // The replier waits outside of the job, so that it can answer when there is no room for that.
        let slot = Arc::new(Mutex::new(Some(replier)));
        let given = slot.clone();
        let job = move || {
            let Some(replier) = given.lock().expect("no panic holds it").take() else { return };
            match work() {
                Ok(reply) => replier.reply(reply),
                Err(failure) => replier.fail(failure),
            }
        };
        if !self.run(job)
            && let Some(replier) = slot.lock().expect("no panic holds it").take()
        {
            if self.lock().is_closed {
                // The node is being stopped; the one that is started next answers.
                return replier.withhold();
            }
            let text = format!("the node has {MAX_QUEUED_JOBS} {}s waiting; try again later", self.name);
            replier.fail(Failure::new(FailureKind::Unavailable, text));
        }
    }

    /// Takes no more; what waits is still done.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            match state.jobs.pop_front() {
                Some(job) => {
                    drop(state);
                    job();
                    state = self.lock();
                }
                None if state.is_closed => return,
                None => state = self.changed.wait(state).expect("no panic holds it"),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic holds it")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn many_jobs_are_done_by_few_threads_and_too_many_are_refused() {
        let queue = WorkQueue::new("test");
        let (release, held) = channel::<()>();
        let (tell, told) = channel();
        assert!(queue.run(move || held.recv_timeout(Duration::from_secs(10)).unwrap()));
        let threads = queue.start(1).unwrap();
        // The first job may or may not have left the queue yet.
        std::thread::sleep(Duration::from_millis(50));
        for number in 0..MAX_QUEUED_JOBS {
            let tell = tell.clone();
            assert!(queue.run(move || tell.send((number, std::thread::current().id())).unwrap()));
        }
        assert!(!queue.run(|| ()), "the queue has a bound");
        release.send(()).unwrap();
        let done: Vec<_> = (0..MAX_QUEUED_JOBS).map(|_| told.recv().unwrap()).collect();
        assert!(done.iter().enumerate().all(|(at, (number, thread))| at == *number && *thread == done[0].1));
        queue.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(!queue.run(|| ()));
    }
}
