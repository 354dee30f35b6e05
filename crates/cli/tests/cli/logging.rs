//! A node's log: who came, who was refused and why, and how much of it.

use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::node::Node;
use super::runner::{Store, run};

struct LoggedNode {
    node: Node,
    log: PathBuf,
}

impl LoggedNode {
    fn new(store: &Store, options: &[&str]) -> Self {
        let log = store.path("log");
        let into = File::create(&log).unwrap();
        let node = Node::prepared(store, options, |command: &mut Command| {
            command.stderr(Stdio::from(into));
        });
        LoggedNode { node, log }
    }

    fn lines(&self) -> Vec<String> {
        std::fs::read_to_string(&self.log).unwrap().lines().map(str::to_owned).collect()
    }

    /// The first line that holds all of these, within some seconds.
    fn line_with(&self, words: &[&str]) -> String {
        let deadline = Instant::now() + Duration::from_secs(90);
        loop {
            let found = self.lines().into_iter().find(|line| words.iter().all(|word| line.contains(word)));
            match found {
                Some(line) => return line,
                None if Instant::now() > deadline => panic!("{words:?} in {:#?}", self.lines()),
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

#[test]
fn a_log_is_json_where_that_is_asked_for() {
    let store = Store::new();
    let logged = LoggedNode::new(&store, &["--log", "info", "--log-format", "json"]);
    run(&["ls".to_owned(), format!("thalweg://{}::", logged.node.address)]).expect(0);
    let line = logged.line_with(&["connection accepted"]);
    let said: serde_json::Value = serde_json::from_str(&line).expect("each line is an object");
    assert_eq!(said["level"], "info");
    assert!(said["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{line}");
    assert!(said["time"].as_str().is_some_and(|time| time.ends_with('Z') && time.contains('T')), "{line}");
}

#[test]
fn a_node_logs_who_failed_to_prove_its_secret_with_time_level_and_peer() {
    let store = Store::new();
    let secrets = ["right", "wrong"].map(|name| store.path(name));
    secrets.iter().for_each(|file| drop(run(&["secret".as_ref(), file.as_os_str()]).expect(0)));
    let logged = LoggedNode::new(&store, &["--secret-file", secrets[0].to_str().unwrap()]);
    for (secret, why) in [(Some(&secrets[1]), "another secret"), (None, "the client left")] {
        let mut list = super::runner::command(&["ls".to_owned(), format!("thalweg://{}::", logged.node.address)]);
        if let Some(secret) = secret {
            list.env("THALWEG_SECRET_FILE", secret);
        }
        assert!(!list.output().unwrap().status.success());
        let line = logged.line_with(&["authentication failed", why]);
        let words: Vec<_> = line.split(' ').collect();
        assert!(words[0].starts_with("20") && words[1].ends_with('Z') && words[2] == "warn", "{line}");
        assert!(words[3].starts_with("127.0.0.1:"), "{line}");
    }
    assert!(!logged.lines().iter().any(|line| line.contains("accepted")), "that is for --log info");
}

#[test]
fn connections_are_logged_at_info_and_a_crowd_of_them_is_counted() {
    let store = Store::new();
    let logged = LoggedNode::new(&store, &["--log", "info"]);
    for _ in 0..200 {
        TcpStream::connect(&logged.node.address).unwrap().write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    }
    logged.line_with(&["info", "127.0.0.1:", "connection accepted"]);
    logged.line_with(&["warn", "no thalweg peer"]);
    // 190 of them, unless the machine was busy for longer than an interval.
    logged.line_with(&["accepted", "more like this in the last"]);
    logged.line_with(&["no thalweg peer", "more like this"]);
    assert!(logged.lines().len() < 50, "{:#?}", logged.lines());
}

#[test]
fn a_level_that_does_not_exist_is_refused_wherever_it_stands() {
    let store = Store::new();
    let refused = store.try_verb("node", &["--listen", "127.0.0.1:0", "--log", "loud"]).expect(2).stderr;
    assert!(refused.contains("loud") && refused.contains("error, warn, info or debug"), "{refused}");
    let mut node = super::runner::command(&["node".to_owned(), store.directory().display().to_string()]);
    node.args(["--listen", "127.0.0.1:0"]);
    for level in [std::ffi::OsStr::new("loud"), std::os::unix::ffi::OsStrExt::from_bytes(b"\xffloud")] {
        let refused = node.env("THALWEG_LOG", level).output().unwrap();
        let message = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2));
        assert!(message.contains("THALWEG_LOG=") && message.contains("loud: is no level"), "{message}");
    }
}
