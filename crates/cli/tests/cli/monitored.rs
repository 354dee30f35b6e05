//! A node's pages at its metrics address while clients put and get.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::node::Node;
use super::runner::{Store, command, run};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The status line and the body.
fn page(node: &Node, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(node.metrics.as_ref().expect("the node has pages")).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    (head.lines().next().unwrap_or("").to_owned(), body.to_owned())
}

/// Samples by name and labels.
fn samples(node: &Node) -> BTreeMap<String, f64> {
    let (status, body) = page(node, "/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.rsplit_once(' ').expect("name and value"));
    pairs.map(|(name, value)| (name.to_owned(), value.parse().expect("a number"))).collect()
}

fn of_application(node: &Node, name: &str, application: &str) -> f64 {
    let series = format!("thalweg_node_{name}{{application=\"{application}\"}}");
    samples(node).get(&series).copied().unwrap_or(0.0)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {TIMEOUT:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn put(store: &Store, node: &Node, application: &str, name: &str) {
    put_from(&store.path("data"), node, application, name);
}

fn put_from(from: &Path, node: &Node, application: &str, name: &str) {
    let address = format!("thalweg://{}::{name}", node.address);
    let mut put = command(&["put".as_ref(), from.as_os_str(), address.as_ref()]);
    assert!(put.env("THALWEG_APPLICATION", application).status().unwrap().success());
}

#[test]
fn each_application_is_counted_while_it_puts_and_gets_through_a_node() {
    let store = Store::new();
    let node = Node::with(&store, &["--metrics", "127.0.0.1:0", "--share", "climate=4"]);
    let mut state = 7u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let data: Vec<u8> = (0..4 << 20).map(|_| random()).collect();
    std::fs::write(store.path("data"), &data).unwrap();
    let size = data.len() as f64;

    put(&store, &node, "climate", "a");
    let count = |name, application| of_application(&node, name, application);
    assert_eq!(count("written_bytes_total", "climate"), size);
    assert!(count("stored_bytes_total", "climate") >= size, "it cannot be compressed");
    assert!(count("received_bytes_total", "climate") >= count("stored_bytes_total", "climate"));
    assert_eq!((count("weight", "climate"), count("sent_bytes_total", "climate")), (4.0, 0.0));

    put(&store, &node, "genome \"x\"", "b");
    assert_eq!(count("written_bytes_total", r#"genome \"x\""#), size);
    assert!(count("stored_bytes_total", r#"genome \"x\""#) < size / 100.0, "the store has it already");

    let tree = store.path("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("file"), &data).unwrap();
    put_from(&tree, &node, "tree", "tree/");
    assert_eq!(count("written_bytes_total", "tree"), size, "its snapshot names the same content again");

    let from = format!("thalweg://{}::a", node.address);
    run(&["get".into(), from.into(), store.path("back").into_os_string()]).expect(0);
    assert!(count("sent_bytes_total", "other") >= size);
    assert!(samples(&node)["thalweg_node_staging_limit_bytes"] > 0.0);
    until("no connection is left", || {
        samples(&node).iter().all(|(name, value)| !name.starts_with("thalweg_node_connections{") || *value == 0.0)
    });
}

#[test]
fn the_pages_of_a_node_are_for_browsers_and_supervisors_too() {
    let store = Store::new();
    let node = Node::with(&store, &["--metrics", "127.0.0.1:0"]);
    assert_eq!(page(&node, "/health"), ("HTTP/1.1 200 OK".to_owned(), "ok\n".to_owned()));
    assert!(page(&node, "/").1.contains("<title>Thalweg</title>"));
    let view: Value = serde_json::from_str(&page(&node, "/page.json").1).unwrap();
    assert_eq!(view["title"].as_str(), Some(format!("Node {}", node.address).as_str()));
    assert_eq!(view["health"], Value::Null);
    assert_eq!(page(&node, "/secret").0, "HTTP/1.1 404 Not Found");
}

#[test]
fn an_address_where_no_pages_can_be_served_is_named_and_the_node_does_not_start() {
    let store = Store::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = store.directory();
    let listen = ["--listen", "127.0.0.1:0", "--metrics", &address].map(std::ffi::OsStr::new);
    let mut arguments = vec!["node".as_ref(), directory.as_os_str()];
    arguments.extend(listen);
    let refused = run(&arguments).expect(1);
    assert!(refused.stderr.contains(&format!("serving metrics at {address}")), "{}", refused.stderr);
}
