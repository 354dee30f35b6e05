//! The end of a session: the last process's duties for the others.

use std::sync::atomic::AtomicU64;

use super::*;

fn written(settings: Settings) -> (Client, File) {
    let client = Client::new(settings, None);
    let file = open(&client, WRITE);
    file.write(&[source(0, &[1; 1000])]).unwrap();
    file.commit().unwrap();
    (client, file)
}

fn count(nodes: &[Arc<Node>], of: fn(&Node) -> &AtomicU64) -> u64 {
    nodes.iter().map(|node| of(node).load(Ordering::SeqCst)).sum()
}

#[test]
fn a_session_that_others_still_use_is_left_open() {
    let (_world, nodes) = nodes(1);
    nodes[0].does.others.store(1, Ordering::SeqCst);
    let (client, file) = written(Settings { acknowledge: Acknowledge::Received, ..settings(&nodes) });
    file.detach(1).unwrap();
    client.finalize().unwrap();
    assert_eq!(count(&nodes, |node| &node.does.leaves), 0);
}

#[test]
fn what_others_sent_again_to_a_new_node_after_the_commit_is_committed_too() {
    let (_world, nodes) = nodes(1);
    let (_client, file) = written(settings(&nodes));
    nodes[0].crash();
    nodes[0].revive();
    // The new node answered, so the client has noticed it.
    file.size().unwrap();
    file.detach(1).unwrap();
    assert_eq!(count(&nodes, |node| &node.does.commits), 2);
    assert_eq!(count(&nodes, |node| &node.does.leaves), 1);
}

#[test]
fn a_session_whose_nodes_lived_on_is_committed_once() {
    let (_world, nodes) = nodes(2);
    let (_client, file) = written(settings(&nodes));
    nodes[0].break_connections();
    file.detach(1).unwrap();
    assert_eq!(count(&nodes, |node| &node.does.commits), 1);
}

#[test]
fn a_committed_file_is_closed_without_its_nodes_answers() {
    let (_world, nodes) = nodes(1);
    let (client, file) = written(settings(&nodes));
    nodes[0].does.frozen.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    file.detach(1).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1));
    nodes[0].does.frozen.store(false, Ordering::SeqCst);
    client.finalize().unwrap();
    assert_eq!(count(&nodes, |node| &node.does.leaves), 1);
}

#[test]
fn a_node_that_is_gone_after_the_commit_is_no_failure_of_the_program() {
    let (_world, nodes) = nodes(1);
    let (client, file) = written(Settings { timeout: Duration::from_secs(2), ..settings(&nodes) });
    nodes[0].crash();
    file.detach(1).unwrap();
    client.finalize().unwrap();
}

#[test]
fn bytes_that_no_commit_has_are_waited_for() {
    let (_world, nodes) = nodes(1);
    nodes[0].does.fail_commits.store(true, Ordering::SeqCst);
    let client = Client::new(settings(&nodes), None);
    let file = open(&client, WRITE);
    file.write(&[source(0, &[1; 1000])]).unwrap();
    file.commit().unwrap_err();
    file.detach(1).unwrap();
    assert_eq!(count(&nodes, |node| &node.does.leaves), 1, "awaited");
}
