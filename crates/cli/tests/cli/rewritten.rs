//! Containers that are rewritten again and again beside a writer that was answered from one of them.

use catalog::Purpose;
use format::{FingerprintKind, Run};
use random::Random;
use segment::fingerprint;
use store::Answer;
use transfer::message::{Reply, Request};

use super::bounds::Client;
use super::node::Node;
use super::runner::{Store, files_below};

/// The end-to-end tests that let puts, jobs and collections run beside each other do not notice when this breaks: it takes
/// a segment that lives through one rewriting and dies before the next, between a writer's question and its commit.
#[test]
fn segments_a_writer_relies_on_are_found_after_a_second_rewriting_without_them() {
    let mut random = Random::new(31);
    let store = Store::new();
    let source = store.path("source");
    std::fs::create_dir(&source).unwrap();
    // Of one segment, and two that are large enough for their container to be rewritten without them.
    for (name, bytes) in [("small", 1000), ("first", 400_000), ("second", 400_000), ("third", 400_000)] {
        std::fs::write(source.join(name), random.bytes(bytes)).unwrap();
    }
    store.put(&source, "t");
    store.forget_snapshots();
    store.at("rm", "t/first", &[]);
    // No session is left that the file as it was is kept for.
    assert_eq!(store.json("collect")["rewritten"], 1);
    let node = Node::of(&store);
    let mut writer = Client::greet(&node.address, 1);
    let begin = Request::Begin { purpose: Purpose::Write, lease_ms: 600_000 };
    assert!(matches!(writer.ask(begin), Reply::Session { .. }));
    let small = fingerprint(FingerprintKind::Blake3, &std::fs::read(source.join("small")).unwrap());
    let address = match writer.ask(Request::FindMissing { owner: 1, fingerprints: vec![small] }) {
        Reply::Answers { answers } => match answers[..] {
            [Answer::Have(address)] => address,
            ref other => panic!("the store has it: {other:?}"),
        },
        other => panic!("a question was answered {other:?}"),
    };
    node.terminate();
    store.at("rm", "t/small", &[]);
    store.at("rm", "t/second", &[]);
    assert_eq!(store.json("collect")["rewritten"], 1);
    // It remembers nothing of where segments were.
    let node = Node::of(&store);
    let mut writer = Client::greet(&node.address, 1);
    match writer.ask(Request::Get { run: Run::single(address) }) {
        Reply::Blocks { blocks } => {
            assert!(blocks.iter().any(|block| { block.segments.iter().any(|segment| segment.fingerprint == small) }))
        }
        other => panic!("the segment was answered {other:?}"),
    }
}

/// A collection that is killed, or that is refused because a version came to need more meanwhile, leaves a newer file with
/// fewer segments of the containers it rewrote.
#[test]
fn a_rebuilt_catalog_does_not_look_for_segments_in_a_file_that_a_killed_collection_left() {
    let mut random = Random::new(32);
    let store = Store::new();
    let source = store.path("source");
    std::fs::create_dir(&source).unwrap();
    for name in ["first", "second", "third"] {
        std::fs::write(source.join(name), random.bytes(400_000)).unwrap();
    }
    store.put(&source, "t");
    store.forget_snapshots();
    store.at("rm", "t/first", &[]);
    assert_eq!(store.json("collect")["rewritten"], 1);
    let later = Store::new();
    for file in files_below(&store.directory()) {
        let copy = later.directory().join(file.strip_prefix(store.directory()).unwrap());
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::copy(&file, copy).unwrap();
    }
    later.at("rm", "t/second", &[]);
    assert_eq!(later.json("collect")["rewritten"], 1);
    let newest = later.containers().into_iter().max().unwrap();
    let left = store.directory().join(newest.strip_prefix(later.directory()).unwrap());
    std::fs::create_dir_all(left.parent().unwrap()).unwrap();
    std::fs::copy(&newest, left).unwrap();
    for kept_as in ["catalog.sqlite", "catalog.sqlite.away"] {
        // With the old catalog, and without any.
        std::fs::rename(store.path("store/catalog.sqlite"), store.path("store").join(kept_as)).unwrap();
        store.verb("verify", &["--rebuild-catalog"]);
        assert!(store.read("t/second") == std::fs::read(source.join("second")).unwrap(), "{kept_as}");
    }
}

#[test]
fn a_container_under_another_ones_number_is_not_deleted() {
    let store = Store::new();
    let source = store.path("source");
    std::fs::write(&source, Random::new(33).bytes(400_000)).unwrap();
    store.put(&source, "f");
    let container = store.containers().pop().unwrap();
    let misplaced = container.parent().unwrap().parent().unwrap().join("09/0000000000000009.twc");
    std::fs::create_dir_all(misplaced.parent().unwrap()).unwrap();
    std::fs::rename(&container, &misplaced).unwrap();
    store.try_verb("verify", &["--rebuild-catalog", "--force"]).expect(3);
    let refused = store.try_verb("collect", &[]);
    assert!(
        misplaced.exists() && refused.code == Some(1) && refused.stderr.contains("and was not deleted"),
        "{}",
        refused.stderr
    );
    std::fs::rename(&misplaced, &container).unwrap();
    store.try_verb("verify", &["--rebuild-catalog", "--force"]);
    assert_eq!(store.read("f"), std::fs::read(&source).unwrap());
}
