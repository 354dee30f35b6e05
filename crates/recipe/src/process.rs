//! One run of a command: in a session of its own, whose first process group ends with it, with us, with a signal to us, or
//! after its time. It has no terminal: one that asks there for a password fails, where it would wait unseen.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::confinement::Confinement;
use crate::{Error, Result, environment};

/// How often a command is looked at: at first often, since many are short.
const FIRST_INTERVAL: Duration = Duration::from_micros(200);
const LAST_INTERVAL: Duration = Duration::from_millis(10);

/// How long a command that is asked to end may take for it.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(2);
/// The process groups of the commands that run.
static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// How commands are run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Where their directories are made; `$TMPDIR` without.
    pub scratch: Option<PathBuf>,
    /// They may write elsewhere, where the kernel could forbid it.
    pub may_write_elsewhere: bool,
    /// What they print goes to standard error.
    pub prints_to_stderr: bool,
    /// What they print goes to the files [`STANDARD_OUTPUT`] and [`STANDARD_ERROR`] in this directory.
    pub printed: Option<PathBuf>,
}

pub const STANDARD_OUTPUT: &str = "stdout";
pub const STANDARD_ERROR: &str = "stderr";

/// A command to run.
pub struct Run<'a> {
    pub arguments: &'a [Vec<u8>],
    pub environment: &'a [(Vec<u8>, Vec<u8>)],
    pub working_directory: &'a Path,
    pub temporary: &'a Path,
    pub timeout: Option<Duration>,
    pub options: &'a RunOptions,
}

impl Run<'_> {
    /// Runs it; an error where it does not exit with 0. Returns how long it took.
    pub fn run(&self, must_stop: &(dyn Fn() -> bool + Sync)) -> Result<Duration> {
        let begun = Instant::now();
        let mut command = self.command();
        if let Some(directory) = &self.options.printed {
            let made = |name| File::create(directory.join(name)).map_err(|error| Error::io(directory, error));
            command.stdout(made(STANDARD_OUTPUT)?).stderr(made(STANDARD_ERROR)?);
        }
        let mut child = command.spawn().map_err(|error| self.failed(&format!("cannot be run: {error}")))?;
        groups().push(pid_of(&child));
        let ended = await_end(&child, self.timeout, must_stop);
        if !matches!(ended, End::Itself) {
            ask_to_end(&child);
        }
        groups().retain(|group| *group != pid_of(&child));
        let status = end_group(&mut child).map_err(|error| self.failed(&error.to_string()))?;
        match ended {
            End::Itself if status.success() => Ok(begun.elapsed()),
            End::Itself => Err(self.failed(&describe(status))),
            End::Stopped => Err(Error::Stopped),
            End::Timeout(timeout) => {
                let seconds = timeout.as_secs_f64();
                Err(self.failed(&format!("did not end within {seconds:.1} s and was ended (--timeout allows more)")))
            }
        }
    }

    fn command(&self) -> Command {
        let as_text = |bytes: &Vec<u8>| OsString::from_vec(bytes.clone());
        let mut command = Command::new(as_text(&self.arguments[0]));
        command.args(self.arguments[1..].iter().map(as_text));
        command.env_clear().envs(environment::given(self.environment, self.temporary));
        command.current_dir(self.working_directory).stdin(Stdio::null());
        if self.options.prints_to_stderr
            && let Ok(stderr) = std::io::stderr().as_fd().try_clone_to_owned()
        {
            command.stdout(Stdio::from(stderr));
        }
        let confinement = if self.options.may_write_elsewhere { None } else { self.confinement() };
        let prepare = move || {
            prepare_child()?;
            confinement.as_ref().map_or(Ok(()), Confinement::confine_self)
        };
        // SAFETY: what it calls are system calls.
        unsafe { command.pre_exec(prepare) };
        command
    }

    /// `> /dev/stderr` opens anew what the command prints to.
    fn confinement(&self) -> Option<Confinement> {
        let mut directories = vec![self.working_directory, self.temporary];
        directories.extend(self.options.printed.as_deref());
        let printed_to: &[RawFd] = match (&self.options.printed, self.options.prints_to_stderr) {
            (Some(_), _) => &[],
            (None, true) => &[libc::STDERR_FILENO],
            (None, false) => &[libc::STDOUT_FILENO, libc::STDERR_FILENO],
        };
        Confinement::to(&directories, printed_to)
    }

    fn failed(&self, why: &str) -> Error {
        Error::Command(format!("{}: {why}", shown(self.arguments)))
    }
}

/// Returns a command line for people: cut where it is long, and without control characters.
pub fn shown(arguments: &[Vec<u8>]) -> String {
    const MAX_CHARACTERS: usize = 200;
    let words: Vec<_> = arguments.iter().map(|argument| String::from_utf8_lossy(argument)).collect();
    let line: String = words.join(" ").chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
    match line.char_indices().nth(MAX_CHARACTERS) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}

/// Begins a session, ends with the thread that started it, and takes signals as if nothing was done about them here.
fn prepare_child() -> std::io::Result<()> {
    // SAFETY: the set is made before it is used; the calls are safe between fork and exec.
    unsafe {
        if libc::setsid() < 0 {
            return Err(std::io::Error::last_os_error());
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

enum End {
    Itself,
    Timeout(Duration),
    Stopped,
}

fn await_end(child: &Child, timeout: Option<Duration>, must_stop: &(dyn Fn() -> bool + Sync)) -> End {
    let (begun, mut interval) = (Instant::now(), FIRST_INTERVAL);
    loop {
        if has_ended(child) {
            return End::Itself;
        }
        if must_stop() {
            return End::Stopped;
        }
        if let Some(timeout) = timeout.filter(|timeout| begun.elapsed() >= *timeout) {
            return End::Timeout(timeout);
        }
        std::thread::sleep(interval);
        interval = (interval * 2).min(LAST_INTERVAL);
    }
}

/// Looks without taking the exit status, so that the group's number is not another's yet.
fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(rustix::process::waitid(WaitId::Pid(pid_of(child)), options), Ok(None))
}

/// Gives the command and what it started a moment to end in their own way.
fn ask_to_end(child: &Child) {
    let (group, begun) = (pid_of(child), Instant::now());
    let _ = rustix::process::kill_process_group(group, Signal::TERM);
    while begun.elapsed() < TERMINATION_TIMEOUT && is_alive(group) {
        std::thread::sleep(LAST_INTERVAL);
    }
}

/// Whether a process of the group runs: one that has ended, and whose parent has not asked for its status, does not.
fn is_alive(group: Pid) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut states = processes.filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok());
    states.any(|text| {
        // Behind the name, which may have any characters: state, parent, group.
        let mut fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        let state = fields.next();
        fields.nth(1) == Some(&group.as_raw_nonzero().to_string()) && !matches!(state, Some("Z" | "X"))
    })
}

/// Ends all commands that run, with their process groups: for a process that ends at once.
pub fn end_all() {
    for group in groups().drain(..) {
        // It may have ended meanwhile.
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
}

fn groups() -> MutexGuard<'static, Vec<Pid>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends what the command left running, and takes its exit status.
fn end_group(child: &mut Child) -> std::io::Result<ExitStatus> {
    let _ = rustix::process::kill_process_group(pid_of(child), Signal::KILL);
    child.wait()
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id() as i32).expect("a child has a number above 0")
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    }
}
