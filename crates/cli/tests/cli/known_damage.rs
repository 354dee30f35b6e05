//! `put` knows damage that `get` or `verify` found: it stores the content again, and all of it can be read then.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use random::Random;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::node::Node;
use super::runner::{Store, run};

/// Two files, the second beginning as the first does: their segments share a block.
fn with_shared_block() -> (Store, PathBuf) {
    let (store, mut random) = (Store::new(), Random::new(31));
    let source = store.path("source");
    fs::create_dir_all(&source).unwrap();
    let first = random.bytes(30_000);
    let second = [first.clone(), random.bytes(40_000)].concat();
    fs::write(source.join("a"), first).unwrap();
    fs::write(source.join("ab"), second).unwrap();
    on_one_core(|| store.put(&source, ""));
    (store, source)
}

/// Commands that `run` begins have one worker: what they store lies in the order of the names.
fn on_one_core<T>(run: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(None).unwrap();
    let mut first = CpuSet::new();
    first.set((0..CpuSet::MAX_CPU).find(|core| before.is_set(*core)).expect("the thread may run somewhere"));
    sched_setaffinity(None, &first).unwrap();
    let returned = run();
    sched_setaffinity(None, &before).unwrap();
    returned
}

fn flip(store: &Store, offset: usize) {
    let container = store.containers().remove(0);
    let mut bytes = fs::read(&container).unwrap();
    bytes[offset] ^= 0x40;
    fs::write(container, bytes).unwrap();
}

#[track_caller]
fn assert_stored(store: &Store, source: &Path, names: &[&str]) {
    for name in names {
        assert!(store.read(&format!("source/{name}")) == fs::read(source.join(name)).unwrap(), "{name}");
    }
}

#[test]
fn every_segment_of_a_damaged_block_is_known_after_verify() {
    for force in [&[][..], &["--force"][..]] {
        let (store, source) = with_shared_block();
        flip(&store, 9000);
        store.try_verb("verify", &["--data"]).expect(3);
        put(&source, &store.address(""), force);
        assert_stored(&store, &source, &["a", "ab"]);
        store.verb("collect", &[]);
        store.verb("verify", &["--data"]);
    }
}

#[test]
fn every_segment_of_a_damaged_block_is_known_after_a_failed_get() {
    for force in [&[][..], &["--force"][..]] {
        let (store, source) = with_shared_block();
        flip(&store, 9000);
        fails_to_get(&store.address("source/a"));
        put(&source, &store.address(""), force);
        assert_stored(&store, &source, &["a", "ab"]);
    }
}

/// Straight after it, too.
#[test]
fn what_a_get_through_a_node_found_is_known_to_the_next_put() {
    let (store, source) = with_shared_block();
    let node = Node::of(&store);
    let address = format!("thalweg://{}::", node.address);
    put(&source, address.as_ref(), &[]);
    flip(&store, 9000);
    fails_to_get(format!("{address}source/a").as_ref());
    put(&source, address.as_ref(), &[]);
    assert_stored(&store, &source, &["a", "ab"]);
}

/// Reading ends at the first.
#[test]
fn all_damaged_blocks_of_a_file_are_known_when_it_is_put_again() {
    for (verb, force) in [("get", &[][..]), ("get", &["--force"][..]), ("verify", &[][..])] {
        let store = Store::new();
        let source = store.path("source");
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("a"), Random::new(32).bytes(1_500_000)).unwrap();
        store.put(&source, "");
        for offset in [100_000, 700_000, 1_300_000] {
            flip(&store, offset);
        }
        match verb {
            "get" => fails_to_get(&store.address("source/a")),
            _ => drop(store.try_verb("verify", &["--data"]).expect(3)),
        }
        put(&source, &store.address(""), force);
        assert_stored(&store, &source, &["a"]);
    }
}

#[track_caller]
fn fails_to_get(address: &OsStr) {
    let got = run(&["get".as_ref(), address, "-".as_ref()]).expect(1);
    assert!(got.stderr.contains("is damaged"), "{}", got.stderr);
}

fn put(source: &Path, address: &OsStr, options: &[&str]) {
    let mut arguments = vec!["put".as_ref(), source.as_os_str(), address];
    arguments.extend(options.iter().map(|option| OsStr::new(*option)));
    run(&arguments).expect(0);
}

/// A copy of the store went on apart; its files, or its catalog, come into the store's place. Segments can be read
/// then, and are not those that the versions name.
#[test]
fn what_belongs_to_a_copy_that_went_on_apart_is_known_after_a_failed_get_or_verify() {
    let find: [fn(&Store); 2] = [
        |store| fails_to_get(&store.address("source/n")),
        |store| drop(store.try_verb("verify", &["--data"]).expect(3)),
    ];
    for (is_catalog, find) in [(false, find[0]), (false, find[1]), (true, find[0]), (true, find[1])] {
        let (store, source) = with_shared_block();
        let (copy, before) = (store.path("copy"), store.containers());
        copy_folder(&store.directory(), &copy);
        let place_of_copy = OsString::from(format!("{}::", copy.display()));
        let mut addresses = [place_of_copy, store.address("")];
        if is_catalog {
            addresses.reverse();
        }
        let mut random = Random::new(33);
        for address in addresses {
            fs::write(source.join("n"), random.bytes(60_000)).unwrap();
            put(&source, &address, &[]);
        }
        match is_catalog {
            true => {
                fs::copy(copy.join("catalog.sqlite"), store.directory().join("catalog.sqlite")).unwrap();
                // Which would have the catalog refused.
                fs::remove_file(store.directory().join("journal.mark")).unwrap();
            }
            false => {
                for new in store.containers().into_iter().filter(|file| !before.contains(file)) {
                    let theirs = copy.join(new.strip_prefix(store.directory()).unwrap());
                    fs::copy(theirs, new).unwrap();
                }
            }
        }
        find(&store);
        put(&source, &store.address(""), &[]);
        assert_stored(&store, &source, &["a", "ab", "n"]);
    }
}

fn copy_folder(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// The container is cut between two blocks: no byte that is left says that there was more.
#[test]
fn collect_has_the_journal_hold_again_what_a_cut_container_held() {
    let (store, source) = with_shared_block();
    // Its listing would be lost: nothing that is put again has it.
    store.forget_snapshots();
    let container = store.containers().remove(0);
    fs::OpenOptions::new().write(true).open(container).unwrap().set_len(96).unwrap();
    store.try_verb("verify", &[]).expect(3);
    put(&source, &store.address("again"), &[]);
    assert!(store.verb("collect", &[]).text().contains("the journal had lost"), "what was mended is said");
    store.verb("verify", &["--data"]);
    fs::remove_file(store.directory().join("catalog.sqlite")).unwrap();
    store.verb("verify", &["--rebuild-catalog"]);
    assert_stored(&store, &source, &["a", "ab"]);
}
