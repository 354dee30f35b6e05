//! A node that goes away for good while a put is under way.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use random::Random;

use super::node::Node;
use super::runner::{Store, command};

fn signal(process: &Child, signal: i32) {
    // SAFETY: the process is ours, and was not waited for.
    unsafe { libc::kill(process.id() as i32, signal) };
}

/// A put of new content through the node, stopped when something of it is stored; none if it was done before.
fn begun_put(store: &Store, node: &Node, random: &mut Random) -> Option<Child> {
    let source = store.path("source");
    std::fs::create_dir_all(&source).unwrap();
    for file in 0..64 {
        std::fs::write(source.join(format!("f{file}")), random.bytes(2 << 20)).unwrap();
    }
    let before = store.container_bytes();
    let address = format!("thalweg://{}::t", node.address);
    let mut put =
        command(&["put".as_ref(), source.as_os_str(), address.as_ref()]).stderr(Stdio::piped()).spawn().unwrap();
    while store.container_bytes() == before && put.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    signal(&put, libc::SIGSTOP);
    put.try_wait().unwrap().is_none().then_some(put)
}

#[test]
fn a_put_says_that_its_node_does_not_answer_before_it_gives_it_up() {
    let (store, mut random) = (Store::new(), Random::fresh());
    let node = Node::of(&store);
    let put = (0..8).find_map(|_| begun_put(&store, &node, &mut random));
    let mut put = put.expect("one of eight puts takes longer than a moment");
    let address = node.address.clone();
    drop(node);
    signal(&put, libc::SIGCONT);
    let first = BufReader::new(put.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    put.kill().unwrap();
    put.wait().unwrap();
    assert!(first.contains(&format!("{address} does not answer")) && first.contains("tried again for"), "{first}");
}
