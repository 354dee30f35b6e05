//! The suite every store passes, run through the wire against a store in memory.

use std::sync::Arc;

use store::{ClaimOwner, CountingRegistrar, LocalStore, MemoryStore, SegmentStore};
use transfer::message::{Failure, FailureKind, Reply, Request, StoredBlockHeader};
use transfer::{ClientSender, Handler, Hello, Remote, RemoteStore, Replier, Server, Service};

use crate::fake::{Fake, block};

/// A node that has a segment store and nothing else.
struct StoreNode {
    store: LocalStore,
}

/// The service, for one client.
struct StoreService(Arc<StoreNode>);
struct StoreHandler(Arc<StoreNode>);

impl Service for StoreService {
    fn connect(&self, _: Hello, _: ClientSender) -> Result<(Reply, Box<dyn Handler>), Failure> {
        let welcome = Reply::Welcome { settings: Fake::settings().to_text(), incarnation: 1 };
        Ok((welcome, Box::new(StoreHandler(self.0.clone()))))
    }
}

impl Handler for StoreHandler {
    fn handle(&mut self, request: Request, payload: Vec<u8>, replier: Replier) {
        match self.answer(request, payload) {
            Ok((reply, payloads)) => {
                let pieces: Vec<&[u8]> = payloads.iter().map(|payload| &payload[..]).collect();
                replier.reply_with(reply, &pieces);
            }
            Err(failure) => replier.fail(failure),
        }
    }

    fn closed(&mut self) {}
}

impl StoreHandler {
    fn answer(&self, request: Request, payload: Vec<u8>) -> Result<(Reply, Vec<Vec<u8>>), Failure> {
        let store = &self.0.store;
        let reply = match request {
            Request::FindMissing { owner, fingerprints } => {
                Reply::Answers { answers: store.missing(ClaimOwner(owner), &fingerprints)? }
            }
            Request::AwaitClaims { owner, fingerprints } => {
                Reply::Answers { answers: store.await_claims(ClaimOwner(owner), &fingerprints)? }
            }
            Request::PutBlock { owner, header, segments } => {
                let block = format::Block { header, segments, payload };
                block.check()?;
                Reply::Stored { run: store.put(ClaimOwner(owner), &block)? }
            }
            Request::Release { owner } => {
                store.release(ClaimOwner(owner));
                Reply::Done {}
            }
            Request::Entries { run } => Reply::Entries { entries: store.entries(run)? },
            Request::MakeDurable {} => {
                store.make_durable()?;
                Reply::Done {}
            }
            Request::Get { run } => {
                let (blocks, payloads) = store.get(run)?.into_iter().map(apart).unzip();
                return Ok((Reply::Blocks { blocks }, payloads));
            }
            other => return Err(Failure::new(FailureKind::Refused, format!("{other:?} is not for a store"))),
        };
        Ok((reply, Vec::new()))
    }
}

fn apart(placed: store::StoredBlock) -> (StoredBlockHeader, Vec<u8>) {
    let store::StoredBlock { labels, block } = placed;
    (StoredBlockHeader { labels, header: block.header, segments: block.segments }, block.payload)
}

fn store_behind_the_wire() -> RemoteStore {
    let store = MemoryStore::create(&Fake::settings(), Arc::new(CountingRegistrar::new())).unwrap();
    let node = Arc::new(StoreNode { store });
    let server = Server::bind("127.0.0.1:0", Arc::new(StoreService(node))).unwrap();
    server.spawn();
    RemoteStore::new(Remote::connect(&server.local_address().to_string(), 1, "conformance", "").unwrap())
}

#[test]
fn a_store_behind_the_wire_passes_the_suite_of_stores() {
    store::conformance::suite(|| Box::new(store_behind_the_wire()));
}

#[test]
fn a_block_that_is_refused_among_many_is_an_error_and_the_next_are_stored() {
    let store = store_behind_the_wire();
    let blocks: Vec<_> = (1..=5).map(|seed| block(seed, 4, 4096)).collect();
    let mut damaged = blocks.clone();
    damaged[2].payload[7] ^= 1;
    store.put_all(ClaimOwner(1), &mut damaged.into_iter()).unwrap_err();
    let runs = store.put_all(ClaimOwner(1), &mut blocks.iter().cloned()).unwrap();
    assert_eq!(runs.len(), blocks.len());
    assert!(runs.iter().zip(&blocks).all(|(run, block)| store.get(*run).unwrap()[0].block == *block));
}
