//! The same verbs on a store that a node serves.

use std::ffi::OsString;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

use random::Random;

use super::node::Node;
use super::runner::{Run, Store, command, run};
use super::snapshot::{assert_same, snapshot};

impl Node {
    fn address(&self, path: &str) -> OsString {
        format!("thalweg://{}::{path}", self.address).into()
    }

    fn at(&self, verb: &str, path: &str, options: &[&str]) -> Run {
        let mut arguments = vec![verb.into(), self.address(path)];
        arguments.extend(options.iter().map(OsString::from));
        run(&arguments)
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
    run(&["put".as_ref(), source.as_os_str(), &node.address("t")]).expect(0);
    run(&["get".as_ref(), node.address("t").as_os_str(), copy.as_os_str()]).expect(0);
    assert_same(&snapshot(&source), &snapshot(&copy));

    assert_eq!(node.at("ls", "t", &[]).expect(0).text(), "a/\nb/\n");
    assert_eq!(node.at("stat", "t/a/1", &["--json"]).expect(0).json()["links"], 2);
    run(&["mv".into(), node.address("t/a"), node.address("u")]).expect(0);
    node.at("rm", "t", &["-r"]).expect(0);
    let address = format!("thalweg://{}", node.address);
    assert_eq!(run(&["stats", &address, "--json"]).expect(0).json()["files"], 50);
    run(&["verify", &address]).expect(2);
    node.at("ls", "nothing", &[]).expect(1);
}

/// A model that has seen noise alone encodes next to nothing: what is tried against its advice at most.
#[test]
fn what_is_put_through_a_node_is_encoded_by_the_stores_own_model() {
    let (store, trained) = (Store::new(), Store::new());
    let (noise, source) = (store.path("noise"), store.path("source"));
    fs::write(&noise, Random::new(3).bytes(8 << 20)).unwrap();
    let words: Vec<u8> = (0..1 << 18).flat_map(|number: u32| (number / 3).to_le_bytes()).collect();
    fs::write(&source, words).unwrap();
    run(&["train".as_ref(), noise.as_os_str(), "--into".as_ref(), trained.directory().as_os_str()]).expect(0);
    let stored_bytes = |store: &Store| {
        let node = Node::of(store);
        run(&["put".as_ref(), source.as_os_str(), &node.address("words")]).expect(0);
        run(&["stats".into(), OsString::from(format!("thalweg://{}", node.address)), "--json".into()]).expect(0).json()
            ["stored_bytes"]
            .as_u64()
            .unwrap()
    };
    let (built_in, own) = (stored_bytes(&store), stored_bytes(&trained));
    assert!(built_in < own / 2, "{built_in} and {own} bytes");
}

/// One line says so, not one for each file.
#[test]
fn a_get_whose_node_goes_away_ends_with_what_it_has() {
    let store = Store::new();
    let node = Node::of(&store);
    let (source, copy) = (store.path("source"), store.path("copy"));
    fs::create_dir_all(&source).unwrap();
    let mut random = Random::new(13);
    for file in 0..60 {
        fs::write(source.join(file.to_string()), random.bytes(300_000)).unwrap();
    }
    run(&["put".as_ref(), source.as_os_str(), &node.address("t")]).expect(0);
    let address = node.address("t");
    let get = ["get".as_ref(), "--limit-download".as_ref(), "4M".as_ref(), address.as_os_str(), copy.as_os_str()];
    let child = command(&get).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while fs::read_dir(&copy).map_or(0, |names| names.count()) < 3 {
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(node);
    let ended = Run::from(child.wait_with_output().unwrap()).expect(1);
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.contains("what was fetched until here is whole"), "{}", ended.stderr);
    assert!(ended.stderr.lines().count() < 6, "{}", ended.stderr);
}
