//! Containers that are rewritten again and again beside a writer that was answered from one of them.

use catalog::Purpose;
use format::{FingerprintKind, Run};
use random::Random;
use segment::fingerprint;
use store::Answer;
use transfer::message::{Reply, Request};

use super::bounds::Client;
use super::node::Node;
use super::runner::Store;

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
