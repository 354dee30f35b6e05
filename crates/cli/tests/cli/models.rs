//! A store's own model for the choice of codecs: how a node follows it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use random::Random;

use super::node::Node;
use super::runner::{Run, Store, run};

/// A node looks at its model's file every two seconds.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);

fn train(data: &OsStr, store: &Store) -> Run {
    let directory = store.directory();
    run(&["train".as_ref(), "--blocks".as_ref(), "16".as_ref(), data, "--into".as_ref(), directory.as_os_str()])
}

/// A file of noise: a model that has seen noise alone encodes next to nothing.
fn noise(store: &Store) -> std::path::PathBuf {
    let noise = store.path("noise");
    fs::write(&noise, Random::new(3).bytes(8 << 20)).unwrap();
    noise
}

/// Words that are other ones for each number, and shrink as well.
fn words(number: u32) -> Vec<u8> {
    (0..1 << 18).flat_map(|word: u32| (word / 3 + (number << 20)).to_le_bytes()).collect()
}

/// Puts files through a node.
struct Puts<'a> {
    store: &'a Store,
    node: &'a Node,
    number: u32,
}

impl Puts<'_> {
    /// Returns by how many bytes the containers grow with another file.
    fn stored_bytes(&mut self) -> u64 {
        self.number += 1;
        let (source, node) = (self.store.path("words"), format!("thalweg://{}", self.node.address));
        fs::write(&source, words(self.number)).unwrap();
        let stored = || run(&["stats", &node, "--json"]).expect(0).json()["stored_bytes"].as_u64().unwrap();
        let before = stored();
        run(&["put", source.to_str().unwrap(), &format!("{node}::words-{}", self.number)]).expect(0);
        let bytes = stored() - before;
        assert!(bytes > 0, "words that were stored before");
        bytes
    }

    /// Puts files until one takes such bytes.
    #[track_caller]
    fn wait_for(&mut self, wanted: impl Fn(u64) -> bool) {
        let deadline = Instant::now() + NOTICED_WITHIN;
        while !wanted(self.stored_bytes()) {
            assert!(Instant::now() < deadline, "the node did not follow its store's model");
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

fn warnings(log: &Path) -> usize {
    fs::read_to_string(log).unwrap().lines().filter(|line| line.contains("compression.model")).count()
}

#[test]
fn a_node_follows_its_stores_model_and_refuses_a_damaged_one() {
    let store = Store::new();
    let (noise, log, model) = (noise(&store), store.path("log"), store.directory().join("compression.model"));
    let node = Node::prepared(&store, &[], |command| {
        command.stderr(File::create(&log).unwrap());
    });
    let mut puts = Puts { store: &store, node: &node, number: 0 };
    let built_in = puts.stored_bytes();
    train(noise.as_os_str(), &store).expect(0);
    puts.wait_for(|bytes| bytes > 2 * built_in);
    assert_eq!(warnings(&log), 0);
    fs::write(&model, "no model").unwrap();
    let deadline = Instant::now() + NOTICED_WITHIN;
    while warnings(&log) == 0 {
        assert!(Instant::now() < deadline, "the node did not look at its store's model");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(puts.stored_bytes() > 2 * built_in, "the model in use does not stay");
    // Two more looks at it.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(warnings(&log), 1, "{}", fs::read_to_string(&log).unwrap());
    fs::remove_file(&model).unwrap();
    puts.wait_for(|bytes| bytes < 2 * built_in);
}
