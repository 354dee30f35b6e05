//! A node of a test's own.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use super::runner::{Store, command};

/// Listens on a free port; ends with the test.
pub struct Node {
    process: Child,
    pub address: String,
}

impl Node {
    pub fn of(store: &Store) -> Self {
        Self::with(store, &[])
    }

    /// With options, which may name another address.
    pub fn with(store: &Store, options: &[&str]) -> Self {
        let mut arguments = vec!["node".into(), store.directory().into_os_string()];
        if !options.contains(&"--listen") {
            arguments.extend(["--listen", "127.0.0.1:0"].map(OsString::from));
        }
        arguments.extend(options.iter().map(OsString::from));
        let mut process = command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("a node says where it listens").to_owned();
        Node { process, address }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
