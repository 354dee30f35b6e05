//! Damage: it is found, named, kept from spreading, and repaired where it can be.

use std::fs;
use std::path::{Path, PathBuf};

use random::Random;

use super::node::Node;
use super::runner::{Store, run};
use super::snapshot::{assert_same, snapshot};

/// Several containers: one for each put.
fn with_tree() -> Store {
    let store = Store::new();
    let mut random = Random::new(9);
    for file in ["a", "b", "c"] {
        let path = store.path("source").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, random.bytes(400_000)).unwrap();
        store.put(&path, &format!("t/{file}"));
    }
    store
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[offset] ^= 0x40;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_flipped_byte_is_found_and_named_and_the_other_files_can_be_read() {
    let store = with_tree();
    let container = store.containers().into_iter().find(|path| path.metadata().unwrap().len() > 300_000).unwrap();
    flip(&container, 150_000);
    let found = store.try_verb("verify", &["--data", "--json"]).expect(3);
    let damages = found.json()["damages"].clone();
    assert!(!damages.as_array().unwrap().is_empty());
    assert!(found.stderr.contains("container ") && found.stderr.contains("t/a version 1"), "{}", found.stderr);
    assert!(!found.stderr.contains("t/b version"), "{}", found.stderr);

    let got = run(&["get".as_ref(), store.address("t").as_os_str(), store.path("copy").as_os_str()]).expect(3);
    assert!(got.stderr.contains("damaged") && got.stderr.contains("/a:"), "{}", got.stderr);
    assert!(!store.path("copy/a").exists());
    for file in ["b", "c"] {
        assert_eq!(
            fs::read(store.path("copy").join(file)).unwrap(),
            fs::read(store.path("source").join(file)).unwrap()
        );
    }
}

/// A container that holds one of the files.
fn container_of_a_file(store: &Store) -> PathBuf {
    store.containers().into_iter().find(|path| path.metadata().unwrap().len() > 300_000).unwrap()
}

fn segments_of(store: &Store) -> u64 {
    store.json("verify")["segments"].as_u64().unwrap()
}

/// Segments that verification calls lost, in its result and in its output.
fn lost_segments(store: &Store) -> u64 {
    let found = store.try_verb("verify", &["--json"]).expect(3);
    let document = found.json();
    let lost =
        document["damages"].as_array().unwrap().iter().filter_map(|damage| damage["lost_segments"].as_u64()).sum();
    let expected = format!("{lost} segments lost");
    assert!(found.stderr.contains(&expected) && found.stderr.contains("t/a version 1"), "{expected}: {}", found.stderr);
    lost
}

#[test]
fn a_container_that_ends_early_or_has_no_header_has_lost_all_that_cannot_be_read() {
    for harm in [|bytes: &mut Vec<u8>| bytes.truncate(200_000), |bytes: &mut Vec<u8>| bytes[3] ^= 1] {
        let store = with_tree();
        let all = segments_of(&store);
        let container = container_of_a_file(&store);
        let mut bytes = fs::read(&container).unwrap();
        harm(&mut bytes);
        fs::write(&container, bytes).unwrap();
        let lost = lost_segments(&store);
        let left = store.try_verb("verify", &["--json"]).expect(3).json()["segments"].as_u64().unwrap();
        assert_eq!(lost + left, all);
    }
}

#[test]
fn putting_the_same_files_again_repairs_what_was_found_damaged() {
    let store = with_tree();
    let source = store.path("source");
    store.verb("repair", &[]);
    flip(&container_of_a_file(&store), 150_000);
    // It was never read: its damage is not known.
    assert_eq!(store.put_json(&source, "t")["files"], 0);
    let found = store.try_verb("repair", &["--json"]).expect(3);
    assert!(found.stderr.contains("t/a version 1: bytes") && found.stderr.contains("put the same files"), "{found:?}");
    assert_eq!(found.json()["lost"][0]["path"], "t/a");
    assert_eq!(store.put_json(&source, "t")["files"], 1, "what is known to be damaged is read again");
    let healed = store.verb("repair", &["--json"]).json();
    assert!(healed["healed_segments"].as_u64().unwrap() > 0 && healed["lost"].as_array().unwrap().is_empty());
    let address = store.address("t/a");
    let first = ["get".as_ref(), address.as_os_str(), "-".as_ref(), "--version".as_ref(), "1".as_ref()];
    assert_eq!(run(&first).expect(0).stdout, fs::read(source.join("a")).unwrap(), "the old version reads again");
}

/// Without `--data` as well: `put` knows the damage that verification finds.
#[test]
fn putting_again_what_verify_named_repairs_it() {
    let store = with_tree();
    let source = store.path("source");
    flip(&container_of_a_file(&store), 150_000);
    store.try_verb("verify", &[]).expect(3);
    assert_eq!(store.put_json(&source, "t")["files"], 1);
    store.verb("collect", &[]);
    store.verb("verify", &["--data"]);
}

/// Of a container that is gone only the catalog has the content.
#[test]
fn a_rebuilt_catalog_knows_the_copies_that_the_old_one_knew() {
    let store = with_tree();
    fs::remove_file(container_of_a_file(&store)).unwrap();
    run(&["put".as_ref(), "--force".as_ref(), store.path("source").as_os_str(), &store.address("again")]).expect(0);
    store.verb("repair", &[]);
    store.verb("verify", &["--rebuild-catalog", "--data"]);
    assert_eq!(store.read("t/a"), fs::read(store.path("source/a")).unwrap());
    store.verb("collect", &[]);
    store.verb("verify", &["--data"]);
}

/// Only the fingerprint table has it.
#[test]
fn copies_of_what_lay_in_a_container_that_is_gone_are_found_without_any_old_catalog() {
    let store = with_tree();
    // Its record is in another container than its content, which was there.
    store.put(&store.path("source/a"), "u/a");
    fs::remove_file(container_of_a_file(&store)).unwrap();
    run(&["put".as_ref(), "--force".as_ref(), store.path("source").as_os_str(), &store.address("again")]).expect(0);
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(store.directory().join(format!("catalog.sqlite{suffix}")));
    }
    let lost = store.try_verb("verify", &["--rebuild-catalog"]).expect(3);
    assert!(lost.stderr.contains("u/a version 1 cannot"), "{}", lost.stderr);
    let repaired = store.verb("repair", &["--json"]).json();
    assert!(repaired["lost"].as_array().unwrap().is_empty(), "{repaired}");
    store.verb("collect", &[]);
    store.verb("verify", &["--data"]);
    for (address, file) in [("u/a", "a"), ("again/a", "a"), ("t/c", "c")] {
        assert_eq!(store.read(address), fs::read(store.path("source").join(file)).unwrap(), "{address}");
    }
}

/// All of its segments but the last are in what is put then.
#[test]
fn repair_names_no_bytes_as_lost_that_copies_have_and_get_reads_the_others() {
    let (store, mut random) = (Store::new(), Random::new(33));
    let first = random.bytes(300_000);
    fs::write(store.path("f1"), &first).unwrap();
    store.put(&store.path("f1"), "f1");
    fs::remove_file(container_of_a_file(&store)).unwrap();
    fs::write(store.path("both"), [&first[..], &random.bytes(200_000)].concat()).unwrap();
    store.put(&store.path("both"), "both");
    let repaired = store.try_verb("repair", &["--json"]).expect(3);
    let document = repaired.json();
    let lost = document["lost"].as_array().unwrap();
    let (start, end) = (lost[0]["start"].as_u64().unwrap(), lost[0]["end"].as_u64().unwrap());
    assert!(lost.len() == 1 && start > 250_000 && end == 300_000, "{document}");
    let range = |range: String| store.try_at("get", "f1", &["-", "--range", &range]);
    assert!(range(format!("0:{start}")).expect(0).stdout == first[..start as usize]);
    let failed = range(format!("0:{}", start + 1)).expect(1);
    assert!(failed.stderr.contains("is not in the store"), "{}", failed.stderr);
    assert!(run(&["get".as_ref(), store.address("f1").as_os_str(), "-".as_ref()]).code == Some(1));
    store.put(&store.path("f1"), "again");
    store.verb("repair", &[]);
    assert!(store.read("f1") == first);
}

#[test]
fn one_repair_finds_all_copies() {
    let store = with_tree();
    let source = store.path("source");
    flip(&container_of_a_file(&store), 150_000);
    store.try_verb("verify", &["--data"]).expect(3);
    store.put_json(&source, "t");
    // A catalog that is made without an old one knows of no copies.
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(store.directory().join(format!("catalog.sqlite{suffix}")));
    }
    store.try_verb("verify", &["--rebuild-catalog"]).expect(3);
    let repaired = store.verb("repair", &["--json"]).json();
    assert!(repaired["lost"].as_array().unwrap().is_empty(), "{repaired}");
}

#[test]
fn a_container_that_lost_its_footer_is_replaced_by_collection() {
    let store = with_tree();
    let container = container_of_a_file(&store);
    let bytes = fs::metadata(&container).unwrap().len();
    fs::OpenOptions::new().write(true).open(&container).unwrap().set_len(bytes - 1).unwrap();
    let found = store.try_verb("verify", &[]).expect(3);
    assert!(found.stderr.contains("its footer cannot be read"), "{}", found.stderr);
    store.verb("collect", &[]);
    store.verb("verify", &["--data"]);
}

#[test]
fn nothing_waits_for_a_pipe_beside_the_catalog() {
    for suffix in ["-wal", "-shm", "-journal"] {
        let store = with_tree();
        let pipe = store.directory().join(format!("catalog.sqlite{suffix}"));
        let _ = fs::remove_file(&pipe);
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for (verb, code) in [("verify", 3), ("stats", 1), ("collect", 1)] {
            let refused = store.try_verb(verb, &[]).expect(code);
            assert!(refused.stderr.contains("no regular file"), "{suffix} {verb}: {}", refused.stderr);
        }
    }
}

/// It was never read, and the damage is seen all the same: a file's length is checked.
#[test]
fn putting_the_same_files_again_repairs_what_a_cut_container_lost() {
    let store = with_tree();
    let source = store.path("source");
    let container = container_of_a_file(&store);
    let bytes = fs::metadata(&container).unwrap().len();
    fs::OpenOptions::new().write(true).open(&container).unwrap().set_len(bytes / 2).unwrap();
    let again = store.put_json(&source, "t");
    assert!(again["files"].as_u64().unwrap() > 0, "{again}");
    store.verb("repair", &[]);
    for name in ["t/a", "t/b", "t/c"] {
        let address = store.address(name);
        let first = ["get".as_ref(), address.as_os_str(), "-".as_ref(), "--version".as_ref(), "1".as_ref()];
        assert_eq!(run(&first).expect(0).stdout, fs::read(source.join(&name[2..])).unwrap(), "{name}");
    }
    assert_eq!(store.put_json(&source, "t")["files"], 0, "what was healed is as it was");
    store.verb("collect", &[]);
    store.verb("verify", &["--data"]);
}

#[test]
fn a_put_through_a_node_reads_again_what_is_known_to_be_damaged() {
    let store = with_tree();
    let source = store.path("source");
    let node = Node::of(&store);
    let put = || {
        let address = format!("thalweg://{}::t", node.address);
        run(&["put".as_ref(), "--json".as_ref(), source.as_os_str(), address.as_ref()]).expect(0).json()["files"]
            .clone()
    };
    assert_eq!(put(), 0);
    flip(&container_of_a_file(&store), 150_000);
    store.try_verb("verify", &["--data"]).expect(3);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(put(), 1);
    store.verb("repair", &[]);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(put(), 0, "what was healed is as it was");
}

#[test]
fn a_forced_put_reads_and_heals_all_files() {
    let store = with_tree();
    let source = store.path("source");
    flip(&container_of_a_file(&store), 150_000);
    store.try_verb("verify", &["--data"]).expect(3);
    let address = store.address("t");
    let forced = ["put".as_ref(), "--force".as_ref(), "--json".as_ref(), source.as_os_str(), &address];
    assert_eq!(run(&forced).expect(0).json()["read_bytes"], 3 * 400_000);
    store.verb("repair", &[]);
    assert_eq!(store.read("t/a"), fs::read(source.join("a")).unwrap());
}

#[test]
fn a_forced_put_heals_damage_that_was_never_read() {
    let store = with_tree();
    let source = store.path("source");
    flip(&container_of_a_file(&store), 150_000);
    run(&["put".as_ref(), "--force".as_ref(), source.as_os_str(), &store.address("t")]).expect(0);
    assert_eq!(store.read("t/a"), fs::read(source.join("a")).unwrap());
    store.verb("repair", &[]);
}

#[test]
fn verify_names_the_versions_that_a_damaged_block_costs_until_they_are_healed() {
    let store = with_tree();
    flip(&container_of_a_file(&store), 150_000);
    let found = store.try_verb("verify", &[]).expect(3);
    assert!(found.stderr.contains("t/a version 1 cannot be read whole: the block of segment"), "{}", found.stderr);
    assert!(found.stderr.contains("everything not named above can be read"), "{}", found.stderr);
    assert!(!found.stderr.contains("t/b version") && !found.stderr.contains("t/c version"), "{}", found.stderr);
    run(&["get".as_ref(), store.address("t/a").as_os_str(), "-".as_ref()]).expect(1);
    run(&["put".as_ref(), "--force".as_ref(), store.path("source").as_os_str(), &store.address("again")]).expect(0);
    let healed = store.try_verb("verify", &[]).expect(3);
    assert!(
        healed.stderr.contains("all versions can be read: what is lost there is stored again"),
        "{}",
        healed.stderr
    );
    assert!(!healed.stderr.contains("version 1 cannot"), "{}", healed.stderr);
    assert!(healed.stderr.contains(" healed: copies elsewhere stand in"), "{}", healed.stderr);
    assert_eq!(store.read("t/a"), fs::read(store.path("source/a")).unwrap());
    let collected = store.json("collect");
    assert_eq!(collected["replaced"], 1, "{collected}");
    store.verb("verify", &["--data"]);
    store.verb("verify", &["--rebuild-catalog", "--data"]);
    assert_eq!(store.read("t/a"), fs::read(store.path("source/a")).unwrap());
}

#[test]
fn a_missing_container_is_found_and_named() {
    let store = with_tree();
    let container = store.containers().into_iter().find(|path| path.metadata().unwrap().len() > 300_000).unwrap();
    fs::remove_file(container).unwrap();
    let found = store.try_verb("verify", &[]).expect(3);
    assert!(found.stderr.contains("is missing"), "{}", found.stderr);
    assert!(found.stderr.contains("t/a version 1 cannot be read"), "{}", found.stderr);
}

#[test]
fn the_catalog_is_made_again_from_the_containers() {
    let store = with_tree();
    store.at("mv", "t/a", &[store.address("u/").to_str().unwrap()]);
    store.at("rm", "t/b", &[]);
    fs::write(store.path("source/c"), "a second version").unwrap();
    store.put(&store.path("source/c"), "t/c");
    let before = listing(&store);
    for name in ["catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"] {
        let _ = fs::remove_file(store.directory().join(name));
    }
    let refused = run(&["ls".as_ref(), store.address("").as_os_str()]).expect(1);
    assert!(refused.stderr.contains("--rebuild-catalog"), "{}", refused.stderr);
    store.verb("verify", &["--rebuild-catalog", "--data"]);
    assert_eq!(listing(&store), before);
    assert_eq!(store.read("t/c"), b"a second version");
    assert_eq!(store.read("u/a"), fs::read(store.path("source/a")).unwrap());
    store.put(&store.path("source"), "v");
    store.get("v", &store.path("copy"));
    assert_same(&snapshot(&store.path("source")), &snapshot(&store.path("copy")));
}

fn listing(store: &Store) -> String {
    store.at("ls", "", &["-lR"]).text()
}

#[test]
fn the_table_is_made_again_and_finds_duplicates_as_before() {
    let store = with_tree();
    fs::remove_dir_all(store.directory().join("table")).unwrap();
    store.verb("verify", &["--rebuild-table"]);
    let before = store.container_bytes();
    store.put(&store.path("source"), "again");
    assert!(store.container_bytes() < before + before / 100, "{before} grew to {}", store.container_bytes());
}

#[test]
fn a_full_disk_is_said_so_and_nothing_half_written_shows() {
    let store = Store::new();
    let room = store.path("room");
    fs::create_dir(&room).unwrap();
    let mount = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=12m", "none"]).arg(&room).output();
    if !mount.is_ok_and(|mount| mount.status.success()) {
        println!("no rights to mount a small file system; not tested");
        return;
    }
    let _unmount = Unmount(room.clone());
    let inner = room.join("st").into_os_string();
    let address = |path: &str| [inner.to_str().unwrap(), "::", path].concat();
    run(&["init".as_ref(), inner.as_os_str()]).expect(0);
    let mut random = Random::new(10);
    fs::write(store.path("small"), random.bytes(100_000)).unwrap();
    fs::write(store.path("big"), random.bytes(40 << 20)).unwrap();
    run(&["put".as_ref(), store.path("small").as_os_str(), address("small").as_ref()]).expect(0);
    let full = run(&["put".as_ref(), store.path("big").as_os_str(), address("big").as_ref()]).expect(1);
    assert!(full.stderr.contains("the disk is full") && full.stderr.lines().count() == 1, "{}", full.stderr);
    assert!(full.stderr.contains("nothing is known to be stored"), "{}", full.stderr);
    let listed = run(&["ls".as_ref(), address("").as_str().as_ref() as &std::ffi::OsStr]).expect(0);
    assert_eq!(listed.text(), "small\n");
    let read = run(&["get", address("small").as_str(), "-"]).expect(0);
    assert_eq!(read.stdout, fs::read(store.path("small")).unwrap());
}

#[test]
fn init_on_a_full_disk_leaves_nothing_and_can_be_run_again() {
    let scratch = tempfile::TempDir::new().unwrap();
    let room = scratch.path().to_owned();
    let mount = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "none"]).arg(&room).output();
    if !mount.is_ok_and(|mount| mount.status.success()) {
        println!("no rights to mount a small file system; not tested");
        return;
    }
    let _unmount = Unmount(room.clone());
    let (filler, new) = (room.join("filler"), room.join("new"));
    for kept in [8 << 10, 36 << 10, 100 << 10] {
        fs::write(&filler, vec![0; (2 << 20) - kept]).unwrap();
        let failed = run(&["init".as_ref(), new.as_os_str()]).expect(1);
        assert!(failed.stderr.contains("make room on the disk and run again"), "{failed:?}");
        assert!(!new.exists(), "{kept}");
    }
    fs::remove_file(&filler).unwrap();
    run(&["init".as_ref(), new.as_os_str()]).expect(0);
}

struct Unmount(std::path::PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Two versions of `f`, the first of which has a manifest of pages; and the container with that, with nothing else that
/// is needed.
fn with_a_manifest() -> (Store, PathBuf) {
    let store = Store::new();
    let content = Random::new(11).bytes(16 << 20);
    fs::write(store.path("f"), &content).unwrap();
    store.put(&store.path("f"), "g");
    let slices: Vec<u8> = content.chunks(16 << 10).rev().flatten().copied().collect();
    fs::write(store.path("f"), slices).unwrap();
    store.put(&store.path("f"), "f");
    let container = store.containers().last().unwrap().clone();
    fs::write(store.path("f"), "the second version").unwrap();
    store.put(&store.path("f"), "f");
    (store, container)
}

#[test]
fn collection_says_which_version_is_in_its_way_and_how_it_goes() {
    let (store, container) = with_a_manifest();
    fs::remove_file(container).unwrap();
    let refused = store.try_verb("collect", &[]).expect(1);
    assert!(refused.stderr.contains("f version 1 (") && !refused.stderr.contains("g version"), "{}", refused.stderr);
    let advice = format!("`thalweg forget {}::f --version 1`", store.directory().display());
    assert_eq!(refused.stderr.matches(&advice).count(), 1, "{}", refused.stderr);
    assert_eq!(refused.stderr.matches("thalweg verify").count(), 0, "{}", refused.stderr);
    run(&["forget".as_ref(), store.address("f").as_os_str(), "--version=2".as_ref()]).expect(1);
    run(&["forget".as_ref(), store.address("f").as_os_str(), "--version=7".as_ref()]).expect(1);
    assert_eq!(store.at("forget", "f", &["--version=1", "--json"]).json()["versions"], 1);
    store.verb("collect", &[]);
    assert_eq!(store.read("f"), b"the second version");
    store.verb("verify", &["--data"]);
}

#[test]
fn what_reads_everything_does_not_advise_itself() {
    let (store, container) = with_a_manifest();
    let bytes = fs::metadata(&container).unwrap().len() as usize;
    (0..bytes / 4096).for_each(|page| flip(&container, page * 4096 + 2000));
    for arguments in [&["verify"][..], &["verify", "--data"], &["repair"]] {
        let found = store.try_verb(arguments[0], &arguments[1..]).expect(3);
        assert!(!found.stderr.contains("lists what is affected"), "{}", found.stderr);
    }
}
