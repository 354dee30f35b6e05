//! A node of a test's own.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::runner::{Store, command};

/// Listens on a free port; ends with the test.
pub struct Node {
    process: Child,
    pub address: String,
    /// HOST:PORT of its pages, of a node with `--metrics`.
    pub metrics: Option<String>,
}

impl Node {
    pub fn of(store: &Store) -> Self {
        Self::with(store, &[])
    }

    /// With options, which may name another address.
    pub fn with(store: &Store, options: &[&str]) -> Self {
        Self::prepared(store, options, |_| ())
    }

    /// A node that may have so many files open, and no more.
    pub fn with_open_files(store: &Store, most: u64) -> Self {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        Self::prepared(store, &[], |command| {
            let set = move || match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            };
            // SAFETY: between fork and exec only a system call is made.
            unsafe { command.pre_exec(set) };
        })
    }

    /// The command is changed before it starts.
    pub fn prepared(store: &Store, options: &[&str], prepare: impl FnOnce(&mut Command)) -> Self {
        let mut arguments = vec!["node".into(), store.directory().into_os_string()];
        if !options.contains(&"--listen") {
            arguments.extend(["--listen", "127.0.0.1:0"].map(OsString::from));
        }
        arguments.extend(options.iter().map(OsString::from));
        let mut command = command(&arguments);
        prepare(&mut command);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.as_mut().unwrap());
        let mut line = || {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            line.trim().to_owned()
        };
        let address = line().strip_prefix("listening on ").expect("a node says where it listens").to_owned();
        let pages = options.contains(&"--metrics").then(&mut line);
        let metrics = pages.map(|said| {
            let address = said.strip_prefix("metrics at http://").and_then(|address| address.strip_suffix('/'));
            address.expect("a node says where its pages are").to_owned()
        });
        Node { process, address, metrics }
    }
}

impl Node {
    /// Ends it as `kill` does by itself, and waits until it has ended.
    pub fn terminate(mut self) {
        // SAFETY: the process is ours, and was not waited for.
        unsafe { libc::kill(self.process.id() as i32, libc::SIGTERM) };
        assert!(self.process.wait().unwrap().success());
    }

    /// As `kill` does by itself.
    pub fn ask_to_stop(&self) {
        // SAFETY: the process is ours, and was not waited for.
        unsafe { libc::kill(self.process.id() as i32, libc::SIGTERM) };
    }

    /// Whether the process runs its program again.
    pub fn has_restarted(&self) -> bool {
        let given = std::fs::read(format!("/proc/{}/cmdline", self.process.id())).unwrap_or_default();
        given.split(|byte| *byte == 0).any(|argument| argument.starts_with(b"--begin-anew"))
    }

    /// Whether it ended by this time.
    pub fn has_ended_by(&mut self, deadline: Instant) -> bool {
        while self.process.try_wait().unwrap().is_none() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// The code it ends with by itself, within 60 s, and its messages: of a node whose standard error is piped.
    pub fn wait_for_its_end(&mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.process.try_wait().unwrap().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let code = self.process.try_wait().unwrap().and_then(|status| status.code());
        let _ = self.process.kill();
        let mut said = String::new();
        self.process.stderr.take().expect("it is piped").read_to_string(&mut said).unwrap();
        (code, said)
    }

    /// The most memory it ever held.
    pub fn peak_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a process that runs has memory");
        peak.trim().strip_suffix(" kB").expect("in kB").parse::<u64>().unwrap() << 10
    }

    /// Returns the messages of a node whose standard error is piped.
    pub fn kill_and_read_messages(mut self) -> String {
        self.process.kill().unwrap();
        let mut said = String::new();
        self.process.stderr.take().expect("it is piped").read_to_string(&mut said).unwrap();
        said
    }

    pub fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap().count()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
