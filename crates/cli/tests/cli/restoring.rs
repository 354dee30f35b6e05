//! A restore stays in its destination, whatever lies there or in the store, and leaves nothing half-done.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use random::Random;

use super::runner::{Store, command, run};

fn get(store: &Store, path: &str, to: &Path, options: &[&str], code: i32) -> super::runner::Run {
    let mut arguments = vec!["get".into(), store.address(path), to.into()];
    arguments.extend(options.iter().map(Into::into));
    run(&arguments).expect(code)
}

/// A store that holds `tree/sub/deep/file` and `tree/other`.
fn with_tree() -> Store {
    let store = Store::new();
    let tree = store.path("tree");
    fs::create_dir_all(tree.join("sub/deep")).unwrap();
    fs::write(tree.join("sub/deep/file"), "stored").unwrap();
    fs::write(tree.join("other"), "stored too").unwrap();
    store.put(&tree, "tree");
    store
}

#[test]
fn a_link_in_the_destination_is_not_followed() {
    let store = with_tree();
    let (victim, copy) = (store.path("victim"), store.path("copy"));
    for link in ["sub", "sub/deep"] {
        let _ = fs::remove_dir_all(&copy);
        let _ = fs::remove_dir_all(&victim);
        fs::create_dir_all(victim.join("deep")).unwrap();
        fs::write(victim.join("deep/file"), "precious").unwrap();
        fs::create_dir_all(copy.join("tree").join(link).parent().unwrap()).unwrap();
        symlink(&victim, copy.join("tree").join(link)).unwrap();
        let done = get(&store, "tree", &copy, &[], 3);
        assert!(done.stderr.contains("a symbolic link or a file stands where"), "{}", done.stderr);
        assert_eq!(fs::read(victim.join("deep/file")).unwrap(), b"precious");
        assert!(!victim.join("file").exists() && fs::read_dir(&victim).unwrap().count() == 1);
        // The rest is there.
        assert_eq!(fs::read(copy.join("tree/other")).unwrap(), b"stored too");
    }
}

#[test]
fn a_directory_that_cannot_be_made_ends_what_is_below_it() {
    let store = with_tree();
    let copy = store.path("copy");
    fs::create_dir_all(copy.join("tree")).unwrap();
    fs::write(copy.join("tree/sub"), "a file").unwrap();
    let done = get(&store, "tree", &copy, &["--json"], 3).json();
    let failed = done["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0]["path"].as_str().unwrap().ends_with("tree/sub"), "{failed:?}");
    assert_eq!(fs::read(copy.join("tree/sub")).unwrap(), b"a file");
}

#[test]
fn a_file_of_the_links_name_takes_the_links_place() {
    let store = with_tree();
    let victim = store.path("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, store.path("other")).unwrap();
    get(&store, "tree/other", &store.path("other"), &[], 0);
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert!(!store.path("other").is_symlink());
    assert_eq!(fs::read(store.path("other")).unwrap(), b"stored too");
}

#[test]
fn the_users_own_way_to_the_destination_may_lead_through_links() {
    let store = with_tree();
    fs::create_dir(store.path("real")).unwrap();
    symlink(store.path("real"), store.path("link")).unwrap();
    get(&store, "tree", &store.path("link"), &[], 0);
    get(&store, "tree/other", &store.path("link/renamed"), &[], 0);
    assert!(store.path("real/tree/sub/deep/file").is_file() && store.path("real/renamed").is_file());
}

#[test]
fn devices_pipes_and_sockets_are_not_replaced() {
    let store = with_tree();
    let pipe = store.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    let socket = std::os::unix::net::UnixListener::bind(store.path("socket")).unwrap();
    symlink(&pipe, store.path("to-pipe")).unwrap();
    assert!(made.success());
    for name in ["pipe", "socket", "to-pipe"] {
        let refused = get(&store, "tree/other", &store.path(name), &[], 2);
        assert!(refused.stderr.contains("does not replace"), "{}", refused.stderr);
        assert!(!store.path(name).is_file());
    }
    drop(socket);
    // Within a tree, too.
    fs::create_dir_all(store.path("copy/tree")).unwrap();
    std::process::Command::new("mkfifo").arg(store.path("copy/tree/other")).status().unwrap();
    let done = get(&store, "tree", &store.path("copy"), &[], 3);
    assert!(done.stderr.contains("other"), "{}", done.stderr);
    assert!(!store.path("copy/tree/other").is_file() && store.path("copy/tree/sub/deep/file").is_file());
}

#[test]
fn setuid_bits_come_back_only_when_asked_for() {
    let store = Store::new();
    let source = store.path("tool");
    fs::write(&source, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o6755)).unwrap();
    store.put(&source, "tool");
    let mode = |name: &str| fs::metadata(store.path(name)).unwrap().permissions().mode() & 0o7777;
    let done = get(&store, "tool", &store.path("plain"), &[], 0);
    assert!(done.stderr.contains("--privileged"), "{}", done.stderr);
    assert_eq!(mode("plain"), 0o755);
    get(&store, "tool", &store.path("privileged"), &["--privileged"], 0);
    assert_eq!(mode("privileged"), 0o6755);
}

#[test]
fn directories_come_back_without_special_bits_and_each_kind_of_what_is_left_out_is_counted() {
    let store = Store::new();
    let tree = store.path("tree");
    fs::create_dir_all(tree.join("all")).unwrap();
    fs::create_dir_all(tree.join("sticky")).unwrap();
    fs::write(tree.join("tool"), "#!/bin/sh\n").unwrap();
    for (name, mode) in [("all", 0o7777), ("sticky", 0o1777), ("tool", 0o4755)] {
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    store.put(&tree, "tree");
    let mode = |copy: &str, name: &str| fs::metadata(store.path(copy).join(name)).unwrap().mode() & 0o7777;
    let done = get(&store, "tree", &store.path("plain"), &["--json"], 0);
    // Only the owner writes where the sticky bit kept others from each other's files.
    assert_eq!((mode("plain", "all"), mode("plain", "sticky"), mode("plain", "tool")), (0o755, 0o755, 0o755));
    let kinds = serde_json::json!({ "setuid or setgid bit": 2, "sticky bit": 2 });
    assert_eq!(done.json()["left_out"], kinds);
    for kind in ["its setuid or setgid bit (--privileged", "its sticky bit (--privileged"] {
        assert_eq!(done.stderr.matches(kind).count(), 1, "{}", done.stderr);
    }
    let message = get(&store, "tree", &store.path("message"), &[], 0).text();
    assert!(message.contains("left out: 2 setuid or setgid bits, 2 sticky bits"), "{message}");
    get(&store, "tree", &store.path("privileged"), &["--privileged"], 0);
    assert_eq!((mode("privileged", "all"), mode("privileged", "sticky")), (0o7777, 0o1777));
}

#[test]
fn a_destination_that_takes_nothing_fails_the_whole_restore() {
    let store = with_tree();
    // A file stands where the directory of all files belongs.
    fs::create_dir_all(store.path("copy")).unwrap();
    fs::write(store.path("copy/tree"), "a file").unwrap();
    let done = get(&store, "tree", &store.path("copy"), &[], 1);
    assert!(
        done.stderr.contains("nothing was fetched") && !done.stderr.contains("the rest is there"),
        "{}",
        done.stderr
    );
}

#[test]
fn directories_above_what_is_put_have_the_time_of_their_making() {
    let store = with_tree();
    store.put(&store.path("tree/other"), "made/by/the/way/file");
    for directory in ["made", "made/by", "made/by/the/way"] {
        let listed = run(&["--json".as_ref(), "stat".as_ref(), store.address(directory).as_os_str()]).expect(0).json();
        assert!(!listed.to_string().contains("1970-01-01"), "{listed}");
    }
}

#[test]
fn names_that_are_taken_are_replaced_at_once() {
    let store = with_tree();
    symlink("somewhere", store.path("tree/link")).unwrap();
    fs::hard_link(store.path("tree/other"), store.path("tree/sub/again")).unwrap();
    store.put(&store.path("tree"), "tree");
    for _ in 0..2 {
        get(&store, "tree", &store.path("copy/"), &[], 0);
        assert_eq!(fs::read_link(store.path("copy/tree/link")).unwrap(), Path::new("somewhere"));
        assert_eq!(fs::read(store.path("copy/tree/sub/again")).unwrap(), b"stored too");
        assert_eq!(drafts(&store.path("copy")), Vec::<String>::new());
    }
}

#[test]
fn a_killed_get_leaves_nothing_that_stays() {
    let store = Store::new();
    let source = store.path("large");
    fs::write(&source, Random::new(5).bytes(64 << 20)).unwrap();
    store.put(&source, "large");
    let copy = store.path("copy");
    fs::create_dir(&copy).unwrap();
    for delay_ms in [20, 60, 120] {
        let mut child =
            command(&["get".as_ref(), store.address("large").as_os_str(), copy.as_os_str()]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(drafts(&copy), Vec::<String>::new());
    }
    // On file systems where a draft has a name: the next run removes old and unlocked ones.
    let leftover = copy.join(".thalweg-get-999999-1");
    fs::write(&leftover, "half").unwrap();
    let old = std::process::Command::new("touch").args(["-d", "2 hours ago"]).arg(&leftover).status().unwrap();
    assert!(old.success());
    get(&store, "large", &copy, &[], 0);
    assert!(!leftover.exists());
}

fn drafts(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(drafts(&entry.path()));
        } else if name.starts_with(".thalweg") {
            found.push(name);
        }
    }
    found
}

/// On a disk: file systems in memory know these times too, but programs keep files on disks.
#[test]
fn times_before_1970_and_after_2262_are_kept() {
    let folder = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
    let store = Store::new();
    for (name, seconds, nanoseconds) in [("late", 10_413_792_000, 123_456_789), ("early", -1_000_000_000, 5)] {
        let file = folder.path().join(name);
        fs::write(&file, name).unwrap();
        let modified = rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
        let times = rustix::fs::Timestamps { last_access: modified, last_modification: modified };
        rustix::fs::utimensat(rustix::fs::CWD, &file, &times, rustix::fs::AtFlags::empty()).unwrap();
        let kept = |path: &Path| fs::metadata(path).map(|found| (found.mtime(), found.mtime_nsec())).unwrap();
        if kept(&file) != (seconds, nanoseconds) {
            eprintln!("the file system below /var/tmp does not know this time");
            continue;
        }
        // A file that has just changed is read again next time.
        std::thread::sleep(Duration::from_millis(50));
        store.put(&file, name);
        assert_eq!(store.put_json(&file, name)["unchanged"], 1, "{name} is as it was put");
        let back = folder.path().join("back");
        store.get(name, &back);
        assert_eq!(kept(&back), (seconds, nanoseconds), "{name}");
        fs::remove_file(back).unwrap();
        let shown = store.at("stat", name, &["--json"]).json();
        let said = shown["modified"].as_str().unwrap();
        assert!(
            said.starts_with(if seconds < 0 {
                "1938-04-24T22:13:20.000000005Z"
            } else {
                "2300-01-01T00:00:00.123456789Z"
            }),
            "{said}"
        );
        let expected = seconds as i128 * 1_000_000_000 + nanoseconds as i128;
        assert_eq!(shown["modified_ns"].to_string(), expected.to_string());
    }
}

#[test]
fn two_places_with_one_name_are_not_fetched_into_one() {
    let store = Store::new();
    let source = store.path("source");
    for place in ["m1/f", "m2/f"] {
        std::fs::write(&source, place).unwrap();
        store.put(&source, place);
    }
    let (first, second, to) = (store.address("m1/f"), store.address("m2/f"), store.path("to"));
    let refused = run(&["get".as_ref(), first.as_os_str(), second.as_os_str(), to.as_os_str()]).expect(2);
    assert!(refused.stderr.contains("would both be") && !to.join("f").exists(), "{}", refused.stderr);
    run(&["get".as_ref(), first.as_os_str(), first.as_os_str(), to.as_os_str()]).expect(0);
}
