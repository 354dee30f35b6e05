//! A client whose connection broke comes back over a new one, before or after the node has noticed that the old one is gone.

use std::time::Duration;

use super::faltering::Client;
use super::node::Node;
use super::runner::Store;

#[test]
fn the_end_of_an_old_connection_does_not_silence_the_new_one() {
    let store = Store::new();
    let node = Node::of(&store);
    let mut old = Client::new(&node, 1);
    let session = old.open(&node, "file").id;
    old.write(session, 8192);
    old.wait_durable();
    let mut new = Client::new(&node, 1);
    new.attach(session);
    drop(old);
    // The node notices that the old connection is gone.
    std::thread::sleep(Duration::from_millis(500));
    new.skip_sequence();
    new.write(session, 8192);
    new.wait_durable();
}
