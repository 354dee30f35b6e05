//! Earlier versions as they were: with their own mode and times, by number and by time.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::node::Node;
use super::runner::{Run, Store, run};

fn get(address: &std::ffi::OsStr, options: &[&str], to: &Path) -> Run {
    let mut arguments: Vec<&std::ffi::OsStr> = vec!["get".as_ref()];
    arguments.extend(options.iter().map(std::ffi::OsStr::new));
    arguments.extend([address, to.as_os_str()]);
    run(&arguments)
}

fn write(path: &Path, content: &str, mode: u32, modified_s: u64) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(modified_s);
    fs::File::options().read(true).open(path).unwrap().set_modified(modified).unwrap();
}

fn assert_is(path: &Path, content: &str, mode: u32, modified_s: i64) {
    let found = path.metadata().unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), content);
    assert_eq!((found.mode() & 0o7777, found.mtime()), (mode, modified_s), "{content}");
}

/// `t/f` with four versions, of which the third differs from the second in its mode alone, the times in seconds between
/// the first commits, and `t/late` that came with the last.
fn begun() -> (Store, [String; 2]) {
    let store = Store::new();
    let source = store.path("source");
    fs::create_dir(&source).unwrap();
    let mut times = Vec::new();
    for (content, mode, modified_s) in [("one", 0o600, 1_000_000_000), ("the second", 0o644, 1_100_000_000)] {
        write(&source.join("f"), content, mode, modified_s);
        store.put(&source, "t");
        // Committed in a second before those of the next.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        times.push(format!("@{now}"));
        std::thread::sleep(Duration::from_millis(1100));
    }
    fs::set_permissions(source.join("f"), fs::Permissions::from_mode(0o640)).unwrap();
    store.put(&source, "t");
    write(&source.join("f"), "and the third", 0o444, 1_200_000_000);
    write(&source.join("late"), "late", 0o600, 1_200_000_000);
    store.put(&source, "t");
    (store, times.try_into().unwrap())
}

fn assert_versions(store: &Store, address: &std::ffi::OsStr) {
    for (number, content, mode, modified_s) in [
        ("1", "one", 0o600, 1_000_000_000),
        ("2", "the second", 0o644, 1_100_000_000),
        ("3", "the second", 0o640, 1_100_000_000),
        ("4", "and the third", 0o444, 1_200_000_000),
    ] {
        let to = store.path(&format!("version {number}"));
        let _ = fs::remove_file(&to);
        get(address, &["--version", number], &to).expect(0);
        assert_is(&to, content, mode, modified_s);
    }
}

#[test]
fn a_version_comes_back_with_its_own_mode_and_times() {
    let (store, _) = begun();
    assert_versions(&store, &store.address("t/f"));
    store.verb("verify", &[]);
    store.verb("verify", &["--rebuild-catalog"]);
    assert_versions(&store, &store.address("t/f"));
    let node = Node::of(&store);
    assert_versions(&store, std::ffi::OsStr::new(&format!("thalweg://{}::t/f", node.address)));
}

#[test]
fn a_tree_comes_back_as_it_was_at_a_time() {
    let (store, [first, second]) = begun();
    let to = store.path("then");
    get(&store.address("t"), &["--at", &first], &to).expect(0);
    assert_is(&to.join("f"), "one", 0o600, 1_000_000_000);
    assert!(!to.join("late").exists());
    get(&store.address("t"), &["--at", &second], &store.path("later")).expect(0);
    assert_is(&store.path("later/f"), "the second", 0o644, 1_100_000_000);
    assert_eq!(store.at("ls", "t", &["--at", &first]).text(), "f\n");
    assert!(store.at("ls", "t", &["-l", "--at", &first]).text().starts_with("-rw-------"));
    assert_eq!(store.at("ls", "t", &["--at", "0s"]).text(), "f\nlate\n");
    let done = get(&store.address("t/f"), &["--at", "1999-01-01"], &store.path("none")).expect(1);
    assert!(done.stderr.contains("no version at that time"), "{}", done.stderr);
    get(&store.address("t/f"), &["--at", "yesterday"], &store.path("none")).expect(2);
}
