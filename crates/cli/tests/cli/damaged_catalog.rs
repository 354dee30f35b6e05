//! Damage in the catalog's file, in a footer, and in the journal that a catalog is made from: it is found, and mends as far as
//! the rest can say what was there.

use std::fs;
use std::path::Path;

use super::runner::Store;
use super::stale::{CATALOG, put, refuses_and_is_made_again, with_files};

#[test]
fn rows_deleted_by_hand_are_noticed_and_lose_nothing() {
    for table in ["versions", "containers", "names", "files"] {
        let store = with_files(&["a", "b"]);
        let catalog = rusqlite::Connection::open(store.directory().join(CATALOG[0])).unwrap();
        let rows = if table == "names" { "length(path) > 0" } else { "id < 4611686018427387904" };
        catalog.execute_batch(&format!("DELETE FROM {table} WHERE {rows}")).unwrap();
        drop(catalog);
        refuses_and_is_made_again(&store, "changed by something other than thalweg", "a\nb\n");
    }
}

#[test]
fn a_zeroed_page_of_the_catalog_is_found_and_the_catalog_made_again() {
    let store = with_files(&["a", "b", "a name to be found"]);
    let file = store.directory().join(CATALOG[0]);
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.windows(18).position(|window| window == b"a name to be found").unwrap();
    let page = at / 4096 * 4096;
    bytes[page..page + 4096].fill(0);
    fs::write(&file, bytes).unwrap();
    let found = store.try_verb("verify", &[]).expect(3);
    assert!(found.stderr.contains("the catalog is damaged"), "{}", found.stderr);
    store.verb("verify", &["--rebuild-catalog", "--data"]);
    assert_eq!(store.at("ls", "", &[]).text(), "a\na name to be found\nb\n");
}

#[test]
fn verify_ends_with_3_for_each_page_of_the_catalog_that_is_zeroed() {
    let store = with_files(&["a", "b"]);
    let file = store.directory().join("catalog.sqlite");
    let sound = fs::read(&file).unwrap();
    let remove_log = || ["-wal", "-shm"].map(|suffix| fs::remove_file(format!("{}{suffix}", file.display())));
    let damage = |bytes: &[u8]| {
        let _ = remove_log();
        fs::write(&file, bytes).unwrap();
        let found = store.try_verb("verify", &["--json"]);
        (found.code, found.stderr)
    };
    let mut wrong = Vec::new();
    for page in 0..sound.len() / 4096 {
        let mut bytes = sound.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0);
        let (code, said) = damage(&bytes);
        let named = said.contains("catalog") && said.contains("damage");
        if code != Some(3) || !named {
            wrong.push(format!("page {}: {code:?}: {said}", page + 1));
        }
    }
    for length in [0, 100, 4096, sound.len() / 2, sound.len() - 4096] {
        let (code, said) = damage(&sound[..length]);
        if code != Some(3) {
            wrong.push(format!("cut at {length}: {code:?}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(damage(&sound).0, Some(0));
}

#[test]
fn a_flipped_footer_is_found_and_costs_nothing() {
    let store = with_files(&["a"]);
    let container = store.containers().into_iter().max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = fs::read(&container).unwrap();
    let at = bytes.len() - 20;
    bytes[at] ^= 1;
    fs::write(&container, bytes).unwrap();
    let found = store.try_verb("verify", &["--data"]).expect(3);
    assert!(found.stderr.contains("its footer cannot be read"), "{}", found.stderr);
    assert_eq!(store.read("a"), fs::read(store.path("a")).unwrap());
}

/// Changes a byte of the last block before the footer, which holds the records of the journal.
fn damage_journal(container: &Path) {
    let mut bytes = fs::read(container).unwrap();
    let entry = bytes.len() - 32;
    let footer = u64::from_le_bytes(bytes[entry..entry + 8].try_into().unwrap()) as usize;
    bytes[footer - 1] ^= 1;
    fs::write(container, bytes).unwrap();
}

#[test]
fn collection_replaces_a_container_with_a_damaged_journal_and_nothing_is_wrong_any_more() {
    for repairs_first in [false, true] {
        let store = with_files(&["a", "b"]);
        damage_journal(store.containers().last().unwrap());
        store.try_verb("verify", &[]).expect(3);
        if repairs_first {
            store.verb("repair", &[]);
        }
        assert_eq!(store.json("collect")["replaced"], 1);
        store.verb("verify", &["--data"]);
        assert_eq!(store.json("collect")["rewritten"], 0, "once is enough");
        store.verb("verify", &["--rebuild-catalog", "--data"]);
        assert_eq!(store.at("ls", "", &[]).text(), "a\nb\n");
        assert_eq!(store.read("b"), fs::read(store.path("b")).unwrap());
    }
}

/// In the order of the journal a version is forgotten before the newer one that is stated again.
#[test]
fn a_version_that_was_forgotten_after_a_lost_record_is_no_loss_of_a_rebuild() {
    let store = Store::new();
    for content in ["one", "two", "three"] {
        fs::write(store.path("f"), content).unwrap();
        store.put(&store.path("f"), "f");
        if content == "two" {
            damage_journal(store.containers().last().unwrap());
            store.at("forget", "f", &["--keep", "last=1"]);
        }
    }
    store.verb("repair", &[]);
    store.verb("collect", &[]);
    store.verb("verify", &[]);
    store.verb("verify", &["--rebuild-catalog", "--data"]);
    assert_eq!(store.at("stat", "f", &["--json"]).json()["versions"].as_array().unwrap().len(), 2);
}

#[test]
fn a_rebuild_from_a_damaged_journal_does_not_lose_what_the_present_catalog_has() {
    let store = with_files(&["a", "b"]);
    damage_journal(store.containers().last().unwrap());
    let found = store.try_verb("verify", &["--data"]).expect(3);
    assert!(found.stderr.contains("b: the catalog has it, the journal in the containers does not"), "{found:?}");
    let refused = store.try_verb("verify", &["--rebuild-catalog"]).expect(1);
    assert!(refused.stderr.contains("would miss a name or version that the present one has (b)"), "{refused:?}");
    assert!(refused.stderr.contains("--force"), "{refused:?}");
    assert_eq!(store.verb("repair", &["--json"]).json()["journaled_paths"], 1);
    store.try_verb("verify", &["--rebuild-catalog"]).expect(3);
    assert_eq!(store.at("ls", "", &[]).text(), "a\nb\n", "the journal has it again");
    assert_eq!(store.read("b"), fs::read(store.path("b")).unwrap());

    damage_journal(store.containers().last().unwrap());
    let forced = store.try_verb("verify", &["--rebuild-catalog", "--force"]).expect(3);
    assert!(forced.stderr.contains("b: the catalog has it"), "{forced:?}");
    assert_eq!(store.at("ls", "", &[]).text(), "a\n");
    store.try_verb("verify", &["--force"]).expect(2);
}

#[test]
fn verify_ends_with_3_where_the_catalog_is_missing_and_says_what_makes_it() {
    let store = with_files(&["a"]);
    CATALOG.iter().for_each(|name| drop(fs::remove_file(store.directory().join(name))));
    let found = store.try_verb("verify", &["--json"]).expect(3);
    assert!(found.stderr.contains("the file is missing") && found.stderr.contains("--rebuild-catalog"), "{found:?}");
    assert_eq!(found.json()["damages"][0]["kind"], "catalog");
    let refused = store.try_verb("stats", &[]).expect(1);
    assert!(refused.stderr.contains("thalweg verify --rebuild-catalog"), "{refused:?}");
    store.verb("verify", &["--rebuild-catalog", "--data"]);
    assert_eq!(store.at("ls", "", &[]).text(), "a\n");
}

/// Copies the store's only container to another number.
fn copy_container(store: &Store, number: u64) -> std::path::PathBuf {
    let copy = store.directory().join(format!("containers/{number:02x}/{number:016x}.twc"));
    fs::create_dir_all(copy.parent().unwrap()).unwrap();
    fs::copy(&store.containers()[0], &copy).unwrap();
    copy
}

#[test]
fn a_container_copied_under_another_number_is_named_for_what_it_is() {
    for number in [5, 0x60] {
        let store = with_files(&["a"]);
        let copy = copy_container(&store, number);
        assert_eq!(store.at("ls", "", &[]).text(), "a\n", "readers do not need it");
        let wrong =
            [store.try_verb("verify", &[]).expect(3), store.try_verb("verify", &["--rebuild-catalog"]).expect(3)];
        for found in wrong.into_iter().chain([store.try_verb("verify", &[]).expect(3)]) {
            assert!(found.stderr.contains("this is container 0000000000000001 of store"), "{found:?}");
            assert!(found.stderr.contains("move it away"), "{found:?}");
            assert!(!found.stderr.contains("makes it again"), "{found:?}");
        }
        fs::remove_file(copy).unwrap();
        store.verb("verify", &["--data"]);
        put(&store, "b").expect(0);
    }
    let store = with_files(&["a"]);
    copy_container(&store, 5);
    let refused = put(&store, "b").expect(1);
    assert!(refused.stderr.contains("move it away; nothing was changed"), "{refused:?}");
    let far = with_files(&["a"]);
    copy_container(&far, 0x60);
    far.verb("collect", &[]);
}

#[test]
fn a_badly_damaged_store_has_a_bounded_number_of_lines_and_a_count_of_each_kind() {
    let store = Store::new();
    let tree = store.path("tree");
    fs::create_dir_all(&tree).unwrap();
    (0..300).for_each(|number| fs::write(tree.join(number.to_string()), number.to_string().repeat(4000)).unwrap());
    store.put(&tree, "t");
    for container in store.containers() {
        let mut bytes = fs::read(&container).unwrap();
        let end = bytes.len() * 9 / 10;
        bytes[64..end].fill(0);
        fs::write(&container, bytes).unwrap();
    }
    for verb in ["verify", "repair"] {
        let found = store.try_verb(verb, &["--data"][..usize::from(verb == "verify")]);
        let found = found.expect(3);
        let lines: Vec<&str> = found.stderr.lines().collect();
        assert!(lines.len() < 160, "{verb}: {} lines", lines.len());
        assert!(
            lines.iter().any(|line| line.contains("and more: ") && line.contains("`--json` lists all")),
            "{lines:?}"
        );
        let last = lines.last().unwrap();
        assert!(last.contains("version"), "{last}");
        let forget = format!("`thalweg forget {}:: --snapshot ", store.directory().display());
        assert_eq!(last.contains(&forget), verb == "repair", "{last}");
        let all = store.try_verb(verb, &["--json"]).expect(3).json();
        let key = if verb == "verify" { "damages" } else { "lost" };
        assert!(all[key].as_array().unwrap().len() >= 300, "{all}");
    }
}
