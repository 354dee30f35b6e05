//! A catalog that does not go with its containers: an older copy, another store's, one that went on apart. It is noticed,
//! nothing is written by it, and it is made again. Damaged ones are in `damaged_catalog`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use random::Random;

use super::node::Node;
use super::runner::{Run, Store, command, run};

pub const CATALOG: [&str; 3] = ["catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"];

pub fn with_files(names: &[&str]) -> Store {
    let store = Store::new();
    names.iter().for_each(|name| drop(put(&store, name).expect(0)));
    store
}

/// Puts a file of that name, with content of its own.
pub fn put(store: &Store, name: &str) -> Run {
    let file = store.path(name);
    let mut random = Random::new(name.bytes().map(u64::from).sum());
    fs::write(&file, random.bytes(60_000)).unwrap();
    run(&["put".as_ref(), file.as_os_str(), &store.address(name)])
}

/// Copies the catalog's files that are there, and takes away those that are not.
fn copy_catalog(from: &Path, to: &Path, names: &[&str]) {
    fs::create_dir_all(to).unwrap();
    for name in names {
        match fs::copy(from.join(name), to.join(name)) {
            Ok(_) => {}
            Err(_) => drop(fs::remove_file(to.join(name))),
        }
    }
}

/// Every way to change the store, and to collect it, is refused, and says what to do; nothing is lost by it.
#[track_caller]
pub fn refuses_and_is_made_again(store: &Store, why: &str, names: &str) {
    for refused in [
        put(store, "c"),
        run(&["rm".as_ref(), store.address("a").as_os_str()]),
        store.try_verb("collect", &[]),
        run(&["ls".as_ref(), store.address("").as_os_str()]),
        run(&["get".as_ref(), store.address("a").as_os_str(), "-".as_ref()]),
    ] {
        let refused = refused.expect(1);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
        assert!(refused.stderr.contains("thalweg verify --rebuild-catalog"), "{}", refused.stderr);
        assert!(refused.stdout.is_empty());
    }
    let found = store.try_verb("verify", &["--data"]).expect(3);
    assert!(found.stderr.contains(why), "{}", found.stderr);
    store.verb("verify", &["--rebuild-catalog", "--data"]);
    assert_eq!(store.at("ls", "", &[]).text(), names);
    for name in names.lines() {
        assert_eq!(store.read(name), fs::read(store.path(name)).unwrap());
    }
    put(store, "c").expect(0);
    store.verb("collect", &[]);
    store.verb("verify", &["--data"]);
}

#[test]
fn an_older_copy_of_the_catalog_is_refused_and_verify_names_what_it_misses() {
    let store = with_files(&["a"]);
    let old = store.path("old");
    copy_catalog(&store.directory(), &old, &CATALOG);
    put(&store, "b").expect(0);
    copy_catalog(&old, &store.directory(), &CATALOG);
    let found = store.try_verb("verify", &[]).expect(3);
    assert!(found.stderr.contains("b: the catalog does not have it, the journal in the containers does"), "{found:?}");
    refuses_and_is_made_again(&store, "it is an older copy", "a\nb\n");
}

/// A copy of the store that goes on apart from it: the one has `b` in transaction 2 and container 2, the other `other`.
fn with_another_branch() -> (Store, PathBuf) {
    let store = with_files(&["a"]);
    let branch = store.path("branch");
    let copied = std::process::Command::new("cp").arg("-a").args([&store.directory(), &branch]).status().unwrap();
    assert!(copied.success());
    put(&store, "b").expect(0);
    fs::write(store.path("other"), "went elsewhere").unwrap();
    run(&["put".as_ref(), store.path("other").as_os_str(), &in_branch(&branch, "other")]).expect(0);
    (store, branch)
}

fn in_branch(branch: &Path, name: &str) -> OsString {
    format!("{}::{name}", branch.display()).into()
}

#[test]
fn a_catalog_that_went_on_apart_with_as_many_transactions_or_more_is_refused() {
    for more_transactions in [0, 3] {
        let (store, branch) = with_another_branch();
        (0..more_transactions).for_each(|_| drop(run(&["ls".into(), in_branch(&branch, "")]).expect(0)));
        copy_catalog(&branch, &store.directory(), &CATALOG);
        refuses_and_is_made_again(&store, "it went on apart from its containers: transaction 2", "a\nb\n");
    }
}

#[test]
fn a_catalog_made_from_containers_that_the_mark_does_not_name_is_believed() {
    let (store, branch) = with_another_branch();
    let container = container_path(Path::new(""), 2);
    fs::copy(branch.join(&container), store.directory().join(&container)).unwrap();
    copy_catalog(&branch, &store.directory(), &CATALOG);
    let refused = run(&["ls".into(), store.address("")]).expect(1);
    assert!(refused.stderr.contains("it went on apart"), "{refused:?}");
    let rebuilt = store.try_verb("verify", &["--rebuild-catalog"]).expect(3);
    assert!(rebuilt.stderr.contains("transaction 2 of the journal is in no container"), "{rebuilt:?}");
    assert_eq!(store.at("ls", "", &[]).text(), "a\nother\n");
    store.verb("verify", &["--data"]);
    put(&store, "c").expect(0);
    store.verb("collect", &[]);
}

#[test]
fn an_older_catalog_is_noticed_without_the_mark_by_its_containers() {
    let store = with_files(&["a"]);
    let old = store.path("old");
    copy_catalog(&store.directory(), &old, &CATALOG);
    put(&store, "b").expect(0);
    copy_catalog(&old, &store.directory(), &CATALOG);
    fs::remove_file(store.directory().join("journal.mark")).unwrap();
    refuses_and_is_made_again(&store, "it does not know container", "a\nb\n");
}

#[test]
fn a_catalog_that_was_copied_while_a_node_wrote_is_an_older_copy_too() {
    let store = with_files(&["a"]);
    let reader = rusqlite::Connection::open(store.directory().join(CATALOG[0])).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM names;").unwrap();
    // The reader keeps the log from being moved into the file: file and log are copied together.
    put(&store, "x").expect(0);
    let old = store.path("old");
    copy_catalog(&store.directory(), &old, &CATALOG);
    assert!(old.join(CATALOG[1]).metadata().unwrap().len() > 0);
    put(&store, "b").expect(0);
    drop(reader);
    copy_catalog(&old, &store.directory(), &CATALOG);
    refuses_and_is_made_again(&store, "it is an older copy", "a\nb\nx\n");
}

/// Files `a` and `b` through a node into one container, and the catalog as it was before `b`, without a mark.
fn with_a_catalog_that_a_node_left_behind(end: impl FnOnce(Node)) -> Store {
    let store = Store::new();
    let node = Node::of(&store);
    put_through(&node, &store, "a");
    let old = store.path("old");
    copy_catalog(&store.directory(), &old, &CATALOG);
    put_through(&node, &store, "b");
    end(node);
    copy_catalog(&old, &store.directory(), &CATALOG);
    fs::remove_file(store.directory().join("journal.mark")).unwrap();
    let of_content = store.containers().into_iter().filter(|path| path.metadata().unwrap().len() > 10_000);
    assert_eq!(of_content.count(), 1, "the older catalog knows the container that has `b`");
    store
}

fn put_through(node: &Node, store: &Store, name: &str) {
    let mut random = Random::new(name.bytes().map(u64::from).sum());
    fs::write(store.path(name), random.bytes(60_000)).unwrap();
    let address = format!("thalweg://{}::{name}", node.address);
    run(&["put".as_ref(), store.path(name).as_os_str(), address.as_ref()]).expect(0);
}

#[test]
fn an_older_catalog_is_noticed_by_the_last_records_of_containers_that_a_killed_node_wrote() {
    let store = with_a_catalog_that_a_node_left_behind(drop);
    refuses_and_is_made_again(&store, "is not one of its own", "a\nb\n");
}

#[test]
fn an_older_catalog_is_noticed_by_the_last_records_of_containers_that_were_sealed_since() {
    let store = with_a_catalog_that_a_node_left_behind(Node::terminate);
    refuses_and_is_made_again(&store, "is not one of its own", "a\nb\n");
}

#[test]
fn collection_deletes_nothing_by_an_older_catalog_that_opening_takes_for_the_newest() {
    let store = with_a_catalog_that_a_node_left_behind(drop);
    let catalog = rusqlite::Connection::open(store.directory().join(CATALOG[0])).unwrap();
    // As if the session had ended before the copy was made; changes that an older program does not notice go on.
    let ended = "UPDATE counters SET writing = 1; UPDATE containers SET opener = NULL, state = 1;
        UPDATE counters SET writing = 0;";
    catalog.execute_batch(ended).unwrap();
    drop(catalog);
    run(&["rm".as_ref(), store.address("a").as_os_str()]).expect(0);
    let before = store.containers();
    let refused = store.try_verb("collect", &[]).expect(1);
    assert!(
        refused.stderr.contains("is not one of its own") && refused.stderr.contains("--rebuild-catalog"),
        "{refused:?}"
    );
    assert_eq!(store.containers(), before);
    let found = store.try_verb("verify", &[]).expect(3);
    assert!(found.stderr.contains("not its own"), "{found:?}");
    assert!(found.stderr.contains("b: the catalog does not have it, the journal in the containers does"), "{found:?}");
    // The removal has the number of a transaction that the older catalog did not know.
    let rebuilt = store.try_verb("verify", &["--rebuild-catalog", "--data"]).expect(3);
    assert!(rebuilt.stderr.contains("a: transaction 2 is in the journal twice"), "{rebuilt:?}");
    for name in ["a", "b"] {
        assert_eq!(store.read(name), fs::read(store.path(name)).unwrap());
    }
    store.verb("verify", &["--data"]);
    store.verb("collect", &[]);
    assert_eq!(store.read("b"), fs::read(store.path("b")).unwrap());
}

/// A store with `first`, then `names`, whose node was killed with a log that was begun after them; and the catalog's file as
/// it was with `first` alone.
fn killed_with_a_log(first: &str, names: &[&str], last: &str) -> (Store, PathBuf) {
    let store = with_files(&[first]);
    let old = store.path("old");
    copy_catalog(&store.directory(), &old, &CATALOG);
    names.iter().for_each(|name| drop(put(&store, name).expect(0)));
    let node = Node::of(&store);
    put_through(&node, &store, last);
    drop(node);
    assert!(store.directory().join(CATALOG[1]).metadata().unwrap().len() > 0, "a log was left");
    (store, old)
}

#[test]
fn an_older_catalog_beside_the_log_of_a_killed_node_is_refused() {
    let (store, old) = killed_with_a_log("a", &["b", "x"], "y");
    copy_catalog(&old, &store.directory(), &CATALOG[..1]);
    fs::remove_file(store.directory().join(CATALOG[2])).unwrap();
    for _ in 0..2 {
        let refused = store.try_verb("collect", &[]).expect(1);
        assert!(refused.stderr.contains("put beside the log"), "closing mixes nothing: {refused:?}");
    }
    refuses_and_is_made_again(
        &store,
        "it is an older copy, put beside the log (catalog.sqlite-wal) of a newer one",
        "a\nb\nx\ny\n",
    );
}

#[test]
fn an_older_log_beside_the_newest_catalog_is_refused() {
    let store = with_files(&["a"]);
    let node = Node::of(&store);
    put_through(&node, &store, "b");
    drop(node);
    let old = store.path("old");
    copy_catalog(&store.directory(), &old, &CATALOG);
    put(&store, "x").expect(0);
    put(&store, "y").expect(0);
    copy_catalog(&old, &store.directory(), &CATALOG[1..2]);
    refuses_and_is_made_again(&store, "is that of an older copy", "a\nb\nx\ny\n");
}

#[test]
fn the_catalog_that_a_killed_node_left_is_read_with_its_log() {
    let (store, _) = killed_with_a_log("a", &["b"], "y");
    // The index of the log is made again.
    fs::remove_file(store.directory().join(CATALOG[2])).unwrap();
    assert_eq!(store.at("ls", "", &[]).text(), "a\nb\ny\n");
    store.verb("verify", &["--data"]);
    put(&store, "z").expect(0);
}

#[test]
fn nodes_killed_at_any_moment_leave_file_and_log_that_belong_together() {
    let mut random = Random::fresh();
    let store = with_files(&["a"]);
    for round in 0..20 {
        let node = Node::of(&store);
        std::thread::scope(|threads| {
            for writer in 0..2 {
                let (store, address) = (&store, node.address.clone());
                threads.spawn(move || {
                    for count in 0..3 {
                        let name = format!("k{round}-{writer}-{count}");
                        fs::write(store.path(&name), name.repeat(2000)).unwrap();
                        let address = format!("thalweg://{address}::{name}");
                        let put = [OsString::from("put"), store.path(&name).into(), address.into()];
                        let mut put = command(&put).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                        std::thread::sleep(Duration::from_millis(40));
                        let _ = put.kill();
                        put.wait().unwrap();
                    }
                });
            }
            // Moves the log into the file again and again, so that others are begun.
            let checkpoints = random.below(4);
            let catalog = rusqlite::Connection::open(store.directory().join(CATALOG[0])).unwrap();
            catalog.busy_timeout(Duration::from_secs(10)).unwrap();
            for _ in 0..checkpoints {
                std::thread::sleep(Duration::from_micros(random.below(30_000)));
                catalog.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
            }
            std::thread::sleep(Duration::from_micros(random.below(30_000)));
            // Its own end moves nothing.
            catalog.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
            drop(node);
        });
        run(&["ls".as_ref(), store.address("").as_os_str()]).expect(0);
    }
    store.verb("verify", &["--data"]);
    put(&store, "z").expect(0);
}

#[test]
fn a_node_whose_catalog_was_replaced_confirms_nothing_more_and_ends() {
    type Displace = fn(&Path, &Path);
    let displacements: [(&str, Displace, &str); 4] = [
        ("another file in its place", |old, file| fs::rename(old, file).unwrap(), "was replaced or removed"),
        (
            "written over",
            |old, file| fs::write(file, fs::read(old).unwrap()).unwrap(),
            "an older copy was written over",
        ),
        ("removed", |_, file| fs::remove_file(file).unwrap(), "was replaced or removed"),
        (
            "without the log's index",
            |_, file| fs::remove_file(file.with_extension("sqlite-shm")).unwrap(),
            "was replaced or removed",
        ),
    ];
    for (how, displace, why) in displacements {
        let store = with_files(&["a"]);
        let old = store.path("old");
        copy_catalog(&store.directory(), &old, &CATALOG);
        put(&store, "b").expect(0);
        let mut node = Node::prepared(&store, &[], |command| {
            command.stderr(Stdio::piped());
        });
        put_through(&node, &store, "x");
        displace(&old.join(CATALOG[0]), &store.directory().join(CATALOG[0]));
        fs::write(store.path("y"), "not confirmed").unwrap();
        let address = format!("thalweg://{}::y", node.address);
        let refused = run(&["put".as_ref(), store.path("y").as_os_str(), address.as_ref()]);
        assert_ne!(refused.code, Some(0), "{how}: {refused:?}");
        let (ended, said) = node.wait_for_its_end();
        assert_eq!(ended, Some(1), "{how}: {said}");
        assert!(said.contains(why) && said.contains("the node ends"), "{how}: {said}");
        let rebuilt = run(&["verify".as_ref(), store.directory().as_os_str(), "--rebuild-catalog".as_ref()]);
        assert!(matches!(rebuilt.code, Some(0 | 3)), "{how}: {rebuilt:?}");
        for name in ["a", "b", "x"] {
            assert_eq!(store.read(name), fs::read(store.path(name)).unwrap(), "{how}");
        }
    }
}

#[test]
fn a_node_whose_containers_were_removed_or_replaced_confirms_nothing_more_and_ends() {
    type Displace = fn(&Path, &Path);
    let displacements: [(&str, Displace); 6] = [
        ("all removed", |containers, _| fs::remove_dir_all(containers).unwrap()),
        ("the open one's folder removed", |_, open| fs::remove_dir_all(open.parent().unwrap()).unwrap()),
        ("the open one removed", |_, open| fs::remove_file(open).unwrap()),
        ("moved away", |containers, _| fs::rename(containers, containers.with_extension("old")).unwrap()),
        ("an empty folder in their place", |containers, _| {
            fs::remove_dir_all(containers).unwrap();
            fs::create_dir(containers).unwrap();
        }),
        ("a copy in the open one's place", |_, open| {
            let copy = open.with_extension("copy");
            fs::copy(open, &copy).unwrap();
            fs::rename(copy, open).unwrap();
        }),
    ];
    for (how, displace) in displacements {
        let store = with_files(&["a"]);
        let mut node = Node::prepared(&store, &[], |command| {
            command.stderr(Stdio::piped());
        });
        put_through(&node, &store, "x");
        let containers = store.directory().join("containers");
        let last = (1..).take_while(|number| container_path(&store.directory(), *number).exists()).last().unwrap();
        displace(&containers, &container_path(&store.directory(), last));
        fs::write(store.path("y"), "not confirmed").unwrap();
        let address = format!("thalweg://{}::y", node.address);
        let refused = run(&["put".as_ref(), store.path("y").as_os_str(), address.as_ref()]);
        assert_ne!(refused.code, Some(0), "{how}: {refused:?}");
        let (ended, said) = node.wait_for_its_end();
        assert_eq!(ended, Some(1), "{how}: {said}");
        assert!(said.contains("was replaced or removed") && said.contains("the node ends"), "{how}: {said}");
    }
}

#[test]
fn the_catalog_of_another_store_is_refused() {
    let (store, other) = (with_files(&["a"]), with_files(&["a", "x", "y"]));
    copy_catalog(&other.directory(), &store.directory(), &CATALOG);
    refuses_and_is_made_again(&store, "it is the catalog of another store", "a\n");
}

#[test]
fn numbers_of_empty_containers_are_not_given_again_after_a_rebuild() {
    let store = with_files(&["a"]);
    let empty = |number: u64| container_path(&store.directory(), number);
    for number in [7, 12] {
        fs::create_dir_all(empty(number).parent().unwrap()).unwrap();
        fs::write(empty(number), b"").unwrap();
    }
    store.verb("verify", &["--rebuild-catalog", "--data"]);
    put(&store, "b").expect(0);
    assert_eq!(empty(12).metadata().unwrap().len(), 0);
    assert!(empty(13).metadata().unwrap().len() > 0, "the next number is the next container's");
    store.verb("verify", &["--data"]);
}

fn container_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("containers/{:02x}/{number:016x}.twc", number & 0xff))
}

#[test]
fn many_processes_never_take_their_catalog_for_an_old_copy() {
    let store = with_files(&["a"]);
    let names = ["b", "c", "d", "e"];
    std::thread::scope(|threads| {
        for name in names {
            let store = &store;
            threads.spawn(move || {
                for count in 0..6 {
                    put(store, &format!("{name}{count}")).expect(0);
                    run(&["ls".as_ref(), store.address("").as_os_str()]).expect(0);
                }
            });
        }
        threads.spawn(|| (0..4).for_each(|_| drop(store.verb("verify", &[]))));
    });
    store.verb("verify", &["--data"]);
    assert_eq!(store.at("ls", "", &[]).text().lines().count(), 25);
}

#[test]
fn writers_killed_at_any_moment_leave_no_false_alarm() {
    let mut random = Random::fresh();
    let store = with_files(&["a"]);
    for round in 0..25 {
        let mut writers = ["k", "l"].map(|letter| {
            let name = format!("{letter}{round}");
            fs::write(store.path(&name), random.bytes(30_000)).unwrap();
            let arguments = ["put".into(), store.path(&name).into_os_string(), store.address(&name)];
            command(&arguments).stderr(Stdio::null()).spawn().unwrap()
        });
        for writer in &mut writers {
            std::thread::sleep(Duration::from_micros(random.below(60_000)));
            writer.kill().unwrap();
            writer.wait().unwrap();
            run(&["ls".as_ref(), store.address("").as_os_str()]).expect(0);
        }
        if round % 8 == 7 {
            store.verb("verify", &["--rebuild-catalog", "--data"]);
        }
    }
    store.verb("verify", &["--data"]);
    let listed = store.at("ls", "", &[]).text();
    store.verb("verify", &["--rebuild-catalog", "--data"]);
    assert_eq!(store.at("ls", "", &[]).text(), listed, "what a killed writer committed is kept as well");
    put(&store, "z").expect(0);
}

#[test]
fn a_catalog_is_not_rebuilt_while_a_node_uses_the_store() {
    let store = with_files(&["a"]);
    let node = Node::of(&store);
    let refused = store.try_verb("verify", &["--rebuild-catalog"]).expect(1);
    let said = &refused.stderr;
    assert!(said.contains("the store is in use by process") && said.contains(" node "), "{said}");
    put(&store, "b").expect(0);
    assert!(!store.directory().join("catalog.sqlite.old").exists(), "nothing was replaced");
    drop(node);
    store.verb("verify", &["--rebuild-catalog"]);
    assert_eq!(store.at("ls", "", &[]).text(), "a\nb\n");
}

#[test]
fn a_rebuild_that_is_killed_midway_loses_nothing() {
    let names: Vec<String> = (0..8).map(|number| format!("f{number}")).collect();
    let store = with_files(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let all: String = names.iter().map(|name| format!("{name}\n")).collect();
    let directory = store.directory();
    for delay in (0..40).step_by(2) {
        let arguments = ["verify".as_ref(), directory.as_os_str(), "--rebuild-catalog".as_ref()];
        let mut rebuild = command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        let _ = rebuild.kill();
        rebuild.wait().unwrap();
        let listed = run(&["ls".as_ref(), store.address("").as_os_str()]);
        match listed.code {
            Some(0) => assert_eq!(listed.text(), all, "after {delay} ms"),
            _ => assert!(listed.stderr.contains("--rebuild-catalog"), "after {delay} ms: {}", listed.stderr),
        }
    }
    store.verb("verify", &["--rebuild-catalog"]);
    assert_eq!(store.at("ls", "", &[]).text(), all);
    store.verb("verify", &["--data"]);
}
