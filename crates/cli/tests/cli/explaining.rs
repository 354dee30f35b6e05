//! Every error ends with a code, and `thalweg explain` says what it means.

use super::runner::{Store, run};

/// The code at the end of the only line.
#[track_caller]
fn code_of(stderr: &str) -> &str {
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let (_, code) = stderr.trim_end().rsplit_once(" [").unwrap_or_else(|| panic!("no code: {stderr}"));
    code.strip_suffix(']').unwrap_or_else(|| panic!("no code at the end: {stderr}"))
}

#[test]
fn errors_end_with_the_code_of_their_cause() {
    let store = Store::new();
    let place = |path: &str| store.address(path).into_string().unwrap();
    std::fs::write(store.path("file"), "content").unwrap();
    store.put(&store.path("file"), "file");
    let (missing, file, below) = (place("missing"), place("file"), place("file/below"));
    let local = store.path("nothing").display().to_string();
    for (arguments, code) in [
        (vec!["ls", &missing], "TW-203"),
        (vec!["get", &missing, &local], "TW-203"),
        (vec!["rm", &missing], "TW-203"),
        (vec!["stat", &missing], "TW-203"),
        (vec!["get", "--version", "7", &file, &local], "TW-208"),
        (vec!["get", "--range", "9000:1", &file, &local], "TW-216"),
        (vec!["forget", "--version", "1", &file], "TW-209"),
        (vec!["get", "--snapshot", "none", &file, &local], "TW-210"),
        (vec!["get", "--unfinished", &file, &local], "TW-407"),
        (vec!["mv", &file, &below], "TW-213"),
        (vec!["ls", "nowhere"], "TW-102"),
        (vec!["ls", "/no/store/there::"], "TW-301"),
        (vec!["ls", "thalweg://127.0.0.1:1::"], "TW-501"),
        (vec!["lss"], "TW-101"),
    ] {
        let failed = run(&arguments);
        assert_eq!(code_of(&failed.stderr), code, "{arguments:?}: {}", failed.stderr);
        assert!(run(&["explain", code]).expect(0).text().starts_with(&format!("{code}: ")), "{code}");
    }
}

#[test]
fn names_that_could_not_be_put_or_fetched_have_the_code_of_their_reason() {
    let store = Store::new();
    let tree = store.path("tree");
    std::fs::create_dir_all(tree.join("in")).unwrap();
    std::fs::write(tree.join("taken"), "a file").unwrap();
    store.put(&tree, "");
    let to = store.path("to");
    std::fs::create_dir_all(to.join("tree/taken")).unwrap();
    let place = store.address("tree").into_string().unwrap();
    let got = run(&["get", "--json", &place, to.to_str().unwrap()]);
    assert_eq!(got.json()["failed"][0]["code"], "TW-319", "{}", got.text());
    assert!(got.stderr.lines().next().unwrap().ends_with(" [TW-319]"), "{}", got.stderr);
    std::fs::remove_file(tree.join("taken")).unwrap();
    std::fs::create_dir(tree.join("taken")).unwrap();
    let put = run(&["put".as_ref(), "--json".as_ref(), tree.as_os_str(), &store.address("")]).expect(3);
    assert_eq!(put.json()["failed"][0]["code"], "TW-207", "{}", put.text());
    assert!(put.stderr.lines().next().unwrap().ends_with(" [TW-207]"), "{}", put.stderr);
    assert!(put.stderr.trim_end().ends_with(" [TW-106]"), "{}", put.stderr);
}

#[test]
fn explain_prints_pages_and_lists_all_codes() {
    let text = run(&["explain", "tw-203", "501"]).expect(0).text();
    let positions =
        ["TW-203: ", "What happened. ", "Why. ", "What to do. ", "\n\nTW-501: "].map(|part| text.find(part));
    assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{text}");
    let pages = run(&["explain", "--json", "203"]).expect(0).json();
    assert_eq!(pages[0]["code"], "TW-203");
    assert!(pages[0]["what_to_do"].as_str().is_some_and(|text| text.contains("thalweg find")), "{pages}");
    let listed = run(&["explain", "--list"]).expect(0).text();
    let in_json = run(&["explain", "--list", "--json"]).expect(0).json();
    assert_eq!(listed.lines().count(), in_json.as_array().unwrap().len());
    assert!(listed.lines().any(|line| line == "TW-303  the disk is full"), "{listed}");
    let unknown = run(&["explain", "TW-999"]).expect(2).stderr;
    assert!(unknown.contains("no such code") && code_of(&unknown) == "TW-101", "{unknown}");
    run(&["explain"]).expect(2);
}
