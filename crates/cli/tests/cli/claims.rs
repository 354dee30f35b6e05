//! Claims of a client's claim owners, whatever connections their requests come over.

use std::time::{Duration, Instant};

use format::Fingerprint;
use store::Answer;
use transfer::message::{Reply, Request};

use super::bounds::Client;
use super::node::Node;
use super::runner::Store;

fn missing(client: &mut Client, owner: u64) -> Answer {
    match client.ask(Request::FindMissing { owner, fingerprints: vec![Fingerprint([7; 32])] }) {
        Reply::Answers { answers } => answers[0],
        other => panic!("a question was answered {other:?}"),
    }
}

#[test]
fn claims_end_with_their_client_s_last_connection_and_not_with_the_one_they_were_made_over() {
    let store = Store::new();
    let node = Node::of(&store);
    let (mut first, mut second) = (Client::greet(&node.address, 1), Client::greet(&node.address, 1));
    let mut other = Client::greet(&node.address, 2);
    assert_eq!(missing(&mut first, 5), Answer::Send);
    assert_eq!(missing(&mut other, 5), Answer::Claimed, "another client's owner 5 is another");
    drop(first);
    // Until the node has noticed.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(missing(&mut other, 5), Answer::Claimed);
    assert!(matches!(second.ask(Request::Release { owner: 6 }), Reply::Done {}));
    assert_eq!(missing(&mut other, 5), Answer::Claimed);
    drop(second);
    let deadline = Instant::now() + Duration::from_secs(30);
    while missing(&mut other, 5) == Answer::Claimed {
        assert!(Instant::now() < deadline, "the claims of a client that has gone end");
        std::thread::sleep(Duration::from_millis(20));
    }
}
