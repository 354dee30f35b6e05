//! Silent nodes, slow nodes, and addresses without a listener: every wait ends, and none too early.

use std::net::{TcpListener, TcpStream};

use super::*;
use crate::client::stream::Ask;

fn with_timeout(nodes: &[Arc<Node>], seconds: u64) -> Settings {
    Settings { timeout: Duration::from_secs(seconds), ..settings(nodes) }
}

/// Returns a file of which the node holds some bytes that are not durable.
fn file(nodes: &[Arc<Node>], seconds: u64) -> (Client, File) {
    let client = Client::new(with_timeout(nodes, seconds), None);
    let file = open(&client, WRITE);
    nodes[0].does.never_durable.store(true, Ordering::SeqCst);
    file.write(&[source(0, &vec![7; 2 << 20])]).unwrap();
    file.flush().unwrap();
    nodes[0].does.never_durable.store(false, Ordering::SeqCst);
    (client, file)
}

/// An address that takes no connection and refuses none.
struct BlackHole {
    address: String,
    _listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl BlackHole {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(200));
        let queued: Vec<TcpStream> = std::iter::from_fn(|| connect().ok()).take(100).collect();
        assert!(queued.len() < 100, "the queue of the listener is full");
        BlackHole { address: address.to_string(), _listener: listener, _queued: queued }
    }
}

#[test]
fn closing_at_a_node_that_froze_is_an_error_within_the_timeout() {
    assert_within(Duration::from_secs(12), || {
        let (_world, nodes) = nodes(1);
        let (_client, file) = file(&nodes, 6);
        nodes[0].does.frozen.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        let error = file.detach(1).unwrap_err();
        let took = begun.elapsed();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("has sent nothing"), "{error}");
        nodes[0].does.frozen.store(false, Ordering::SeqCst);
        took
    });
}

/// Its streams find it silent together, not one after the other.
#[test]
fn a_node_of_two_that_froze_costs_its_silence_once_and_less_than_a_short_timeout() {
    assert_within(Duration::from_secs(9), || {
        let (_world, nodes) = nodes(2);
        let client = Client::new(Settings { streams: Some(2), ..with_timeout(&nodes, 10) }, None);
        let file = open(&client, READ | WRITE);
        nodes[0].does.frozen.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        for stripe in [0, 2, 1, 3] {
            file.write(&[source(stripe * STRIPE_BYTES, &[7; 9])]).unwrap();
        }
        file.commit().unwrap();
        file.detach(1).unwrap();
        let took = begun.elapsed();
        nodes[0].does.frozen.store(false, Ordering::SeqCst);
        took
    });
}

#[test]
fn attaching_at_a_node_that_froze_is_an_error_within_the_timeout() {
    assert_within(Duration::from_secs(12), || {
        let (_world, nodes) = nodes(1);
        let client = Client::new(Settings { streams: Some(1), ..with_timeout(&nodes, 6) }, None);
        nodes[0].does.freeze_at_attach.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        let ticket = client.open(b"/frozen", WRITE | CREATE).unwrap();
        let (sender, outcome) = std::sync::mpsc::channel();
        // The attempt is left behind where it never ends.
        std::thread::spawn(move || sender.send(client.attach(&ticket, WRITE).map(drop)));
        let error = outcome.recv_timeout(Duration::from_secs(60)).expect("it hangs").unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        nodes[0].does.freeze_at_attach.store(false, Ordering::SeqCst);
        nodes[0].does.frozen.store(false, Ordering::SeqCst);
        begun.elapsed()
    });
}

/// Returns how `call` fails at a node that takes everything again after each break, and breaks at requests of this kind.
fn fails_at_a_node_that_breaks_at(kind: u16, call: impl FnOnce(&Client, &File) -> Error + Send + 'static) {
    let (_world, nodes) = nodes(1);
    let (client, file) = file(&nodes, 6);
    nodes[0].does.never_durable.store(true, Ordering::SeqCst);
    nodes[0].does.close_at.store(kind.into(), Ordering::SeqCst);
    let greeted = nodes[0].does.greetings.load(Ordering::SeqCst);
    let (sender, outcome) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(call(&client, &file)));
    let error = outcome.recv_timeout(Duration::from_secs(60)).expect("it hangs");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    let greeted = nodes[0].does.greetings.load(Ordering::SeqCst) - greeted;
    assert!((2..60).contains(&greeted), "{greeted} connections within 6 s");
}

#[test]
fn a_node_that_breaks_at_each_checkpoint_is_an_error_and_not_tried_without_a_pause() {
    let kind = Request::Checkpoint { session: format::SessionId(1), stripe_set: 0, epoch: 1 }.kind();
    fails_at_a_node_that_breaks_at(kind, |_, file| file.checkpoint().unwrap_err());
}

#[test]
fn a_node_that_breaks_at_each_commit_is_an_error_and_not_tried_without_a_pause() {
    let kind =
        Request::CommitPath { session: format::SessionId(1), key: format::HandleKey([0; format::HandleKey::BYTES]) }
            .kind();
    fails_at_a_node_that_breaks_at(kind, |_, file| file.commit().unwrap_err());
}

#[test]
fn a_node_that_breaks_at_each_deletion_is_an_error_though_it_serves_open_files() {
    let kind = Request::Delete { path: format::StorePath::new(b"other").unwrap() }.kind();
    fails_at_a_node_that_breaks_at(kind, |client, _| match client.delete(b"/other").unwrap_err() {
        OpenError::Transfer(error) => error,
        error => panic!("{error}"),
    });
}

#[test]
fn a_node_that_stood_still_for_a_while_costs_only_time() {
    let (_world, nodes) = nodes(1);
    let (client, file) = file(&nodes, 60);
    nodes[0].does.frozen.store(true, Ordering::SeqCst);
    let node = nodes[0].clone();
    let thaw = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(13));
        node.does.frozen.store(false, Ordering::SeqCst);
    });
    file.write(&[source(2 << 20, &vec![8; 2 << 20])]).unwrap();
    file.commit().unwrap();
    file.detach(1).unwrap();
    thaw.join().unwrap();
    wait_until_nothing_is_kept(&client);
    let mut kept = Vec::new();
    nodes[0].bytes(1, STRIPE_BYTES, &mut kept);
    assert!(kept[..2 << 20].iter().all(|byte| *byte == 7) && kept[2 << 20..].iter().all(|byte| *byte == 8));
}

#[test]
fn a_node_that_lives_and_gets_nothing_done_is_an_error_within_the_timeout() {
    assert_within(Duration::from_secs(12), || {
        let (_world, nodes) = nodes(1);
        let (_client, file) = file(&nodes, 6);
        nodes[0].does.stuck.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        let error = file.detach(1).unwrap_err();
        let took = begun.elapsed();
        assert!(error.to_string().contains("got nothing done"), "{error}");
        nodes[0].does.stuck.store(false, Ordering::SeqCst);
        took
    });
}

#[test]
fn a_node_that_works_is_waited_for_however_long_it_holds_its_client_back() {
    let (_world, nodes) = nodes(1);
    let (_client, file) = file(&nodes, 6);
    nodes[0].does.busy.store(true, Ordering::SeqCst);
    let node = nodes[0].clone();
    let done = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(14));
        node.does.busy.store(false, Ordering::SeqCst);
    });
    file.write(&[source(2 << 20, &vec![8; 8 << 20])]).unwrap();
    file.commit().unwrap();
    file.detach(1).unwrap();
    done.join().unwrap();
}

#[test]
fn opening_with_several_nodes_that_live_and_are_stuck_takes_one_timeout() {
    // One after the other they would take 18 s.
    assert_within(Duration::from_secs(12), || {
        let (_world, nodes) = nodes(3);
        nodes.iter().for_each(|node| node.does.stuck.store(true, Ordering::SeqCst));
        let client = Client::new(with_timeout(&nodes, 6), None);
        let begun = Instant::now();
        let error = client.open(b"/stuck", WRITE | CREATE).unwrap_err();
        let took = begun.elapsed();
        assert!(error.to_string().contains("got nothing done"), "{error}");
        nodes.iter().for_each(|node| node.does.stuck.store(false, Ordering::SeqCst));
        took
    });
}

#[test]
fn a_process_that_holds_a_lock_says_that_it_lives() {
    let (_world, nodes) = nodes(1);
    let client = Client::new(with_timeout(&nodes, 60), None);
    let file = open(&client, READ | WRITE);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(nodes[0].does.heard_alive.load(Ordering::SeqCst), 0, "nothing waits for an idle process");
    file.lock().unwrap();
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs(7));
    file.unlock().unwrap();
    let heard = nodes[0].does.heard_alive.load(Ordering::SeqCst);
    let most = begun.elapsed().as_secs() / 2 + 1;
    assert!((1..=most).contains(&heard), "{heard} times, {most} at most");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(nodes[0].does.heard_alive.load(Ordering::SeqCst), heard);
    file.detach(1).unwrap();
}

#[test]
fn opening_passes_over_addresses_that_do_not_answer() {
    // One after the other they would take 15 s.
    let holes: Vec<BlackHole> = (0..5).map(|_| BlackHole::new()).collect();
    assert_within(Duration::from_secs(10), || {
        let (_world, nodes) = nodes(1);
        let mut addresses = settings(&nodes).nodes;
        addresses.extend(holes.iter().map(|hole| hole.address.clone()));
        let client = Client::new(Settings { nodes: addresses, ..with_timeout(&nodes, 60) }, None);
        let begun = Instant::now();
        let file = open(&client, READ | WRITE);
        let took = begun.elapsed();
        let bytes: Vec<u8> = (0..1_000_000u32).map(|at| (at % 251) as u8).collect();
        file.write(&[source(0, &bytes)]).unwrap();
        assert!(read(&file, 0, bytes.len()) == bytes);
        file.commit().unwrap();
        file.detach(1).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        took
    });
}

#[test]
fn another_process_that_attaches_passes_over_all_of_them_at_once() {
    let holes: Vec<BlackHole> = (0..3).map(|_| BlackHole::new()).collect();
    assert_within(Duration::from_secs(5), || {
        let (_world, nodes) = nodes(1);
        // The one that answers is the last that any stripe set would come to.
        let mut addresses: Vec<_> = holes.iter().map(|hole| hole.address.clone()).collect();
        addresses.extend(settings(&nodes).nodes);
        let process = || Client::new(Settings { nodes: addresses.clone(), ..with_timeout(&nodes, 60) }, None);
        let (first, second) = (process(), process());
        let ticket = first.open(b"/run/out.dat", WRITE | CREATE).unwrap();
        let begun = Instant::now();
        let file = second.attach(&ticket, WRITE).unwrap();
        let took = begun.elapsed();
        file.detach(1).unwrap();
        took
    });
}

#[test]
fn addresses_that_cannot_be_one_are_refused_at_once() {
    for address in ["garbage", "host", "host:0", "http://host:7420"] {
        let timeout = Duration::from_secs(3600);
        let client = Client::new(Settings { nodes: vec![address.into()], timeout, ..Settings::default() }, None);
        let begun = Instant::now();
        let error = client.open(b"/a", WRITE | CREATE).unwrap_err();
        assert!(matches!(error, OpenError::Configuration(_)) && error.to_string().contains(address), "{error}");
        assert!(client.delete(b"/a").is_err());
        assert!(begun.elapsed() < Duration::from_secs(60), "the timeout is an hour");
    }
}

#[test]
fn a_node_that_says_that_it_works_and_never_answers_is_not_believed_for_ever() {
    let ask = Ask::new(Request::Measure {}, Duration::from_secs(10), Box::new(|_| {}));
    let least = Duration::from_secs(6);
    let begun = Instant::now();
    let after = |seconds| begun + Duration::from_secs(seconds);
    assert_eq!(ask.stuck_since(after(190), least, after(190)), None, "it has worked until now");
    let since = ask.stuck_since(after(201), least, after(201)).unwrap();
    assert!(since < after(1), "the error says how long it was waited for");
    assert!(!ask.is_expired(after(190), after(190)) && ask.is_expired(after(201), after(201)));
}
