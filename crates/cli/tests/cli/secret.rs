//! A node with a secret, as its users meet it: made, given to node and clients, and refused where it is missing or open.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::node::Node;
use super::runner::{Run, Store, command, run};

fn secret(store: &Store, name: &str) -> PathBuf {
    let file = store.path(name);
    run(&["secret".as_ref(), file.as_os_str()]).expect(0);
    file
}

/// Lists the node's store with this secret file, or none.
fn list(node: &Node, secret: Option<&Path>) -> Run {
    let mut list = command(&["ls".to_owned(), format!("thalweg://{}::", node.address)]);
    list.env_remove("THALWEG_SECRET_FILE");
    secret.map(|file| list.env("THALWEG_SECRET_FILE", file));
    list.output().expect("the command starts").into()
}

#[test]
fn a_node_with_a_secret_serves_who_has_it_and_refuses_others() {
    let store = Store::new();
    std::fs::write(store.path("file"), "content").unwrap();
    store.put(&store.path("file"), "file");
    let (right, wrong) = (secret(&store, "right"), secret(&store, "wrong"));
    let node = Node::with(&store, &["--secret-file", right.to_str().unwrap()]);
    assert_eq!(list(&node, Some(&right)).expect(0).text(), "file\n");
    assert!(list(&node, None).expect(1).stderr.contains("THALWEG_SECRET_FILE"));
    assert!(list(&node, Some(&wrong)).expect(1).stderr.contains("another secret"));
    let open = Node::of(&store);
    assert!(list(&open, Some(&right)).expect(1).stderr.contains("did not prove"));
    list(&open, None).expect(0);
}

#[test]
fn a_near_node_with_another_secret_names_its_own_option_before_what_the_far_node_says() {
    let (store, near) = (Store::new(), Store::new());
    let (right, wrong) = (secret(&store, "right"), secret(&store, "wrong"));
    let far = Node::with(&store, &["--secret-file", right.to_str().unwrap()]);
    let upstream = format!("thalweg://{}", far.address);
    let options = ["--insecure", "--upstream", &upstream, "--upstream-secret-file", wrong.to_str().unwrap()];
    let refused = near.try_verb("node", &options).expect(1).stderr;
    let place_of = |part: &str| refused.find(part).unwrap_or_else(|| panic!("no {part:?} in {refused}"));
    assert!(place_of("--upstream-secret-file") < place_of("the client has another secret"), "{refused}");
    assert!(refused.contains(&far.address), "{refused}");
}

#[test]
fn a_run_without_the_secret_names_the_nodes_that_refuse_it_and_where_the_secret_comes_from() {
    let store = Store::new();
    let file = secret(&store, "secret");
    let nodes = [(); 2].map(|()| Node::with(&store, &["--secret-file", file.to_str().unwrap()]));
    let mut run = command(&["run", "--node", &nodes[0].address, "--node", &nodes[1].address, "--", "true"]);
    let refused = Run::from(run.env_remove("THALWEG_SECRET_FILE").output().unwrap()).expect(1).stderr;
    for part in [nodes[0].address.as_str(), &nodes[1].address, "no node lets it in", "--secret-file FILE"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
}

#[test]
fn an_address_that_others_reach_needs_a_secret_or_a_word() {
    let store = Store::new();
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let refused = store.try_verb("node", &["--listen", listen]).expect(1).stderr;
        assert!(refused.contains("thalweg secret FILE") && refused.contains("--insecure"), "{refused}");
    }
    let file = secret(&store, "secret");
    Node::with(&store, &["--listen", "0.0.0.0:0", "--secret-file", file.to_str().unwrap()]);
    Node::with(&store, &["--listen", "0.0.0.0:0", "--insecure"]);
}

#[test]
fn a_secret_file_that_others_may_read_is_refused_by_node_and_client() {
    let store = Store::new();
    let file = secret(&store, "secret");
    let node = Node::with(&store, &["--secret-file", file.to_str().unwrap()]);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(list(&node, Some(&file)).expect(1).stderr.contains("chmod 600"));
    let refused = store.try_verb("node", &["--listen", "127.0.0.1:0", "--secret-file", file.to_str().unwrap()]);
    assert!(refused.expect(1).stderr.contains("chmod 600"));
    assert!(run(&["secret".as_ref(), file.as_os_str()]).expect(1).stderr.contains("exists"));
}

#[test]
fn a_file_that_is_no_text_is_no_secret() {
    let store = Store::new();
    let file = secret(&store, "secret");
    std::fs::write(&file, b"\xff\xfe\x00").unwrap();
    let refused =
        store.try_verb("node", &["--listen", "127.0.0.1:0", "--secret-file", file.to_str().unwrap()]).expect(1);
    assert!(
        refused.stderr.contains("other bytes than text") && refused.stderr.contains("thalweg secret FILE"),
        "{refused:?}"
    );
}
