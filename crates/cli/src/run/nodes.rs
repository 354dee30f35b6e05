//! A node of the job's own: started with it, restarted when it dies, stopped after it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error_code::fail;
use crate::failure::explained;
use crate::output::say;
use crate::shown::one_line;

/// A node that keeps dying is not restarted for ever.
const MAX_RESTARTS: usize = 100;
/// A node that has not said by then where it listens never will.
const START_TIMEOUT: Duration = Duration::from_secs(120);

pub(super) struct OwnNode {
    address: String,
    child: Arc<Mutex<Child>>,
    stopping: Arc<AtomicBool>,
    watcher: Option<JoinHandle<()>>,
}

impl OwnNode {
    /// Starts a node at this address; port 0 takes a free one.
    pub fn start(store: &OsStr, listen: &str, secret_file: &Path) -> anyhow::Result<Self> {
        let (child, address) = spawn(store, listen, secret_file)?;
        let child = Arc::new(Mutex::new(child));
        let stopping = Arc::new(AtomicBool::new(false));
        let watcher = {
            let (child, stopping) = (child.clone(), stopping.clone());
            let (store, address) = (store.to_owned(), address.clone());
            let secret_file = secret_file.to_owned();
            std::thread::spawn(move || watch(&child, &stopping, || spawn(&store, &address, &secret_file)))
        };
        Ok(OwnNode { address, child, stopping, watcher: Some(watcher) })
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Makes the node sync everything and end. To be called when the job's leftovers are known: being killed then costs
    /// the job nothing, and is only reported.
    pub fn stop(mut self) -> anyhow::Result<Option<Killed>> {
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
        let mut child = self.child.lock().expect("no panic holds it");
        terminate(&child);
        let status = child.wait().context("waiting for the node")?;
        if status.signal().is_some() {
            return Ok(Some(Killed(status)));
        }
        if !status.success() {
            fail!(NodeNotStarted: "the node ended with {status}; its messages stand above");
        }
        Ok(None)
    }
}

/// The node did not end by itself.
#[derive(Debug)]
pub(super) struct Killed(pub ExitStatus);

fn spawn(store: &OsStr, listen: &str, secret_file: &Path) -> anyhow::Result<(Child, String)> {
    let mut command = Command::new(std::env::current_exe().context("finding this command")?);
    command.arg("node").arg(store).args(["--listen", listen, "--json"]);
    command.arg("--secret-file").arg(secret_file);
    // In a group of its own: the terminal's signals to the job are not for the node, which the job needs to its end.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    end_with_us(&mut command);
    let mut child = command.spawn().context("starting a node")?;
    let store = store.to_string_lossy();
    let Some(line) = first_line(&mut child, START_TIMEOUT).context("reading the node's address")? else {
        child.kill().and_then(|()| child.wait()).context("ending the node")?;
        let seconds = START_TIMEOUT.as_secs();
        fail!(NodeNotStarted: "the node for {store} did not say within {seconds} s that it listens, and was killed; is its disk hanging?"
        )
    };
    let said: Option<serde_json::Value> = serde_json::from_str(&line).ok();
    match said.as_ref().and_then(|said| said["listening"].as_str()) {
        Some(address) => Ok((child, address.to_owned())),
        None => {
            let status = child.wait().context("waiting for the node")?;
            fail!(NodeNotStarted: "the node for {store} did not start ({status}); its message stands above")
        }
    }
}

/// Returns what the child prints first; none when it prints nothing for so long.
fn first_line(child: &mut Child, timeout: Duration) -> anyhow::Result<Option<String>> {
    let stdout = child.stdout.take().expect("it is piped");
    let time = Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos() as _ };
    if poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&time))? == 0 {
        return Ok(None);
    }
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    Ok(Some(line))
}

/// However this process ends, its child gets a signal to end too. (The thread that starts it lives as long as the
/// process.)
pub(super) fn end_with_us(command: &mut Command) {
    let ask = || Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?);
    // SAFETY: between fork and exec only a system call is made.
    unsafe { command.pre_exec(ask) };
}

/// Starts the node again, on the same port, when it dies before its time: clients send again what was not durable.
fn watch(child: &Mutex<Child>, stopping: &AtomicBool, start: impl Fn() -> anyhow::Result<(Child, String)>) {
    let mut restarts = 0;
    while !stopping.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(50));
        let mut child = child.lock().expect("no panic holds it");
        let Ok(Some(status)) = child.try_wait() else { continue };
        if stopping.load(Ordering::SeqCst) || restarts == MAX_RESTARTS {
            return;
        }
        restarts += 1;
        say(format_args!("thalweg run: the node died ({status}); starting it again"));
        match start() {
            Ok((again, _)) => *child = again,
            Err(error) => say(format_args!("thalweg run: {}", one_line(&explained(&error)))),
        }
    }
}

/// Also a stopped node: it goes on, to store its received pieces, and ends.
fn terminate(child: &Child) {
    if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
        for signal in [rustix::process::Signal::TERM, rustix::process::Signal::CONT] {
            // Gone already: its status says how.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(mut child: Child, is_killed: bool) -> anyhow::Result<Option<Killed>> {
        if is_killed {
            child.kill().unwrap();
        } else {
            child.wait().unwrap();
        }
        let (child, stopping) = (Arc::new(Mutex::new(child)), Arc::default());
        OwnNode { address: String::new(), child, stopping, watcher: None }.stop()
    }

    #[test]
    fn a_node_that_says_nothing_is_given_up_and_one_that_ends_is_not_waited_for() {
        let says = |command: &str, timeout_ms| {
            let mut child = Command::new("sh").args(["-c", command]).stdout(Stdio::piped()).spawn().unwrap();
            let line = first_line(&mut child, Duration::from_millis(timeout_ms)).unwrap();
            child.kill().and_then(|()| child.wait()).unwrap();
            line
        };
        assert_eq!(says("exec sleep 60", 50), None);
        assert_eq!(says("echo here", 60_000).as_deref(), Some("here\n"));
        assert_eq!(says("exit 3", 60_000).as_deref(), Some(""));
    }

    #[test]
    fn a_node_that_is_killed_at_the_end_differs_from_one_that_failed() {
        let start = |command: &str| Command::new("sh").args(["-c", command]).spawn().unwrap();
        assert!(stop(start("exec sleep 60"), true).unwrap().is_some());
        assert!(stop(start("exit 0"), false).unwrap().is_none());
        assert!(stop(start("exit 1"), false).is_err());
    }
}
