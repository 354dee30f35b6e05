//! Files that could not be stored: the nodes are sent why, for the user who started the program.

use super::*;

fn of_job(nodes: &[Arc<Node>]) -> Settings {
    Settings { job: "job".into(), ..settings(nodes) }
}

fn reported(nodes: &[Arc<Node>]) -> Vec<(String, String)> {
    nodes.iter().flat_map(|node| node.does.failures.lock().unwrap().clone()).collect()
}

/// Returns the only report, about `run/out.dat`.
fn why(nodes: &[Arc<Node>]) -> String {
    let [(path, why)] = &reported(nodes)[..] else { panic!("{:?}", reported(nodes)) };
    assert_eq!(path, "run/out.dat");
    why.clone()
}

fn try_to_open(client: &Client, flags: u32) {
    assert!(client.open(b"/run/out.dat", flags).is_err());
}

#[test]
fn a_file_that_could_not_be_opened_for_writing_is_reported() {
    let (_world, nodes) = nodes(1);
    let client = Client::new(of_job(&nodes), None);
    nodes[0].does.fail_opens.store(true, Ordering::SeqCst);
    try_to_open(&client, READ);
    assert_eq!(reported(&nodes), []);
    try_to_open(&client, WRITE | CREATE);
    assert!(why(&nodes).contains("full"));
}

#[test]
fn a_file_whose_commit_failed_is_reported() {
    for acknowledge in [Acknowledge::Durable, Acknowledge::Received] {
        let (_world, nodes) = nodes(2);
        nodes.iter().for_each(|node| node.does.fail_commits.store(true, Ordering::SeqCst));
        let client = Client::new(Settings { acknowledge, ..of_job(&nodes) }, None);
        let file = open(&client, WRITE);
        let _ = file.commit();
        let _ = file.detach(1);
        let _ = client.finalize();
        assert!(why(&nodes).contains("full"));
    }
}

#[test]
fn a_file_that_was_closed_without_a_commit_is_reported_by_its_last_process_alone() {
    let (_world, nodes) = nodes(1);
    let (first, last) = (Client::new(of_job(&nodes), None), Client::new(of_job(&nodes), None));
    let (of_first, of_last) = (open(&first, WRITE), open(&last, WRITE));
    of_first.detach(0).unwrap();
    assert_eq!(reported(&nodes), []);
    of_last.detach(2).unwrap();
    assert!(why(&nodes).contains("another process"));
}

#[test]
fn files_that_are_stored_or_only_read_are_not_reported() {
    let (_world, nodes) = nodes(1);
    let client = Client::new(of_job(&nodes), None);
    let file = open(&client, WRITE);
    file.write(&[source(0, &[1; 100])]).unwrap();
    file.commit().unwrap();
    file.detach(1).unwrap();
    open(&client, READ).detach(1).unwrap();
    let without_job = Client::new(settings(&nodes), None);
    open(&without_job, WRITE).detach(1).unwrap();
    client.finalize().unwrap();
    assert_eq!(reported(&nodes), []);
}

/// Returns a client whose first open failed; no node accepted the report of it.
fn client_whose_first_open_failed(nodes: &[Arc<Node>]) -> Client {
    let client = Client::new(Settings { timeout: Duration::from_secs(1), ..of_job(nodes) }, None);
    nodes[0].crash();
    try_to_open(&client, WRITE | CREATE);
    nodes[0].revive();
    client
}

#[test]
fn what_no_node_took_is_reported_at_the_end() {
    let (_world, nodes) = nodes(1);
    let client = client_whose_first_open_failed(&nodes);
    assert_eq!(reported(&nodes), []);
    client.finalize().unwrap();
    assert!(!why(&nodes).is_empty());
}

#[test]
fn what_was_stored_in_a_second_attempt_is_not_reported_at_the_end() {
    let (_world, nodes) = nodes(1);
    let client = client_whose_first_open_failed(&nodes);
    let file = open(&client, WRITE);
    file.commit().unwrap();
    file.detach(1).unwrap();
    client.finalize().unwrap();
    assert_eq!(reported(&nodes), []);
}
