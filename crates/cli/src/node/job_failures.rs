//! Files that jobs could not store, as their processes reported them, until `thalweg run` asks at the job's end: a program
//! may ignore what open and close return, and its session may be gone by then.
//!
//! A file that a job stores or deletes afterwards is no failure any more. Kept in memory, and bounded: the oldest go
//! first.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use format::StorePath;
use transfer::message::MAX_JOB_FAILURES;

/// Of all jobs together; the wire bounds each to some 6 KiB.
const MAX_FAILURES: usize = 4096;

struct JobFailure {
    job: String,
    path: StorePath,
    why: String,
}

#[derive(Default)]
pub(crate) struct JobFailures {
    failures: Mutex<VecDeque<JobFailure>>,
}

impl JobFailures {
    /// Processes without a job are not recorded: no job would ask for them.
    pub fn add(&self, job: &str, path: StorePath, why: String) {
        if job.is_empty() {
            return;
        }
        let mut failures = self.failures();
        failures.retain(|known| known.job != job || known.path != path);
        if failures.iter().filter(|known| known.job == job).count() >= MAX_JOB_FAILURES {
            return;
        }
        if failures.len() >= MAX_FAILURES {
            failures.pop_front();
        }
        failures.push_back(JobFailure { job: job.to_owned(), path, why });
    }

    /// Notes that the job has stored or deleted the file after all.
    pub fn remove(&self, job: &str, path: &StorePath) {
        self.failures().retain(|known| known.job != job || known.path != *path);
    }

    pub fn has_any(&self, job: &str) -> bool {
        self.failures().iter().any(|known| known.job == job)
    }

    /// In the order of their coming.
    pub fn of_job(&self, job: &str) -> Vec<(StorePath, String)> {
        let failures = self.failures();
        failures.iter().filter(|known| known.job == job).map(|known| (known.path.clone(), known.why.clone())).collect()
    }

    fn failures(&self) -> MutexGuard<'_, VecDeque<JobFailure>> {
        self.failures.lock().expect("no panic holds it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> StorePath {
        StorePath::new(name.as_bytes()).unwrap()
    }

    #[test]
    fn a_job_gets_its_failures_until_it_has_stored_the_files() {
        let failures = JobFailures::default();
        failures.add("a", path("x"), "full".into());
        failures.add("b", path("x"), "gone".into());
        failures.add("a", path("y"), "full".into());
        failures.add("a", path("x"), "still full".into());
        failures.add("", path("z"), "no job asks".into());
        assert_eq!(failures.of_job("a"), [(path("y"), "full".into()), (path("x"), "still full".into())]);
        failures.remove("a", &path("x"));
        assert_eq!(failures.of_job("a"), [(path("y"), "full".into())]);
        assert!(failures.has_any("b") && !failures.has_any(""));
    }

    #[test]
    fn failures_are_bounded_for_a_job_and_in_all() {
        let failures = JobFailures::default();
        for number in 0..MAX_JOB_FAILURES + 9 {
            failures.add("a", path(&number.to_string()), "full".into());
        }
        assert_eq!(failures.of_job("a").len(), MAX_JOB_FAILURES);
        for number in 0..MAX_FAILURES {
            failures.add(&format!("job {number}"), path("x"), "full".into());
        }
        assert_eq!(failures.failures().len(), MAX_FAILURES);
        assert!(!failures.has_any("a"), "the oldest go first");
    }
}
