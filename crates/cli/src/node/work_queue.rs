//! A bounded number of threads that work through a bounded queue: jobs that take long and must not hold up a
//! connection.
//!
//! Connections are served round robin, one job each: however many jobs one connection has waiting, another's next job
//! waits for one of them. Where there is no room, the one with the most jobs loses its last.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use transfer::Replier;
use transfer::message::{Failure, FailureKind, Reply};

/// Jobs that wait for a thread. Each is some hundred bytes; a job of ten thousand processes syncs at once.
const MAX_QUEUED_JOBS: usize = 32_768;

/// The owner of a job: a connection's own number, or [`OF_NODE`].
pub(crate) type Owner = u64;
/// The owner of the node's own jobs.
pub(crate) const OF_NODE: Owner = 0;

struct Job {
    work: Box<dyn FnOnce() + Send>,
    refuse: Box<dyn FnOnce(Refusal) + Send>,
}

#[derive(Clone, Copy)]
enum Refusal {
    NoRoom,
    Closed,
}

pub(crate) struct WorkQueue {
    name: &'static str,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: HashMap<Owner, VecDeque<Job>>,
    /// Owners with jobs, each once.
    turns: VecDeque<Owner>,
    count: usize,
    is_closed: bool,
}

impl WorkQueue {
    /// `name` is that of its threads, and of its jobs in errors.
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

    /// Calls `refused` instead when there is no room for the job.
    pub fn run(&self, owner: Owner, work: impl FnOnce() + Send + 'static, refused: impl FnOnce() + Send + 'static) {
        self.take(owner, Job { work: Box::new(work), refuse: Box::new(|_| refused()) });
    }

    /// Answers a request with the result of a job of it.
    pub fn answer(
        &self,
        owner: Owner,
        replier: Replier,
        work: impl FnOnce() -> Result<Reply, Failure> + Send + 'static,
    ) {
        // The replier waits outside of the job, so that it can answer when there is no room for that.
        let entry = Arc::new(Mutex::new(Some(replier)));
        let (to_work, name) = (entry.clone(), self.name);
        let work = move || {
            let Some(replier) = to_work.lock().expect("no panic holds it").take() else { return };
            match work() {
                Ok(reply) => replier.reply(reply),
                Err(failure) => replier.fail(failure),
            }
        };
        let refuse = move |refusal| {
            let Some(replier) = entry.lock().expect("no panic holds it").take() else { return };
            match refusal {
                // The node is being stopped; the one that is started next answers.
                Refusal::Closed => replier.withhold(),
                Refusal::NoRoom => {
                    let text = format!("the node has {MAX_QUEUED_JOBS} {name}s waiting; try again later");
                    replier.fail(Failure::new(FailureKind::Unavailable, text));
                }
            }
        };
        self.take(owner, Job { work: Box::new(work), refuse: Box::new(refuse) });
    }

    fn take(&self, owner: Owner, job: Job) {
        let mut state = self.lock();
        let refused = state.push(owner, job);
        drop(state);
        self.changed.notify_one();
        if let Some((job, refusal)) = refused {
            (job.refuse)(refusal);
        }
    }

    /// Jobs that wait for a thread.
    pub fn len(&self) -> usize {
        self.lock().count
    }

    /// Takes no more; waiting jobs are still done.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            match state.pop() {
                Some(job) => {
                    drop(state);
                    (job.work)();
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

impl State {
    /// Returns the job that is refused, if one is.
    fn push(&mut self, owner: Owner, job: Job) -> Option<(Job, Refusal)> {
        if self.is_closed {
            return Some((job, Refusal::Closed));
        }
        let mut dropped = None;
        if self.count >= MAX_QUEUED_JOBS {
            let own = self.jobs.get(&owner).map_or(0, VecDeque::len);
            let longest = self.jobs.values_mut().max_by_key(|jobs| jobs.len()).filter(|jobs| jobs.len() > own + 1);
            let Some(last) = longest.and_then(VecDeque::pop_back) else { return Some((job, Refusal::NoRoom)) };
            self.count -= 1;
            dropped = Some((last, Refusal::NoRoom));
        }
        let jobs = self.jobs.entry(owner).or_default();
        if jobs.is_empty() {
            self.turns.push_back(owner);
        }
        jobs.push_back(job);
        self.count += 1;
        dropped
    }

    fn pop(&mut self) -> Option<Job> {
        let owner = self.turns.pop_front()?;
        let jobs = self.jobs.get_mut(&owner).expect("who has a turn has jobs");
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.jobs.remove(&owner);
        } else {
            self.turns.push_back(owner);
        }
        self.count -= usize::from(job.is_some());
        job
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    /// A queue whose only thread is busy until the sender is used.
    fn busy_queue() -> (Arc<WorkQueue>, std::sync::mpsc::Sender<()>, Vec<JoinHandle<()>>) {
        let queue = WorkQueue::new("test");
        let (release, held) = channel::<()>();
        let (begun, has_begun) = channel();
        let work = move || {
            begun.send(()).unwrap();
            held.recv_timeout(Duration::from_secs(60)).unwrap();
        };
        queue.run(OF_NODE, work, || panic!("there is room"));
        let threads = queue.start(1).unwrap();
        has_begun.recv().unwrap();
        (queue, release, threads)
    }

    fn note(refused: &AtomicUsize) {
        refused.fetch_add(1, Ordering::SeqCst);
    }

    fn end(queue: &WorkQueue, threads: Vec<JoinHandle<()>>) {
        queue.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn many_jobs_are_done_by_few_threads_and_too_many_are_refused() {
        let (queue, release, threads) = busy_queue();
        let (sender, done_receiver) = channel();
        let refused = Arc::new(AtomicUsize::new(0));
        for number in 0..MAX_QUEUED_JOBS + 5 {
            let (sender, refused) = (sender.clone(), refused.clone());
            let work = move || sender.send((number, std::thread::current().id())).unwrap();
            queue.run(1, work, move || note(&refused));
        }
        assert_eq!(refused.load(Ordering::SeqCst), 5, "the queue has a bound");
        release.send(()).unwrap();
        let done: Vec<_> = (0..MAX_QUEUED_JOBS).map(|_| done_receiver.recv().unwrap()).collect();
        assert!(done.iter().enumerate().all(|(at, (number, thread))| at == *number && *thread == done[0].1));
        end(&queue, threads);
        let closed = refused.clone();
        queue.run(1, || panic!("it is closed"), move || note(&closed));
        assert_eq!(refused.load(Ordering::SeqCst), 6);
    }

    #[test]
    fn one_that_fills_the_queue_keeps_no_other_out_and_has_one_job_done_before_the_other_s() {
        let (queue, release, threads) = busy_queue();
        let (sender, done_receiver) = channel();
        let refused = Arc::new(AtomicUsize::new(0));
        for owner in std::iter::repeat_n(1, MAX_QUEUED_JOBS).chain([2, 2, 3]) {
            let (sender, refused) = (sender.clone(), refused.clone());
            let refuse = move || {
                assert_eq!(owner, 1, "the one with the most loses");
                note(&refused);
            };
            queue.run(owner, move || sender.send(owner).unwrap(), refuse);
        }
        assert_eq!(refused.load(Ordering::SeqCst), 3);
        release.send(()).unwrap();
        assert_eq!(done_receiver.iter().take(7).collect::<Vec<_>>(), [1, 2, 3, 1, 2, 1, 1]);
        end(&queue, threads);
    }
}
