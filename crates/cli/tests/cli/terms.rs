//! The words of type names: each is the field's, or is defined in docs/format.md#terms.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const CRATES: [&str; 5] = ["format", "store", "catalog", "repository", "transfer"];

/// Words that an engineer of file systems, databases or networks knows, in the sense known there.
const FIELD: &str = "\
    access acknowledge action adaptive address ahead answer ask attempt attempts attribute attributes back background batch \
    behaviour bitmap blocks bound budget buffer buffers builder built bulk bytes cached challenge change charge checked \
    choice chunker claims client clock closing code codec collect commit committed comparison completion compression compute \
    confirmed connection connections containers content context counters counting credentials cursor damage decoded dedup \
    detach difference digest directory disconnect done drop dropped durable element encoded encoding ends engines entries entry \
    error event extents failed failure fault faulty fetch field figures file files filter flight float forwarder frame \
    frames from guard handle handler handshake header heartbeats held hello holders id identity idle in incoming index input \
    io issued join key kind known lease leaves limits link list live liveness local lock lost lru manifests map memory merge \
    mode name names near needs new next nonce numbers off offers one open opened operation options order origin others \
    outgoing output overwritten pace packed packer pair parts path payload pending permissions pin plain plan pointer pool \
    pooled process program published purpose queue queued random range ranges reach read readable reader rebuild receive \
    received record recorded reduction referable refusal rejection remote removals repack repair replier report repository \
    request resolution resolve resolved restored result role root rounding rounds runs sample scan scope scopes sealed \
    secret secrets segments send sender sent server service set settings shared shot skipped slice slots snapshot socket \
    source sources spot sqlite start started state statistics status step store stored streams stretch subject target thread \
    threads time timeouts times tls to tolerance transaction tree type unfinished unreadable unsynced up update upstream \
    verify view waker whole window work world write writer written";

#[test]
fn every_word_of_a_public_type_is_the_fields_or_is_defined() {
    let terms: BTreeSet<String> = terms().iter().flat_map(|term| term.split(' ').map(str::to_owned)).collect();
    let field: BTreeSet<&str> = FIELD.split_whitespace().collect();
    for source in CRATES.iter().flat_map(|name| sources(&repository().join("crates").join(name).join("src"))) {
        for name in public_types(&fs::read_to_string(&source).unwrap()) {
            for word in words(&name) {
                let is_known = field.contains(word.as_str()) || terms.contains(&word);
                assert!(
                    is_known,
                    "{}: {name}: what is a {word}? Take the field's word, or define it in docs/format.md#terms",
                    source.display()
                );
            }
        }
    }
}

#[test]
fn terms_are_in_alphabetical_order() {
    let terms = terms();
    assert!(terms.len() > 30 && terms.is_sorted(), "{terms:?}");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The words that docs/format.md defines.
fn terms() -> Vec<String> {
    let page = fs::read_to_string(repository().join("docs/format.md")).unwrap();
    let (_, after) = page.split_once("## Terms").expect("the page has terms");
    let (section, _) = after.split_once("\n## ").expect("other sections follow");
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| row.split('|').nth(1).expect("a row has cells").trim().to_owned()).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

fn public_types(source: &str) -> Vec<String> {
    let declared = |line: &str| {
        let line = line.trim_start().strip_prefix("pub")?;
        let line = line.strip_prefix("(super)").or(line.strip_prefix("(crate)")).unwrap_or(line).strip_prefix(' ')?;
        let (kind, rest) = line.split_once(' ')?;
        let name = || rest.split(|c: char| !c.is_alphanumeric()).next().expect("a split has a first part").to_owned();
        matches!(kind, "struct" | "enum" | "trait" | "type").then(name)
    };
    source.lines().filter_map(declared).collect()
}

/// `StripeSet` → `stripe`, `set`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for letter in name.chars() {
        match words.last_mut() {
            Some(word) if !letter.is_uppercase() => word.push(letter),
            _ => words.push(letter.to_lowercase().collect()),
        }
    }
    words
}
