//! A store's own model for the choice of codecs: what it is fitted to, and how a node follows it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use random::Random;

use super::node::Node;
use super::runner::{Run, Store, command, run};
use super::sessions::interrupted;

/// A node looks at its model's file every two seconds.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);

fn train(data: &OsStr, store: &Store) -> Run {
    let directory = store.directory();
    let options = ["train", "--json", "--blocks", "16", "--into"].map(OsStr::new);
    run(&[&options[..], &[directory.as_os_str(), data]].concat())
}

/// A file of noise: a model that has seen noise alone encodes next to nothing.
fn noise(store: &Store) -> PathBuf {
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
    let (noise, log, model) = (noise(&store), store.path("log"), model_of(&store));
    let node = Node::prepared(&store, &[], |command| {
        command.stderr(File::create(&log).unwrap());
    });
    let mut puts = Puts { store: &store, node: &node, number: 0 };
    let built_in = puts.stored_bytes();
    train(noise.as_os_str(), &store).expect(0);
    puts.wait_for(|bytes| bytes > 2 * built_in);
    assert_eq!(warnings(&log), 0);
    // Under another name first: the node looks while it is written.
    let draft = store.path("draft");
    fs::write(&draft, "no model").unwrap();
    fs::rename(&draft, &model).unwrap();
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

/// Files of several lengths, one of them too short to be drawn from, in a folder `run1`.
fn with_run() -> (Store, PathBuf) {
    let store = Store::new();
    let run1 = store.path("run1");
    fs::create_dir_all(run1.join("deep")).unwrap();
    for (name, number, bytes) in [("long", 1, 1 << 20), ("deep/short", 2, 5000), ("deep/tiny", 3, 100)] {
        fs::write(run1.join(name), &words(number)[..bytes]).unwrap();
    }
    store.put(&run1, "");
    (store, run1)
}

fn model_of(store: &Store) -> PathBuf {
    store.directory().join("compression.model")
}

#[test]
fn a_model_is_fitted_to_the_same_blocks_of_stored_files_as_of_local_ones() {
    let (store, run1) = with_run();
    let (other, node) = (Store::new(), Node::of(&store));
    let blocks = |data: &OsStr| {
        let blocks = train(data, &other).expect(0).json()["blocks"].as_u64();
        assert!(fs::read(model_of(&other)).unwrap().starts_with(b"TWGMODL"));
        fs::remove_file(model_of(&other)).unwrap();
        blocks
    };
    let local = blocks(run1.as_os_str());
    assert!(local > Some(1));
    for stored in [store.address("run1"), store.address(""), format!("thalweg://{}::run1", node.address).into()] {
        assert_eq!(blocks(&stored), local, "{stored:?}");
    }
    assert_eq!(blocks(&store.address("run1/deep")), Some(1), "of the one file that is long enough");
    assert_eq!(blocks(&store.address("run1/deep/short")), Some(1));
}

#[test]
fn a_store_is_trained_on_what_it_holds_rounded_files_among_it() {
    let store = Store::new();
    let file = store.path("floats");
    let values: Vec<u8> = (0..100_000).flat_map(|at| (at as f32 * 0.01).sin().to_le_bytes()).collect();
    fs::write(&file, values).unwrap();
    let rounded = ["put", "--type", "f32", "--error-bound", "relative:1e-3", file.to_str().unwrap()].map(OsStr::new);
    run(&[&rounded[..], &[&store.address("floats")]].concat()).expect(0);
    train(&store.address(""), &store).expect(0);
    assert!(model_of(&store).is_file());
    store.verb("verify", &["--data"]);
    // Of the rounded values, and not of those that were put.
    let oracle_bytes =
        |data: &OsStr| run(&["codecs".as_ref(), data, "--json".as_ref()]).expect(0).json()["oracle_bytes"].as_u64();
    assert!(oracle_bytes(&store.address("floats")) < oracle_bytes(file.as_os_str()));
}

#[test]
fn what_no_model_can_be_fitted_to_is_named() {
    let store = Store::new();
    interrupted(&store, &words(1));
    let bare = store.directory();
    for (data, code, why) in [
        (store.address("nothing").as_os_str(), 1, "no such file or directory in the store"),
        (store.address("out").as_os_str(), 1, "is still being written"),
        (store.address("").as_os_str(), 1, "once they are committed"),
        (bare.as_os_str(), 2, "for all of it"),
        (OsStr::new("thalweg://127.0.0.1:1"), 2, "write STORE::PATH"),
        (OsStr::new("nowhere::run1"), 1, "no thalweg store there"),
    ] {
        let refused = train(data, &store).expect(code).stderr;
        assert!(refused.contains(why) && refused.lines().count() == 1, "{data:?}: {refused}");
    }
    assert!(!model_of(&store).exists());
}

#[test]
fn a_stored_file_that_cannot_be_read_is_named_and_left_out() {
    let store = Store::new();
    for number in 1..3 {
        let file = store.path("noise");
        fs::write(&file, Random::new(number).bytes(400_000)).unwrap();
        store.put(&file, &format!("noise-{number}"));
    }
    let container = store.containers().into_iter().find(|path| path.metadata().unwrap().len() > 300_000).unwrap();
    let mut bytes = fs::read(&container).unwrap();
    bytes[150_000] ^= 0x40;
    fs::write(&container, bytes).unwrap();
    let trained = train(&store.address(""), &store).expect(3);
    assert!(trained.stderr.contains("::noise-") && trained.stderr.contains("were left out"), "{}", trained.stderr);
    assert!(model_of(&store).is_file());
}

#[test]
fn a_node_that_goes_away_ends_the_training() {
    let store = Store::new();
    let file = noise(&store);
    store.put(&file, "noise");
    let node = Node::of(&store);
    let (stored, model) = (format!("thalweg://{}::noise", node.address), store.path("model"));
    let mut training = command(&["train", &stored, "--model", model.to_str().unwrap()]);
    training.env("THALWEG_TIMEOUT_S", "2").stdout(Stdio::piped()).stderr(Stdio::piped());
    let training = training.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    drop(node);
    let ended = Run::from(training.wait_with_output().unwrap()).expect(1);
    // And not the reading of one block after the other.
    assert!(ended.stderr.lines().last().unwrap().contains("no server answers"), "{}", ended.stderr);
    assert!(!model.exists());
}

#[test]
fn a_model_of_little_of_the_data_takes_no_ones_place() {
    let store = Store::new();
    let file = noise(&store);
    store.put(&file, "noise");
    train(file.as_os_str(), &store).expect(0);
    let model = store.directory().join("compression.model");
    let before = fs::read(&model).unwrap();
    let containers = walk(&store.directory().join("containers"));
    for container in &containers {
        let mut bytes = fs::read(container).unwrap();
        bytes.iter_mut().step_by(40_000).skip(1).for_each(|byte| *byte ^= 1);
        fs::write(container, bytes).unwrap();
    }
    let stored = format!("{}::noise", store.directory().display());
    let ended = train(OsStr::new(&stored), &store);
    assert_ne!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(fs::read(&model).unwrap(), before);
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = directory.read_dir().unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
