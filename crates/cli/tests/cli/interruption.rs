//! kill -9 at any moment: what was committed stays, nothing half-done shows, and the next run finishes the work.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::random::Random;
use super::runner::{Store, command, run};
use super::snapshot::{assert_same, snapshot};

fn tree(root: &Path, random: &mut Random) {
    for directory in 0..20 {
        let directory = root.join(format!("d{directory}"));
        fs::create_dir_all(&directory).unwrap();
        for file in 0..30 {
            let bytes = random.below(200_000) as usize;
            fs::write(directory.join(format!("f{file}")), random.bytes(bytes)).unwrap();
        }
    }
}

/// Starts a put and kills it after a while; whether it was still running then.
fn put_and_kill(store: &Store, source: &Path, options: &[&str], after: Duration) -> bool {
    let mut arguments = vec!["put".into(), "--quiet".into()];
    arguments.extend(options.iter().map(std::ffi::OsString::from));
    arguments.extend([source.as_os_str().to_owned(), store.place("t")]);
    let mut child = command(&arguments).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    let was_running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    was_running
}

#[test]
fn a_killed_put_leaves_a_clean_store_and_the_next_one_finishes() {
    let mut random = Random::fresh();
    let store = Store::new();
    let source = store.path("source");
    tree(&source, &mut random);
    for _ in 0..6 {
        put_and_kill(&store, &source, &[], Duration::from_millis(random.below(400)));
        store.verb("verify", &["--data"]);
    }
    store.put(&source, "t");
    store.get("t", &store.path("copy"));
    assert_same(&snapshot(&source), &snapshot(&store.path("copy")));
    store.verb("collect", &[]);
    store.verb("verify", &["--data"]);
}

#[test]
fn an_atomic_put_shows_all_or_nothing() {
    let mut random = Random::fresh();
    let store = Store::new();
    let source = store.path("source");
    tree(&source, &mut random);
    for _ in 0..4 {
        let was_running = put_and_kill(&store, &source, &["--atomic"], Duration::from_millis(random.below(150)));
        let files = store.json("stats")["files"].as_u64().unwrap();
        assert!(files == 600 || (was_running && files == 0), "{files} files are there");
    }
    let done = run(&["put".as_ref(), "--atomic".as_ref(), "--json".as_ref(), source.as_os_str(), &store.place("t")]);
    assert!(done.expect(0).json()["commits"].as_u64().unwrap() <= 1);
    store.get("t", &store.path("copy"));
    assert_same(&snapshot(&source), &snapshot(&store.path("copy")));
}

#[test]
fn a_killed_get_leaves_no_half_file_under_its_name() {
    let mut random = Random::fresh();
    let store = Store::new();
    let source = store.path("source");
    tree(&source, &mut random);
    store.put(&source, "t");
    let copy = store.path("copy");
    for _ in 0..4 {
        let arguments = ["get".into(), store.place("t"), copy.clone().into_os_string()];
        fs::create_dir_all(&copy).unwrap();
        let mut child = command(&arguments).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(random.below(100)));
        child.kill().unwrap();
        child.wait().unwrap();
        for path in super::runner::files_below(&copy.join("t")) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let twin = source.join(path.strip_prefix(copy.join("t")).unwrap());
            assert!(name.starts_with(".thalweg-") || fs::read(&path).unwrap() == fs::read(twin).unwrap(), "{path:?}");
        }
        fs::remove_dir_all(&copy).unwrap();
    }
}
