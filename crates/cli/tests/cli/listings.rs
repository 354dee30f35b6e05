//! `cat`, `du`, `find` and `ls -lh`.

use std::collections::BTreeMap;
use std::fs;

use super::runner::{Store, run};

/// Names whose order by bytes puts siblings between a directory and its entries.
const FILES: [(&str, usize); 6] =
    [("a/one", 10), ("a/deep/two", 200), ("a-x/three", 3000), ("a.txt", 40_000), ("b/c/d/four", 5), ("five.h5", 6)];

fn with_files() -> Store {
    let store = Store::new();
    let tree = store.path("tree");
    for (name, size) in FILES {
        fs::create_dir_all(tree.join(name).parent().unwrap()).unwrap();
        fs::write(tree.join(name), vec![b'x'; size]).unwrap();
    }
    fs::hard_link(tree.join("a/one"), tree.join("b/again")).unwrap();
    store.put(&tree, "t");
    store
}

fn lines(run: super::runner::Run) -> Vec<String> {
    run.expect(0).text().lines().map(str::to_owned).collect()
}

#[test]
fn du_sums_each_directory_and_counts_a_file_once() {
    let store = with_files();
    let seen: BTreeMap<String, u64> = lines(store.at("du", "t", &[]))
        .iter()
        .map(|line| line.trim().split_once("  ").unwrap())
        .map(|(bytes, path)| (path.to_owned(), bytes.parse().unwrap()))
        .collect();
    let expected =
        [("t", 43_221), ("t/a", 210), ("t/a/deep", 200), ("t/a-x", 3000), ("t/b", 5), ("t/b/c", 5), ("t/b/c/d", 5)];
    assert_eq!(seen, expected.map(|(path, bytes)| (path.to_owned(), bytes)).into());
    assert_eq!(lines(store.at("du", "t", &["-sh"])), ["    42.2 KiB  t"]);
    let json = store.at("du", "t", &["--json", "--summarize"]).json();
    assert_eq!((json[0]["path"].as_str(), json[0]["bytes"].as_u64()), (Some("t"), Some(43_221)));
}

#[test]
fn du_of_places_within_each_other_counts_each_file_once() {
    let store = with_files();
    let du = |options: &[&str], places: &[&str]| {
        let mut arguments: Vec<_> =
            std::iter::once("du".into()).chain(options.iter().map(|word| (*word).into())).collect();
        arguments.extend(places.iter().map(|place| store.address(place)));
        lines(run(&arguments))
            .iter()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(du(&["-s"], &["t", "t/a", "t", "t/a/one"]), ["43221 t"], "as coreutils have it");
    assert_eq!(du(&["-s"], &["t/a", "t", "t/b"]), ["210 t/a", "43011 t"]);
    assert_eq!(du(&[], &["t/a/deep", "t/a"]), ["200 t/a/deep", "10 t/a"]);
    assert_eq!(du(&[], &["t/b/again", "t/a/one", "t/a-x"]), ["10 t/b/again", "3000 t/a-x"], "two names of one file");
}

#[test]
fn find_prints_the_names_for_which_all_conditions_hold() {
    let store = with_files();
    let found = |options: &[&str]| -> Vec<String> {
        let prefix = store.address("t").to_string_lossy().into_owned();
        lines(store.at("find", "t", options)).iter().map(|line| line[prefix.len()..].to_owned()).collect()
    };
    assert_eq!(found(&["--name", "*.h5"]), ["/five.h5"]);
    assert_eq!(found(&["--kind", "file", "--min-size", "200"]), ["/a-x/three", "/a.txt", "/a/deep/two"]);
    assert_eq!(found(&["--kind", "directory", "--name", "d*"]), ["/a/deep", "/b/c/d"]);
    assert_eq!(found(&["--since", "1h", "--kind", "file"]).len(), FILES.len() + 1);
    assert!(found(&["--since", "2200-01-01"]).is_empty());
    run(&["find".as_ref(), store.address("t/none").as_os_str()]).expect(1);
}

#[test]
fn cat_prints_files_one_after_the_other() {
    let store = with_files();
    let [one, two, directory] = ["t/a/one", "t/a/deep/two", "t/a"].map(|path| store.address(path));
    let printed = run(&["cat".as_ref(), one.as_os_str(), two.as_os_str()]).expect(0).stdout;
    assert_eq!(printed, vec![b'x'; 210]);
    assert!(run(&["cat".as_ref(), directory.as_os_str()]).expect(1).stderr.contains("only regular files"));
}

#[test]
fn ls_shows_sizes_as_people_read_them() {
    let store = with_files();
    assert!(lines(store.at("ls", "t/a.txt", &["-lh"]))[0].contains(" 39.1 KiB "));
}
