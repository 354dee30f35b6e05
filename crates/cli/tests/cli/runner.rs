//! Runs the command, in a folder of its own.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A run's outputs.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Run {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.text(), self.stderr);
        self
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!stderr.contains("panicked"), "{stderr}");
        assert!(!stderr.contains("[TW-902]"), "an error has no code of its own: {stderr}");
        Run { code: output.status.code(), stdout: output.stdout, stderr }
    }
}

pub fn command(arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments).env_remove("THALWEG_STORE").env("THALWEG_CONFIG", "").stdin(Stdio::null());
    // A shell that starts the tests in the background has them ignore it.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        })
    };
    command
}

pub fn run(arguments: &[impl AsRef<OsStr>]) -> Run {
    command(arguments).output().expect("the command starts").into()
}

/// A store, and room beside it.
pub struct Store {
    folder: TempDir,
}

impl Store {
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// With options of `init`.
    pub fn with(options: &[&str]) -> Self {
        let store = Store { folder: TempDir::new().expect("a temporary folder") };
        store.verb("init", options);
        store
    }

    /// A local path beside the store.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn directory(&self) -> PathBuf {
        self.path("store")
    }

    pub fn address(&self, path: &str) -> OsString {
        let mut address = self.directory().into_os_string();
        address.push("::");
        address.push(path);
        address
    }

    #[track_caller]
    pub fn put(&self, from: &Path, to: &str) -> Run {
        run(&["put".as_ref(), from.as_os_str(), &self.address(to)]).expect(0)
    }

    #[track_caller]
    pub fn put_json(&self, from: &Path, to: &str) -> Value {
        run(&["put".as_ref(), "--json".as_ref(), from.as_os_str(), &self.address(to)]).expect(0).json()
    }

    #[track_caller]
    pub fn get(&self, from: &str, to: &Path) -> Run {
        run(&["get".as_ref(), self.address(from).as_os_str(), to.as_os_str()]).expect(0)
    }

    /// With setuid bits and security attributes, too.
    #[track_caller]
    pub fn get_privileged(&self, from: &str, to: &Path) -> Run {
        run(&["get".as_ref(), "--privileged".as_ref(), self.address(from).as_os_str(), to.as_os_str()]).expect(0)
    }

    /// The whole content of a file.
    #[track_caller]
    pub fn read(&self, path: &str) -> Vec<u8> {
        run(&["get".as_ref(), self.address(path).as_os_str(), "-".as_ref()]).expect(0).stdout
    }

    /// A verb about the whole store.
    #[track_caller]
    pub fn verb(&self, verb: &str, options: &[&str]) -> Run {
        self.try_verb(verb, options).expect(0)
    }

    pub fn try_verb(&self, verb: &str, options: &[&str]) -> Run {
        let mut arguments = vec![OsString::from(verb), self.directory().into_os_string()];
        arguments.extend(options.iter().map(OsString::from));
        run(&arguments)
    }

    /// A verb about one place.
    #[track_caller]
    pub fn at(&self, verb: &str, path: &str, options: &[&str]) -> Run {
        self.try_at(verb, path, options).expect(0)
    }

    pub fn try_at(&self, verb: &str, path: &str, options: &[&str]) -> Run {
        let mut arguments = vec![OsString::from(verb), self.address(path)];
        arguments.extend(options.iter().map(OsString::from));
        run(&arguments)
    }

    /// Only names keep their content from then on.
    pub fn forget_snapshots(&self) {
        let listed = self.json("snapshots");
        for id in listed.as_array().into_iter().flatten().filter_map(|snapshot| snapshot["id"].as_str()) {
            self.at("forget", "", &["--snapshot", id]);
        }
    }

    pub fn json(&self, verb: &str) -> Value {
        self.verb(verb, &["--json"]).json()
    }

    /// Bytes of the container files.
    pub fn container_bytes(&self) -> u64 {
        files_below(&self.directory().join("containers"))
            .iter()
            .map(|path| path.metadata().map_or(0, |found| found.len()))
            .sum()
    }

    pub fn containers(&self) -> Vec<PathBuf> {
        files_below(&self.directory().join("containers"))
    }
}

pub fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in directory.read_dir().into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}
