//! The job: the command that is run, and the signals that are meant for it.
//!
//! A signal to end `thalweg run` is meant for the job: it is forwarded to the job, which is waited for. Signals of the
//! terminal (Ctrl-C) reach the job by themselves.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::signals::{ReceivedSignal, Signals};

/// Passes signals on while the job runs. Before and after that they end this process.
pub(super) struct Job {
    signals: Signals,
    running: Arc<Mutex<Option<Pid>>>,
}

impl Job {
    /// To be called before any thread is started. `clean_up` is done when a signal ends this process.
    pub fn prepare(clean_up: impl Fn() + Send + 'static) -> io::Result<Self> {
        let signals = Signals::block();
        let running = Arc::<Mutex<Option<Pid>>>::default();
        let target = running.clone();
        let pass_on = move || {
            loop {
                let came = signals.wait();
                match *locked(&target) {
                    Some(job) => send_on(came, job),
                    None => {
                        clean_up();
                        std::process::exit(128 + came.signal);
                    }
                }
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(pass_on)?;
        Ok(Job { signals, running })
    }

    /// Runs the command to its end.
    pub fn run(&self, command: &mut Command) -> io::Result<ExitStatus> {
        self.signals.unblock_for(command);
        let mut running = locked(&self.running);
        let mut child = command.spawn()?;
        let pid = pid_of(&child);
        *running = pid;
        drop(running);
        // It keeps its number until no more signals are sent to it.
        let ended = pid.map(|pid| waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT));
        *locked(&self.running) = None;
        ended.transpose()?;
        child.wait()
    }
}

fn send_on(came: ReceivedSignal, job: Pid) {
    if let (true, Some(signal)) = (came.was_sent, Signal::from_named_raw(came.signal)) {
        // Gone already: its status says how.
        let _ = kill_process(job, signal);
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

fn locked(running: &Mutex<Option<Pid>>) -> MutexGuard<'_, Option<Pid>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}
