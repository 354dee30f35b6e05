//! The same verbs on a store that a node serves.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use super::random::Random;
use super::runner::{Run, Store, command, run};
use super::snapshot::{assert_same, snapshot};

/// A node of its own on a free port; ends with the test.
struct Node {
    process: Child,
    address: String,
}

impl Node {
    fn of(store: &Store) -> Self {
        let arguments = ["node".into(), store.directory().into_os_string(), "--listen".into(), "127.0.0.1:0".into()];
        let mut process = command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("a node says where it listens").to_owned();
        Node { process, address }
    }

    fn place(&self, path: &str) -> OsString {
        format!("thalweg://{}::{path}", self.address).into()
    }

    fn at(&self, verb: &str, path: &str, options: &[&str]) -> Run {
        let mut arguments = vec![verb.into(), self.place(path)];
        arguments.extend(options.iter().map(OsString::from));
        run(&arguments)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_tree_goes_to_a_node_and_comes_back() {
    let store = Store::new();
    let node = Node::of(&store);
    let (source, copy) = (store.path("source"), store.path("copy"));
    let mut random = Random::new(12);
    for directory in ["a", "b/c"] {
        fs::create_dir_all(source.join(directory)).unwrap();
        for file in 0..50 {
            let bytes = random.below(100_000) as usize;
            fs::write(source.join(directory).join(file.to_string()), random.bytes(bytes)).unwrap();
        }
    }
    fs::hard_link(source.join("a/1"), source.join("b/one")).unwrap();
    run(&["put".as_ref(), source.as_os_str(), &node.place("t")]).expect(0);
    run(&["get".as_ref(), node.place("t").as_os_str(), copy.as_os_str()]).expect(0);
    assert_same(&snapshot(&source), &snapshot(&copy));

    assert_eq!(node.at("ls", "t", &[]).expect(0).text(), "a/\nb/\n");
    assert_eq!(node.at("stat", "t/a/1", &["--json"]).expect(0).json()["links"], 2);
    run(&["mv".into(), node.place("t/a"), node.place("u")]).expect(0);
    node.at("rm", "t", &["-r"]).expect(0);
    let address = format!("thalweg://{}", node.address);
    assert_eq!(run(&["stats", &address, "--json"]).expect(0).json()["files"], 50);
    run(&["verify", &address]).expect(1);
    node.at("ls", "nothing", &[]).expect(1);
}
