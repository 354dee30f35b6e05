//! Many threads and processes on one catalog file, some of them killed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::catalog::{Error, LocalCatalog, Names, SqliteCatalog};
use crate::{commit, opened, path, scratch, writer, written};
use format::StorePath;

/// Set for a copy of this program that commits until it is killed, or the given number of times.
const CHILD_FILE: &str = "CATALOG_CHILD_FILE";
const CHILD_COMMITS: &str = "CATALOG_CHILD_COMMITS";

fn spawn_child(file: &Path, commits: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sharing::child", "--nocapture", "--test-threads=1"])
        .env(CHILD_FILE, file)
        .env(CHILD_COMMITS, commits.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Not a test by itself: the body of the processes the tests start.
#[test]
fn child() {
    let Some(file) = std::env::var_os(CHILD_FILE) else { return };
    let commits: u64 = std::env::var(CHILD_COMMITS).unwrap().parse().unwrap();
    let catalog = SqliteCatalog::open(Path::new(&file), true).unwrap();
    let session = writer(&catalog);
    for count in 0..commits {
        let name = format!("by/{}/{count}", session.0);
        let done = commit(&catalog, session, vec![written(&name, 1, None), written("log", count, None)]).unwrap();
        writeln!(std::io::stdout(), "committed {}", done.numbers[1].1).unwrap();
    }
}

/// Returns the last version of "log" the child reported as committed.
fn last_acknowledged(child: &mut Child) -> u64 {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let numbers = lines.map_while(Result::ok).filter_map(|line| line.split("committed ").nth(1)?.trim().parse().ok());
    numbers.last().unwrap_or(0)
}

/// Checks that "log" has one version for each file below "by".
fn assert_whole(catalog: &dyn LocalCatalog) -> u64 {
    let Ok(versions) = catalog.versions(&path("log")) else { return 0 };
    let below = catalog.list(&path("by"), true, None, usize::MAX).unwrap();
    let files = below.iter().filter(|(_, entry)| entry.head.is_some()).count();
    assert_eq!(files, versions.len(), "a commit was torn");
    let numbers: Vec<_> = versions.iter().map(|version| version.number).collect();
    assert_eq!(numbers, (1..=versions.len() as u64).collect::<Vec<_>>());
    versions.len() as u64
}

#[test]
fn what_was_committed_survives_a_killed_process() {
    let directory = scratch();
    let file = directory.path().join("catalog");
    let mut before = 0;
    for round in 0..8 {
        let mut child = spawn_child(&file, u64::MAX);
        std::thread::sleep(Duration::from_millis(30 + 23 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = last_acknowledged(&mut child);
        let found = assert_whole(&opened(&file));
        assert!(found >= acknowledged.max(before), "round {round}: {acknowledged} acknowledged, {found} found");
        before = found;
    }
    assert!(before > 0, "no child committed anything");
    let catalog = opened(&file);
    commit(&catalog, writer(&catalog), vec![written("after", 1, None)]).unwrap();
}

#[test]
fn processes_take_turns() {
    let directory = scratch();
    let file = directory.path().join("catalog");
    let children: Vec<_> = (0..4).map(|_| spawn_child(&file, 100)).collect();
    for mut child in children {
        last_acknowledged(&mut child);
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(assert_whole(&opened(&file)), 400);
}

#[test]
fn no_update_is_lost_between_two_catalogs_on_one_file() {
    let directory = scratch();
    let file = directory.path().join("catalog");
    let catalogs = [opened(&file), opened(&file)];
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers = [0, 1].map(|one| {
            scope.spawn({
                let (catalogs, done) = (&catalogs, &done);
                move || read_until(&catalogs[one], done)
            })
        });
        let writers: Vec<_> = (0..8)
            .map(|one| {
                scope.spawn({
                    let catalogs = &catalogs;
                    move || count_up(&catalogs[one % 2], 25)
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    let versions = catalogs[0].versions(&path("counter")).unwrap();
    assert_eq!(versions.len(), 200);
    for version in versions {
        assert_eq!(version.record.size, version.number, "each added one to what it had read");
    }
}

/// Adds one to the size of "counter", `times` over, each time based on the head it read.
fn count_up(catalog: &dyn LocalCatalog, times: usize) {
    let session = writer(catalog);
    let mut done = 0;
    while done < times {
        let entry = catalog.entry(&path("counter")).unwrap();
        let base = entry.as_ref().and_then(|entry| entry.head_id());
        let size = entry.and_then(|entry| entry.head).map_or(0, |head| head.record.size);
        match commit(catalog, session, vec![written("counter", size + 1, Some(base))]) {
            Ok(_) => done += 1,
            Err(Error::HeadMoved { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

fn read_until(catalog: &dyn LocalCatalog, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        catalog.list(&StorePath::root(), true, None, 99).unwrap();
        catalog.statistics().unwrap();
    }
}
