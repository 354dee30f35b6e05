//! A node for tests: a store and a catalog of plain maps, with the claims of clients' claim owners.

use std::collections::{BTreeMap, HashMap};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use catalog::{Checkpoint, FileEntry};
use format::{
    Block, BlockHeader, ContainerId, ElementId, FileId, Fingerprint, Label, Run, SegmentAddress, SegmentEntry,
    SessionId, Settings,
};
use format::{StoreId, StorePath, VersionId};
use store::Answer;
use transfer::message::{Failure, FailureKind, MAX_LISTED, Reply, Request, StoredBlockHeader};
use transfer::{ClientSender, Handler, Hello, Replier, Server, Service};

/// The one container of the fake store.
const CONTAINER: ContainerId = ContainerId(7);

#[derive(Default)]
pub struct Fake {
    pub incarnation: u64,
    pub store: Mutex<Store>,
    pub claims_changed: Condvar,
    pub names: Mutex<BTreeMap<StorePath, FileEntry>>,
    /// Calls of `closed`, and of `connect`.
    pub closed: AtomicUsize,
    pub connected: AtomicUsize,
    /// Checkpoints and locks that were requested.
    pub asked: AtomicUsize,
    /// Whether payloads are thrown away, to measure only the wire.
    pub forgetful: bool,
    /// Whether every page of a listing is the first.
    pub repeats_listings: bool,
    /// Entries of a page, whatever is requested.
    pub page_entries: Option<usize>,
}

/// A client, and which of its claim owners.
type ClaimOwner = (u64, u64);

#[derive(Default)]
pub struct Store {
    /// First ordinal and block, in order.
    blocks: Vec<(u32, Block)>,
    next: u32,
    addresses: HashMap<Fingerprint, SegmentAddress>,
    claims: HashMap<Fingerprint, ClaimOwner>,
    /// Connections of each client.
    connections: HashMap<u64, usize>,
}

impl Fake {
    pub fn new(incarnation: u64) -> Arc<Self> {
        Arc::new(Fake { incarnation, ..Fake::default() })
    }

    /// Serves it on a free port.
    pub fn serve(self: &Arc<Self>) -> Server {
        self.serve_at("127.0.0.1:0")
    }

    pub fn serve_at(self: &Arc<Self>, address: &str) -> Server {
        let server = Server::bind(address, Arc::new(Shared(self.clone()))).expect("a free address");
        server.spawn();
        server
    }

    /// Serves it on another server's listener.
    pub fn serve_on(self: &Arc<Self>, listener: TcpListener) -> Server {
        let server = Server::listen_on(listener, Arc::new(Shared(self.clone()))).expect("a listener");
        server.spawn();
        server
    }

    pub fn settings() -> Settings {
        Settings::new(StoreId([5; 16]))
    }
}

/// The service: another type only because a trait cannot be implemented for `Arc<Fake>`.
struct Shared(Arc<Fake>);

impl Service for Shared {
    fn connect(&self, hello: Hello, outbox: ClientSender) -> Result<(Reply, Box<dyn Handler>), Failure> {
        self.0.connected.fetch_add(1, Ordering::SeqCst);
        if hello.job == "unwelcome" {
            return Err(Failure::new(FailureKind::Refused, "not you"));
        }
        let welcome = Reply::Welcome { settings: Fake::settings().to_text(), incarnation: self.0.incarnation };
        *self.0.store.lock().unwrap().connections.entry(hello.client).or_default() += 1;
        Ok((welcome, Box::new(FakeHandler { fake: self.0.clone(), client: hello.client, outbox, waiting: Vec::new() })))
    }
}

struct FakeHandler {
    fake: Arc<Fake>,
    client: u64,
    outbox: ClientSender,
    /// Locks are never given in this fake: their repliers wait here.
    waiting: Vec<Replier>,
}

impl Handler for FakeHandler {
    fn handle(&mut self, request: Request, payload: Vec<u8>, replier: Replier) {
        if matches!(request, Request::Checkpoint { .. } | Request::Lock { .. }) {
            self.fake.asked.fetch_add(1, Ordering::SeqCst);
        }
        match request {
            Request::FindMissing { owner, fingerprints } => {
                let answers = self.fake.store.lock().unwrap().missing((self.client, owner), &fingerprints);
                replier.reply(Reply::Answers { answers });
            }
            Request::AwaitClaims { owner, fingerprints } => {
                self.await_claims((self.client, owner), fingerprints, replier)
            }
            Request::PutBlock { header, segments, .. } => {
                let run = self.put(header, segments, payload);
                replier.reply(Reply::Stored { run });
            }
            Request::Release { owner } => {
                self.release(|claim_owner| *claim_owner == (self.client, owner));
                replier.reply(Reply::Done {});
            }
            Request::Get { run } => self.get(run, replier),
            Request::Entries { run } => {
                let entries = self.fake.store.lock().unwrap().entries(run);
                replier.reply(Reply::Entries { entries });
            }
            Request::MakeDurable {} | Request::End { .. } => replier.reply(Reply::Done {}),
            Request::Begin { .. } => replier.reply(Reply::Session { session: session() }),
            Request::Entry { path } => {
                let entry = self.fake.names.lock().unwrap().get(&path).cloned();
                replier.reply(Reply::Entry { entry });
            }
            Request::List { after, limit, .. } => {
                let names = self.fake.names.lock().unwrap();
                let after = after.filter(|_| !self.fake.repeats_listings);
                let beyond = names.iter().filter(|(path, _)| after.as_ref().is_none_or(|after| *path > after));
                // As the node does.
                let limit = self.fake.page_entries.unwrap_or((limit as usize).min(MAX_LISTED));
                let entries: Vec<_> = beyond.take(limit).map(|(path, entry)| (path.clone(), entry.clone())).collect();
                let more = entries.len() == limit;
                replier.reply(Reply::List { entries, more });
            }
            Request::Commit { session, changes, .. } => match changes.first() {
                Some(change) => {
                    let head = Some(VersionId { file: FileId(2), number: session.0 });
                    replier.fail(catalog::Error::HeadMoved { path: change.path().clone(), head })
                }
                None => replier.fail(catalog::Error::NotLive { containers: vec![CONTAINER] }),
            },
            // The kinds below stand for ways in which a handler may misbehave.
            Request::Versions { .. } => drop(replier),
            Request::Size { .. } => {
                let durable = Reply::Durable { session: SessionId(1), stripe_set: 2, sequence: 3, held: vec![] };
                self.outbox.push(&durable, &[]).expect("the client is there");
                replier.reply(Reply::Size { size: 9 });
            }
            Request::Read { .. } => replier.reply_with(Reply::Bytes { size: 1 }, &[&vec![0; 90 << 20]]),
            // Pages that do not advance: the same one again, or empty ones.
            Request::Checkpoints { session, .. } => {
                let root = format::Root::Inline(Vec::new());
                let (frontier, stamps) = (Vec::new(), Vec::new());
                let (stripe_set, owner, number, epoch, size, resized) = (0, 1, 1, 1, 0, false);
                let made =
                    Checkpoint { session, stripe_set, owner, number, epoch, root, size, resized, frontier, stamps };
                let checkpoints = if session == SessionId(1) { vec![made] } else { Vec::new() };
                replier.reply(Reply::Checkpoints { checkpoints, more: true });
            }
            Request::PathSessions { .. } => replier.reply(Reply::Done {}),
            Request::Checkpoint { .. } => {
                thread::spawn(move || {
                    thread::sleep(std::time::Duration::from_millis(300));
                    replier.reply(Reply::Done {});
                });
            }
            Request::FlushHint { .. } => {
                // More than a client that does not read can be sent.
                let bytes = vec![0; 16 << 20];
                while self.outbox.push(&Reply::Bytes { size: 0 }, &[&bytes]).is_ok() {}
                replier.reply(Reply::Done {});
            }
            Request::Lock { .. } => self.waiting.push(replier),
            other => replier.fail(Failure::new(FailureKind::Refused, format!("the fake node knows no {other:?}"))),
        }
    }

    fn closed(&mut self) {
        if self.left() {
            self.release(|(client, _)| *client == self.client);
        }
        self.waiting.clear();
        self.fake.closed.fetch_add(1, Ordering::SeqCst);
    }
}

impl FakeHandler {
    fn await_claims(&self, claim_owner: ClaimOwner, fingerprints: Vec<Fingerprint>, replier: Replier) {
        let fake = self.fake.clone();
        thread::spawn(move || {
            let store = fake.store.lock().unwrap();
            let others = |store: &mut Store| {
                fingerprints.iter().any(|name| store.claims.get(name).is_some_and(|owner| *owner != claim_owner))
            };
            let answers = fake.claims_changed.wait_while(store, others).unwrap().missing(claim_owner, &fingerprints);
            replier.reply(Reply::Answers { answers });
        });
    }

    fn put(&self, header: BlockHeader, segments: Vec<SegmentEntry>, payload: Vec<u8>) -> Run {
        let mut store = self.fake.store.lock().unwrap();
        let run = Run { container: CONTAINER, first: store.next, count: segments.len() as u32 };
        store.next += run.count;
        if !self.fake.forgetful {
            for (segment, address) in segments.iter().zip(run.addresses()) {
                store.claims.remove(&segment.fingerprint);
                store.addresses.insert(segment.fingerprint, address);
            }
            store.blocks.push((run.first, Block { header, segments, payload }));
            self.fake.claims_changed.notify_all();
        }
        run
    }

    fn get(&self, run: Run, replier: Replier) {
        let store = self.fake.store.lock().unwrap();
        let found = store.overlapping(run);
        if found.is_empty() {
            return replier.fail(store::Error::NotFound { what: format!("segment {}", run.first) });
        }
        let labelled = found.iter().map(|(first, block)| StoredBlockHeader {
            labels: vec![Label { container: CONTAINER, first: *first, count: block.segments.len() as u32 }],
            header: block.header,
            segments: block.segments.clone(),
        });
        let pieces: Vec<&[u8]> = found.iter().map(|(_, block)| &block.payload[..]).collect();
        replier.reply_with(Reply::Blocks { blocks: labelled.collect() }, &pieces);
    }

    /// Counts one connection of the client less; returns whether it was the last.
    fn left(&self) -> bool {
        let mut store = self.fake.store.lock().unwrap();
        let left = store.connections.get_mut(&self.client).expect("it connected");
        *left -= 1;
        *left == 0
    }

    fn release(&self, ends: impl Fn(&ClaimOwner) -> bool) {
        let mut store = self.fake.store.lock().unwrap();
        store.claims.retain(|_, claim_owner| !ends(claim_owner));
        self.fake.claims_changed.notify_all();
    }
}

impl Store {
    pub fn open_claims(&self) -> usize {
        self.claims.len()
    }

    fn missing(&mut self, claim_owner: ClaimOwner, fingerprints: &[Fingerprint]) -> Vec<Answer> {
        let answer = |name: &Fingerprint| match (self.addresses.get(name), self.claims.contains_key(name)) {
            (Some(address), _) => Answer::Have(*address),
            (None, true) => Answer::Claimed,
            (None, false) => {
                self.claims.insert(*name, claim_owner);
                Answer::Send
            }
        };
        fingerprints.iter().map(answer).collect()
    }

    fn overlapping(&self, run: Run) -> Vec<&(u32, Block)> {
        let end = |first: u32, block: &Block| first + block.segments.len() as u32;
        let hit = |(first, block): &&(u32, Block)| *first < run.first + run.count && end(*first, block) > run.first;
        self.blocks.iter().filter(hit).collect()
    }

    fn entries(&self, run: Run) -> Vec<SegmentEntry> {
        let numbered = |(first, block): &(u32, Block)| (*first..).zip(block.segments.clone()).collect::<Vec<_>>();
        let all = self.blocks.iter().flat_map(numbered);
        all.filter(|(ordinal, _)| (run.first..run.first + run.count).contains(ordinal))
            .map(|(_, entry)| entry)
            .collect()
    }
}

fn session() -> catalog::Session {
    catalog::Session { id: SessionId(3), epoch: 4 }
}

pub fn file(number: u64) -> FileEntry {
    FileEntry { file: FileId(number), attributes: Default::default(), head: None, links: 1 }
}

/// Returns a block of `count` segments of `bytes` each, made distinct by `seed`.
pub fn block(seed: u64, count: u32, bytes: u32) -> Block {
    let mut random = crate::random::Random::new(seed);
    let payload: Vec<u8> = (0..(count * bytes) / 8).flat_map(|_| random.u64().to_le_bytes()).collect();
    let segments = (0..count as u64).map(|number| {
        let name = [seed, number, 0, 0].map(u64::to_le_bytes).concat();
        SegmentEntry { fingerprint: Fingerprint(name.try_into().expect("32 bytes")), bytes }
    });
    let header = BlockHeader {
        kind: format::BlockKind::Data,
        codec: format::CodecId::None,
        cipher: 0,
        level: 0,
        filters: [0; 4],
        key_id: 0,
        group: 0,
        record_length: 0,
        phase: 0,
        element: ElementId::U8,
        segments: count,
        raw_bytes: count * bytes,
        stored_bytes: payload.len() as u32,
        offset: 0,
        checksum: format::checksum(&payload),
    };
    Block { header, segments: segments.collect(), payload }
}
