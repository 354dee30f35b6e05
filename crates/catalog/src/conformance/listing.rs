//! Checks of listing.

use super::*;
use crate::Error;

checks!(
    a_directory_lists_its_own_children_in_byte_order,
    everything_below_is_listed_in_byte_order,
    pages_continue_after_the_last,
    only_directories_are_listed,
    listed_entries_are_the_entries,
);

const NAMES: [&str; 8] = ["d/a", "d/b-c", "d/b/x", "d/b/y/z", "d/b.c", "d/b0", "e", "d0/x"];

fn listed(fixture: &Fixture, directory: &str, recursive: bool, after: Option<&str>, limit: usize) -> Vec<String> {
    let found = fixture.catalog.list(&path(directory), recursive, after.map(path).as_ref(), limit).unwrap();
    found.into_iter().map(|(path, _)| path.to_string()).collect()
}

fn a_directory_lists_its_own_children_in_byte_order(fixture: &Fixture) {
    fixture.write(&NAMES);
    assert_eq!(listed(fixture, "d", false, None, 99), ["d/a", "d/b", "d/b-c", "d/b.c", "d/b0"]);
    assert_eq!(listed(fixture, "", false, None, 99), ["d", "d0", "e"]);
    assert_eq!(listed(fixture, "d/b", false, None, 99), ["d/b/x", "d/b/y"]);
}

fn everything_below_is_listed_in_byte_order(fixture: &Fixture) {
    fixture.write(&NAMES);
    let below = ["d/a", "d/b", "d/b-c", "d/b.c", "d/b/x", "d/b/y", "d/b/y/z", "d/b0"];
    assert_eq!(listed(fixture, "d", true, None, 99), below);
    assert_eq!(listed(fixture, "", true, None, 99).len(), below.len() + 4);
}

fn pages_continue_after_the_last(fixture: &Fixture) {
    fixture.write(&NAMES);
    for directory in ["", "d", "d/b"] {
        for recursive in [false, true] {
            let whole = listed(fixture, directory, recursive, None, 99);
            for limit in 1..4 {
                let mut found: Vec<String> = Vec::new();
                loop {
                    let page = listed(fixture, directory, recursive, found.last().map(|last| last.as_str()), limit);
                    assert!(page.len() <= limit);
                    if page.is_empty() {
                        break;
                    }
                    found.extend(page);
                }
                assert_eq!(found, whole, "{directory:?}, recursive {recursive}, {limit} a page");
            }
        }
    }
    assert!(listed(fixture, "d", true, Some("e"), 9).is_empty());
    assert_eq!(listed(fixture, "d", true, Some("a"), 1), ["d/a"]);
    assert!(listed(fixture, "d", true, None, 0).is_empty());
}

fn only_directories_are_listed(fixture: &Fixture) {
    fixture.write(&["d/a"]);
    assert_refused!(fixture.catalog.list(&path("x"), false, None, 9), Error::NotFound { .. });
    assert_refused!(fixture.catalog.list(&path("d/a"), true, None, 9), Error::Refused { .. });
}

fn listed_entries_are_the_entries(fixture: &Fixture) {
    fixture.write(&NAMES);
    fixture.apply(made("d/s", FileKind::Symlink));
    for (path, entry) in fixture.catalog.list(&StorePath::root(), true, None, 99).unwrap() {
        assert_eq!(fixture.catalog.entry(&path).unwrap(), Some(entry));
    }
}
