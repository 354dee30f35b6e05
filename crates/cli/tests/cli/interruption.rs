//! kill -9 at any moment: commits stay, nothing half-done shows, and the next run finishes the work.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use random::Random;

use super::runner::{Run, Store, command, run};
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
    arguments.extend([source.as_os_str().to_owned(), store.address("t")]);
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
    let done = run(&["put".as_ref(), "--atomic".as_ref(), "--json".as_ref(), source.as_os_str(), &store.address("t")]);
    assert!(done.expect(0).json()["commits"].as_u64().unwrap() <= 1);
    store.get("t", &store.path("copy"));
    assert_same(&snapshot(&source), &snapshot(&store.path("copy")));
}

#[test]
fn an_interrupted_get_says_so_and_leaves_whole_files() {
    let mut random = Random::fresh();
    let store = Store::new();
    let source = store.path("source");
    for _ in 0..5 {
        tree(&source, &mut random);
        store.put(&source, "t");
        let copy = store.path("copy");
        let _ = fs::remove_dir_all(&copy);
        let mut get = command(&["get".into(), store.address("t"), copy.clone().into_os_string()]);
        let get = get.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while !copy.join("d0").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(Command::new("kill").args(["-INT", &get.id().to_string()]).status().unwrap().success());
        let done: Run = get.wait_with_output().unwrap().into();
        if done.code == Some(0) {
            // It was done before its signal.
            continue;
        }
        let done = done.expect(130);
        assert!(done.stderr.contains("interrupted: ") && done.text().contains("got "), "{done:?}");
        for file in super::runner::files_below(&copy) {
            let below = file.strip_prefix(&copy).unwrap();
            assert!(fs::read(&file).unwrap() == fs::read(source.join(below)).unwrap(), "{below:?}");
        }
        store.get("t", &copy.join(""));
        return;
    }
    panic!("every get was done before its signal");
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
        let arguments = ["get".into(), store.address("t"), copy.clone().into_os_string()];
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

/// Starts a put, and sends it SIGINT as soon as something of it is stored.
fn put_and_interrupt(store: &Store, source: &Path, options: &[&str], prepare: impl FnOnce(&mut Command)) -> Run {
    let mut arguments: Vec<std::ffi::OsString> = vec!["put".into()];
    arguments.extend(options.iter().map(std::ffi::OsString::from));
    arguments.extend([source.as_os_str().to_owned(), store.address("t")]);
    let mut command = command(&arguments);
    prepare(&mut command);
    let before = store.container_bytes();
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    while store.container_bytes() == before && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    // SAFETY: the process is ours, and was not waited for, so that the number is its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    child.wait_with_output().unwrap().into()
}

/// A put of new content that a SIGINT came in time for: a fast machine may have stored all before.
fn interrupted(store: &Store, source: &Path, random: &mut Random, options: &[&str]) -> Run {
    for _ in 0..8 {
        much(source, random);
        let put = put_and_interrupt(store, source, options, in_the_background);
        if put.code != Some(0) {
            return put.expect(130);
        }
        run(&["rm".as_ref(), "-r".as_ref(), store.address("t").as_os_str()]).expect(0);
    }
    panic!("every put ended before its signal");
}

/// Lowers the command's priority, so that the watching test runs first.
fn in_the_background(command: &mut Command) {
    let nice = || {
        // SAFETY: a system call.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
        Ok(())
    };
    // SAFETY: between fork and exec only a system call is made.
    unsafe { command.pre_exec(nice) };
}

/// More than is put in a moment.
fn much(root: &Path, random: &mut Random) {
    fs::create_dir_all(root).unwrap();
    for file in 0..64 {
        fs::write(root.join(format!("f{file}")), random.bytes(4 << 20)).unwrap();
    }
}

#[test]
fn an_interrupted_put_commits_what_it_has_read_and_says_so() {
    let mut random = Random::fresh();
    let store = Store::new();
    let source = store.path("source");
    let nothing = interrupted(&store, &source, &mut random, &["--atomic"]);
    assert!(nothing.stderr.contains("interrupted: nothing was stored"), "{}", nothing.stderr);
    assert_eq!(store.json("stats")["files"], 0);
    let done = interrupted(&store, &source, &mut random, &["--json"]);
    let files = done.json()["files"].as_u64().unwrap();
    assert_eq!(done.json()["interrupted"], true);
    assert_eq!(store.json("stats")["files"].as_u64().unwrap(), files);
    if (1..64).contains(&files) {
        assert!(done.stderr.contains("the rest is not; run the same command again"), "{}", done.stderr);
    }
    store.put(&source, "t");
    store.get("t", &store.path("copy"));
    assert_same(&snapshot(&source), &snapshot(&store.path("copy")));
    store.verb("verify", &["--data"]);
}

#[test]
fn a_put_that_was_started_to_ignore_signals_is_not_interrupted() {
    let mut random = Random::fresh();
    let store = Store::new();
    let source = store.path("source");
    much(&source, &mut random);
    let ignore = || {
        // SAFETY: no handler is set.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
        Ok(())
    };
    let prepare = |command: &mut Command| {
        // SAFETY: between fork and exec only a system call is made.
        unsafe { command.pre_exec(ignore) };
    };
    put_and_interrupt(&store, &source, &[], prepare).expect(0);
    assert_eq!(store.json("stats")["files"], 64);
}
