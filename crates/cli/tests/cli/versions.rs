//! Versions, ranges, retention.

use std::fs;

use random::Random;

use super::runner::{Store, run};

/// A store whose file `f` has these contents as its versions.
fn with_versions(contents: &[Vec<u8>]) -> Store {
    let store = Store::new();
    for content in contents {
        fs::write(store.path("f"), content).unwrap();
        store.put(&store.path("f"), "f");
    }
    store
}

fn version(store: &Store, number: usize) -> super::runner::Run {
    let number = number.to_string();
    run(&["get".as_ref(), "--version".as_ref(), number.as_ref(), store.address("f").as_os_str(), "-".as_ref()])
}

#[test]
fn every_version_can_be_read() {
    let mut random = Random::new(5);
    let contents: Vec<_> = (1..=4).map(|i| random.bytes(i * 50_000)).collect();
    let store = with_versions(&contents);
    for (i, content) in contents.iter().enumerate() {
        assert_eq!(&version(&store, i + 1).expect(0).stdout, content);
    }
    assert_eq!(store.read("f"), contents[3]);
    assert!(version(&store, 9).expect(1).stderr.contains("no version 9"));
    let seen = store.at("stat", "f", &["--json"]).json();
    assert_eq!(seen["versions"].as_array().unwrap().len(), 4);
    assert_eq!(seen["size"], 200_000);
}

#[test]
fn forgotten_versions_free_space_and_kept_ones_stay() {
    let mut random = Random::new(6);
    let contents: Vec<_> = (0..3).map(|_| random.bytes(4 << 20)).collect();
    let store = with_versions(&contents);
    let before = store.container_bytes();
    run(&["forget".as_ref(), store.address("f").as_os_str()]).expect(2);
    store.verb("collect", &[]);
    assert_eq!(version(&store, 1).expect(0).stdout, contents[0], "without a rule all are kept");
    let done = store.at("forget", "f", &["--keep", "last=1", "--json"]).json();
    assert_eq!(done["versions"], 2, "{done}");
    let collected = store.json("collect");
    let freed = before - store.container_bytes();
    assert!(freed > 7 << 20, "freed {freed}: {collected}");
    assert_eq!(store.read("f"), contents[2]);
    version(&store, 1).expect(1);
    store.verb("verify", &["--data"]);
}

#[test]
fn recent_versions_are_kept_by_their_age() {
    let store = with_versions(&[b"one".to_vec(), b"two".to_vec()]);
    assert_eq!(store.at("forget", "f", &["--keep", "within=1d", "--json"]).json()["versions"], 0);
    assert_eq!(store.at("forget", "", &["--keep", "within=0s", "--json"]).json()["versions"], 1);
}

#[test]
fn forgetting_goes_on_while_files_are_removed_and_made_again() {
    let store = Store::new();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        let remover = threads.spawn(|| {
            for round in 0..6 {
                // So many that the first are removed while the last are read.
                for content in ["first", "second"] {
                    fs::create_dir_all(store.path("d")).unwrap();
                    (0..300).for_each(|name| {
                        fs::write(store.path("d").join(name.to_string()), format!("{content} {name} {round}")).unwrap();
                    });
                    store.put(&store.path("d"), "d");
                }
                ["d/7", "d/70", "d/200"].iter().for_each(|name| drop(store.at("rm", name, &[])));
                store.at("rm", if round % 3 == 0 { "d" } else { "d/9" }, &["--recursive"]);
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) && !remover.is_finished() {
            for address in ["", "d", "d/7"] {
                let done = run(&["forget".as_ref(), store.address(address).as_os_str(), "--keep=last=1".as_ref()]);
                let is_missing = done.stderr.contains("no such file or directory in the store");
                assert!(done.code == Some(0) || (!address.is_empty() && is_missing), "{address}: {done:?}");
            }
        }
    });
    store.verb("verify", &["--data"]);
}

#[test]
fn ranges_are_slices() {
    let mut random = Random::fresh();
    let mut content = random.bytes(700_000);
    content[200_000..400_000].fill(0);
    let store = with_versions(&[content.clone()]);
    for _ in 0..20 {
        let offset = random.below(700_000) as usize;
        let length = random.below(200_000) as usize;
        let range = format!("{offset}:{length}");
        let address = store.address("f");
        let expected = &content[offset..(offset + length).min(content.len())];
        let printed =
            run(&["get".as_ref(), "--range".as_ref(), range.as_ref(), address.as_os_str(), "-".as_ref()]).expect(0);
        assert!(printed.stdout == expected, "range {range} on standard output");
        let to = store.path("slice");
        run(&["get".as_ref(), "--range".as_ref(), range.as_ref(), address.as_os_str(), to.as_os_str()]).expect(0);
        assert!(fs::read(to).unwrap() == expected, "range {range} in a file");
    }
}
