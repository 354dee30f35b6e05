//! The client's side: store and catalog over the wire, claims, broken connections, a node that is replaced.

use std::io::{Read, copy};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use catalog::{Commit, Names, Purpose};
use format::{Change, ContainerId, Fingerprint, Run, SessionId, StorePath, VersionId};
use store::{Answer, ClaimOwner, SegmentStore};
use transfer::message::{Failure, FailureKind, Reply, Request};
use transfer::{Connection, Error, Frame, Remote, RemoteCatalog, RemoteStore, Server};

use crate::fake::{Fake, block, file};

const ME: ClaimOwner = ClaimOwner(1);
const OTHER: ClaimOwner = ClaimOwner(2);

fn remote(server: &Server) -> Remote {
    Remote::connect(&server.local_address().to_string(), 77, "job", "").unwrap()
}

/// Returns when it answers no more, as a process that has ended.
fn stop(server: &Server) {
    server.stop();
    while server.connections() > 0 {
        thread::sleep(Duration::from_millis(1));
    }
}

fn path(text: &str) -> StorePath {
    StorePath::new(text.as_bytes()).unwrap()
}

fn names(block: &format::Block) -> Vec<Fingerprint> {
    block.segments.iter().map(|segment| segment.fingerprint).collect()
}

#[test]
fn blocks_come_back_as_they_were_put() {
    let server = Fake::new(1).serve();
    let store = RemoteStore::new(remote(&server));
    let blocks: Vec<_> = (1..=3).map(|seed| block(seed, 8, 4096)).collect();
    let runs: Vec<Run> = blocks.iter().map(|block| store.put(ME, block).unwrap()).collect();
    store.make_durable().unwrap();
    let all = Run { count: 24, ..runs[0] };
    let found = store.get(all).unwrap();
    assert!(found.iter().map(|placed| &placed.block).eq(&blocks));
    let addresses: Vec<_> = found.iter().flat_map(|placed| placed.addresses().collect::<Vec<_>>()).collect();
    assert_eq!(addresses, all.addresses().collect::<Vec<_>>());
    assert_eq!(store.get(runs[1]).unwrap()[0].block, blocks[1]);
    let middle = Run { first: 4, count: 8, ..all };
    assert_eq!(store.entries(middle).unwrap(), [&blocks[0].segments[4..], &blocks[1].segments[..4]].concat());
    let missing = store.get(Run { first: 99, ..all }).unwrap_err();
    assert!(matches!(missing, store::Error::NotFound { .. }) && missing.to_string().ends_with("is not in the store"));
}

#[test]
fn a_run_too_large_for_one_reply_comes_in_parts() {
    let server = Fake::new(1).serve();
    let store = RemoteStore::new(remote(&server));
    let blocks: Vec<_> = (1..=5).map(|seed| block(seed, 3, 8 << 20)).collect();
    let runs: Vec<Run> = blocks.iter().map(|block| store.put(ME, block).unwrap()).collect();
    let found = store.get(Run { count: 15, ..runs[0] }).unwrap();
    assert!(found.iter().map(|placed| &placed.block).eq(&blocks), "{} blocks came", found.len());
}

#[test]
fn claims_stay_with_their_owner_until_put_or_released() {
    let fake = Fake::new(1);
    let server = fake.serve();
    let store = RemoteStore::new(remote(&server));
    let (mine, theirs) = (block(1, 4, 512), block(2, 4, 512));
    assert_eq!(store.missing(ME, &names(&mine)).unwrap(), vec![Answer::Send; 4]);
    assert_eq!(store.missing(OTHER, &names(&mine)).unwrap(), vec![Answer::Claimed; 4]);
    assert_eq!(store.missing(OTHER, &names(&theirs)).unwrap(), vec![Answer::Send; 4]);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| store.await_claims(OTHER, &names(&mine)).unwrap());
        thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        let run = store.put(ME, &mine).unwrap();
        let addresses = run.addresses().map(Answer::Have).collect::<Vec<_>>();
        assert_eq!(waiting.join().unwrap(), addresses);
    });
    assert_eq!(fake.store.lock().unwrap().open_claims(), 4);
    store.release(OTHER);
    assert_eq!(fake.store.lock().unwrap().open_claims(), 0);
    assert_eq!(store.missing(ME, &names(&theirs)).unwrap(), vec![Answer::Send; 4]);
    drop(store);
    let deadline = Instant::now() + Duration::from_secs(5);
    while fake.store.lock().unwrap().open_claims() > 0 {
        assert!(Instant::now() < deadline, "claims end with the client's last connection");
    }
}

#[test]
fn claims_outlive_a_connection_of_their_owner() {
    let fake = Fake::new(1);
    let server = fake.serve();
    let store = RemoteStore::new(remote(&server));
    let another = Remote::connect(&server.local_address().to_string(), 78, "job", "").unwrap();
    let other = RemoteStore::new(another);
    let (mine, theirs) = (block(1, 4, 512), block(2, 4, 512));
    store.missing(ME, &names(&mine)).unwrap();
    // A second connection of the same client, whose end is nothing to the claims.
    let second = Connection::open(&server.local_address().to_string()).unwrap();
    let hello = Request::Hello { client: 77, stream: 1, job: String::new(), application: String::new() };
    second.send(hello.kind(), 1, &hello.encode(), &[]).unwrap();
    second.receive().unwrap();
    drop(second);
    let deadline = Instant::now() + Duration::from_secs(5);
    while fake.closed.load(Ordering::SeqCst) == 0 {
        assert!(Instant::now() < deadline);
    }
    assert_eq!(
        other.missing(ME, &names(&mine)).unwrap(),
        vec![Answer::Claimed; 4],
        "another client's owner 1 is another"
    );
    store.put(OTHER, &theirs).unwrap();
    store.put(ME, &mine).unwrap();
    assert_eq!(fake.store.lock().unwrap().open_claims(), 0);
    assert_eq!(fake.connected.load(Ordering::SeqCst), 3, "requests of all owners share the connections");
}

#[test]
fn claim_owners_without_claims_share_the_connections() {
    let fake = Fake::new(1);
    let server = fake.serve();
    let store = RemoteStore::new(remote(&server));
    for number in 0..100 {
        let block = block(number + 1, 2, 512);
        store.missing(ClaimOwner(number), &names(&block)).unwrap();
        store.put(ClaimOwner(number), &block).unwrap();
    }
    assert_eq!(fake.connected.load(Ordering::SeqCst), 1);
}

#[test]
fn many_threads_use_a_few_connections() {
    let fake = Fake::new(1);
    let server = fake.serve();
    let remote = remote(&server);
    let catalog = RemoteCatalog::new(remote.clone());
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| (0..50).for_each(|_| assert!(catalog.entry(&path("a")).unwrap().is_none())));
        }
    });
    // On a busy machine the node may have seemed far.
    let most = if remote.round_trip() < store::FAR { 4 } else { 16 };
    assert!(fake.connected.load(Ordering::SeqCst) <= most);
}

#[test]
fn catalog_calls_and_errors_cross_the_wire() {
    let fake = Fake::new(1);
    let server = fake.serve();
    let catalog = RemoteCatalog::new(remote(&server));
    let session = catalog.begin(Purpose::Write, 1000).unwrap();
    catalog.end(session.id).unwrap();
    let mut commit =
        Commit { session: SessionId(8), references: vec![], epoch: 3, changes: vec![], checkpoints: vec![] };
    let not_live = catalog.commit(&commit).unwrap_err();
    assert!(matches!(not_live, catalog::Error::NotLive { containers } if containers == [ContainerId(7)]));
    commit.changes.push(Change::Remove { path: path("a/b"), recursive: false });
    let moved = catalog.commit(&commit).unwrap_err();
    assert!(
        matches!(moved, catalog::Error::HeadMoved { path: at, head: Some(VersionId { number: 8, .. }) } if at == path("a/b"))
    );
    let odd = catalog.path_sessions().unwrap_err();
    assert!(odd.to_string().contains("reply: kind 0x8000"), "a reply of the wrong kind: {odd}");
}

#[test]
fn long_lists_are_put_together_from_several_requests() {
    let fake = Fake::new(1);
    let server = fake.serve();
    let catalog = RemoteCatalog::new(remote(&server));
    let all: Vec<_> = (0..40_000).map(|number| (path(&format!("{number:06}")), file(number))).collect();
    fake.names.lock().unwrap().extend(all.iter().cloned());
    let root = StorePath::root();
    assert!(catalog.list(&root, true, None, usize::MAX).unwrap() == all);
    assert!(catalog.list(&root, true, Some(&all[4].0), 20_000).unwrap() == all[5..20_005]);
}

#[test]
fn a_node_that_lists_the_same_page_again_and_again_is_refused() {
    let fake = Arc::new(Fake { repeats_listings: true, ..Fake::default() });
    let server = fake.serve();
    let catalog = RemoteCatalog::new(remote(&server));
    fake.names.lock().unwrap().extend((0..5000).map(|number| (path(&format!("{number:06}")), file(number))));
    let root = StorePath::root();
    let refused = catalog.list(&root, true, None, usize::MAX).unwrap_err();
    assert!(refused.to_string().contains("000000 was listed after 004095"), "{refused}");
    let elsewhere = catalog.list(&path("other"), true, None, 10).unwrap_err();
    assert!(elsewhere.to_string().contains("where it does not lie"), "{elsewhere}");
}

#[test]
fn a_node_that_lists_a_name_at_a_time_is_refused() {
    let fake = Arc::new(Fake { page_entries: Some(1), ..Fake::default() });
    let server = fake.serve();
    let catalog = RemoteCatalog::new(remote(&server));
    fake.names.lock().unwrap().extend((0..500).map(|number| (path(&format!("{number:06}")), file(number))));
    let refused = catalog.list(&StorePath::root(), true, None, 4096).unwrap_err();
    assert!(refused.to_string().contains("a few entries at a time"), "{refused}");
    // The page is not short: it has as many entries as requested.
    assert_eq!(catalog.list(&StorePath::root(), true, None, 1).unwrap().len(), 1);
}

#[test]
fn a_node_whose_pages_do_not_get_on_is_refused() {
    let server = Fake::new(1).serve();
    let catalog = RemoteCatalog::new(remote(&server));
    let again = catalog.checkpoints(SessionId(1)).unwrap_err();
    assert!(again.to_string().contains("(0, 1) was listed after (0, 1)"), "{again}");
    let empty = catalog.checkpoints(SessionId(2)).unwrap_err();
    assert!(empty.to_string().contains("with more behind it was empty"), "{empty}");
}

#[test]
fn a_node_that_comes_back_is_found_again() {
    let fake = Fake::new(1);
    let server = fake.serve();
    let address = server.local_address().to_string();
    let remote = remote(&server);
    let catalog = RemoteCatalog::new(remote.clone());
    let store = RemoteStore::new(remote);
    let first = block(1, 4, 512);
    let run = store.put(ME, &first).unwrap();
    stop(&server);
    let again = thread::spawn({
        let (fake, address) = (fake.clone(), address.clone());
        move || {
            thread::sleep(Duration::from_millis(300));
            fake.serve_at(&address)
        }
    });
    assert!(catalog.entry(&path("a")).unwrap().is_none(), "asked until it was there");
    let server = again.join().unwrap();
    assert_eq!(store.get(run).unwrap()[0].block, first);
    store.make_durable().expect("it is the same process");
    stop(&server);
    let _server = Arc::new(Fake { incarnation: 2, ..Fake::default() }).serve_at(&address);
    store.put(ME, &first).expect("nothing was left to become durable, so another process will do");
}

#[test]
fn what_a_replaced_node_may_have_lost_is_not_called_durable() {
    let server = Fake::new(1).serve();
    let address = server.local_address().to_string();
    let remote = remote(&server);
    let (store, catalog) = (RemoteStore::new(remote.clone()), RemoteCatalog::new(remote));
    let (references, changes, checkpoints) = (Vec::new(), Vec::new(), Vec::new());
    let commit = Commit { session: SessionId(1), references, epoch: 1, changes, checkpoints };
    let asked = catalog.commit(&commit);
    assert!(matches!(asked, Err(catalog::Error::NotLive { .. })), "this node is asked: {asked:?}");
    store.put(ME, &block(1, 4, 512)).unwrap();
    stop(&server);
    let _server = Fake::new(2).serve_at(&address);
    for _ in 0..2 {
        let refused = catalog.commit(&commit).unwrap_err();
        assert!(refused.to_string().contains("the node was restarted"), "{refused}");
        assert!(matches!(store.make_durable(), Err(store::Error::Failed { .. })));
        assert!(matches!(store.put(ME, &block(2, 4, 512)), Err(store::Error::Failed { .. })));
    }
    assert!(RemoteStore::new(Remote::connect(&address, 77, "job", "").unwrap()).make_durable().is_ok());
}

/// Welcomes every client, and hangs up at the first request.
/// Passes the connections on to the nodes, one each and all others to the last; the first breaks after so many bytes.
fn breaking_once(nodes: [SocketAddr; 2], bytes: u64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for (number, client) in listener.incoming().enumerate() {
            let (client, node) = (client.unwrap(), TcpStream::connect(nodes[number.min(1)]).unwrap());
            let (mut from_node, mut to_client) = (node.try_clone().unwrap(), client.try_clone().unwrap());
            let most = if number == 0 { bytes } else { u64::MAX };
            thread::spawn(move || copy(&mut from_node, &mut to_client));
            thread::spawn(move || {
                let _ = copy(&mut (&client).take(most), &mut &node);
                let _ = (client.shutdown(Shutdown::Both), node.shutdown(Shutdown::Both));
            });
        }
    });
    address
}

#[test]
fn blocks_under_way_when_a_connection_breaks_are_put_again() {
    let server = Fake::new(1).serve();
    let blocks: Vec<_> = (1..=5).map(|seed| block(seed, 3, 1 << 20)).collect();
    let address = breaking_once([server.local_address(); 2], 5 << 20);
    let store = RemoteStore::new(Remote::connect(&address, 77, "job", "").unwrap());
    let runs = store.put_all(ME, &mut blocks.iter().cloned()).unwrap();
    assert_eq!(runs.len(), blocks.len());
    assert!(runs.iter().zip(&blocks).all(|(run, block)| store.get(*run).unwrap()[0].block == *block));
    store.make_durable().expect("it is the same process");
}

#[test]
fn blocks_under_way_when_a_node_is_replaced_are_not_stored_beside_those_it_lost() {
    let (server, other) = (Fake::new(1).serve(), Fake::new(2).serve());
    let blocks: Vec<_> = (1..=5).map(|seed| block(seed, 3, 1 << 20)).collect();
    let address = breaking_once([server.local_address(), other.local_address()], 5 << 20);
    let store = RemoteStore::new(Remote::connect(&address, 77, "job", "").unwrap());
    store.put(ME, &block(9, 4, 512)).unwrap();
    let failed = store.put_all(ME, &mut blocks.iter().cloned());
    assert!(matches!(failed, Err(store::Error::Failed { .. })), "{failed:?}");
    assert!(matches!(store.make_durable(), Err(store::Error::Failed { .. })));
}

fn node_that_hangs_up() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        while let Ok((stream, peer)) = listener.accept() {
            let connection = Connection::accepted(stream, peer).unwrap();
            connection.receive().unwrap();
            let welcome = Reply::Welcome { settings: Fake::settings().to_text(), incarnation: 1 };
            connection.send(welcome.kind(), 1, &welcome.encode(), &[]).unwrap();
            connection.receive().unwrap();
        }
    });
    address
}

/// Takes one connection after another: each receives so many requests, answers the first of them, and hangs up. Returns which
/// containers were asked for over each.
fn node_that_answers_some(connections: &'static [(usize, usize)]) -> (String, thread::JoinHandle<Vec<Vec<u64>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = move |&(received, answered): &(usize, usize)| {
        let (stream, peer) = listener.accept().unwrap();
        let connection = Connection::accepted(stream, peer).unwrap();
        connection.receive().unwrap();
        let welcome = Reply::Welcome { settings: Fake::settings().to_text(), incarnation: 1 };
        connection.send(welcome.kind(), 1, &welcome.encode(), &[]).unwrap();
        let asked: Vec<_> = (0..received).map(|_| connection.receive().unwrap().expect("a request")).collect();
        let (nothing, refused) = (Reply::Blocks { blocks: Vec::new() }, Failure::new(FailureKind::NotFound, "gone"));
        for (place, frame) in asked[..answered].iter().enumerate() {
            let refused = Reply::Failed { failure: refused.clone() };
            let reply = if place == 1 { &refused } else { &nothing };
            connection.send(reply.kind(), frame.header.request, &reply.encode(), &[]).unwrap();
        }
        let of = |frame: &Frame| match Request::decode(frame.header.kind, &frame.body).unwrap() {
            Request::Get { run } => run.container.0,
            other => panic!("{other:?}"),
        };
        asked.iter().map(of).collect()
    };
    (address, thread::spawn(move || connections.iter().map(serve).collect()))
}

#[test]
fn runs_are_asked_for_at_once_and_those_unanswered_again_when_the_connection_breaks() {
    let (address, node) = node_that_answers_some(&[(5, 3), (2, 2)]);
    let store = RemoteStore::new(Remote::connect(&address, 1, "job", "").unwrap());
    let runs = [1, 2, 3, 4, 5].map(|number| Run { container: ContainerId(number), first: 0, count: 1 });
    let mut answers = 0;
    let mut count = |_| {
        answers += 1;
        true
    };
    store.get_each(&runs, &mut count).unwrap();
    assert_eq!(answers, 3, "the second of each connection was refused");
    assert_eq!(node.join().unwrap(), [vec![1, 2, 3, 4, 5], vec![4, 5]]);
}

#[test]
fn what_must_not_be_done_twice_is_not_asked_twice() {
    let address = node_that_hangs_up();
    let remote = Remote::connect(&address, 1, "job", "").unwrap();
    let started = Instant::now();
    let lost = remote.call(&Request::Recover { session: SessionId(1) }, &[]).unwrap_err();
    assert!(matches!(lost, Error::Unavailable { .. }) && lost.to_string().contains("not known"), "{lost}");
    assert!(started.elapsed() < Duration::from_secs(12), "asking again goes on for 15 s");
}

#[test]
fn an_address_without_a_listener_is_an_error_at_once() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let started = Instant::now();
    let Err(error) = Remote::connect(&free, 1, "job", "") else { panic!("a server is there") };
    assert!(error.to_string().starts_with(&free) && error.to_string().contains("thalweg node"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(12), "asking again goes on for 15 s");
}
