//! Nodes made of threads and byte vectors, which do whatever a test needs: break, crash, stay away, stay silent.
//!
//! Durable data lies in a [`World`] that all nodes share; data only received is the node's own and dies with it.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catalog::PathSession;
use format::{FRAME_HEADER_BYTES, Fingerprint, FrameHeader, HandleKey, SegmentEntry, SessionId, StorePath};

use super::fake_behaviour::Behaviour;
use super::fake_stripe_set::StripeSet;
use super::reducing::PlainReducer;
use crate::client::{Reducer, ZEROS};
use crate::message::{Extent, Failure, FailureKind, Reply, Request};

pub const SEGMENT_BYTES: u32 = 8192;

/// State that survives nodes.
#[derive(Default)]
pub struct World {
    sessions: Mutex<HashMap<StorePath, PathSession>>,
    /// Keys of the handles that were opened.
    keys: Mutex<Vec<(SessionId, HandleKey)>>,
    durable: Mutex<HashMap<(SessionId, u32), StripeSet>>,
    /// The node process that owns each stripe set.
    owners: Mutex<HashMap<(SessionId, u32), u64>>,
    processes: AtomicU64,
    stamps: AtomicU64,
    /// Segments that were sent once.
    known: Mutex<HashMap<Fingerprint, Vec<u8>>>,
}

pub struct Node {
    pub address: String,
    pub does: Behaviour,
    world: Arc<World>,
    alive: Mutex<Option<Alive>>,
}

/// A running node process.
struct Alive {
    incarnation: u64,
    stripe_sets: HashMap<(SessionId, u32), StripeSet>,
    connections: Vec<Arc<Peer>>,
    locks: HashMap<SessionId, u64>,
    /// Positions of shared file pointers.
    pointers: HashMap<HandleKey, u64>,
    /// Stamp and segments of offers awaiting content; without segments, fingerprints were requested.
    offers: HashMap<OfferFingerprints, (u64, Vec<(u64, SegmentEntry)>)>,
    names: HashMap<[u8; 32], Vec<SegmentEntry>>,
}

impl Alive {
    /// Returns whether the piece came before, content and all.
    fn has_taken(&self, offer: &OfferFingerprints) -> bool {
        let (source, session, stripe_set, sequence) = offer;
        let last = self.stripe_sets[&(*session, *stripe_set)].sequences.get(source);
        last.is_some_and(|last| last >= sequence) && !self.offers.contains_key(offer)
    }

    fn break_connections(&mut self) {
        for peer in self.connections.drain(..) {
            let _ = peer.socket.lock().unwrap().shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Client and stream, session, stripe set and sequence.
type OfferFingerprints = ((u64, u32), SessionId, u32, u64);

struct Peer {
    id: u64,
    socket: Mutex<TcpStream>,
    greeting: Mutex<(u64, u32)>,
    attached: Mutex<HashSet<(SessionId, u32)>>,
}

impl Node {
    pub fn start(world: &Arc<World>) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let node =
            Arc::new(Node { address, does: Behaviour::default(), world: world.clone(), alive: Mutex::default() });
        node.revive();
        let pulsing = Arc::downgrade(&node);
        std::thread::spawn(move || {
            for progress in 0.. {
                std::thread::sleep(Duration::from_millis(100));
                let Some(node) = pulsing.upgrade() else { return };
                node.heartbeats(progress);
            }
        });
        let accepting = node.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                accepting.clone().accept(socket.unwrap());
            }
        });
        node
    }

    /// Kills the process; connections are refused until [`Node::revive`].
    pub fn crash(&self) {
        // Under one lock: a client that connected in between would never be served, and never closed.
        let mut alive = self.alive.lock().unwrap();
        alive.iter_mut().for_each(Alive::break_connections);
        *alive = None;
    }

    pub fn revive(&self) {
        let incarnation = 1 + self.world.processes.fetch_add(1, Ordering::SeqCst);
        let alive = Alive {
            incarnation,
            stripe_sets: HashMap::new(),
            connections: Vec::new(),
            locks: HashMap::new(),
            pointers: HashMap::new(),
            offers: HashMap::new(),
            names: HashMap::new(),
        };
        *self.alive.lock().unwrap() = Some(alive);
    }

    fn heartbeats(&self, progress: u64) {
        let progress = if self.does.busy.load(Ordering::SeqCst) { progress } else { 0 };
        let alive = self.alive.lock().unwrap();
        for peer in alive.iter().flat_map(|alive| &alive.connections) {
            if !self.does.frozen.load(Ordering::SeqCst) && peer.greeting().0 != 0 {
                self.send(peer, 0, &Reply::Alive { progress }, &[]);
            }
        }
    }

    /// Returns when the node is neither frozen nor stuck.
    fn wait_for_thaw(&self, request: &Request) {
        let is_greeting = matches!(request, Request::Hello { .. });
        let does = &self.does;
        while does.frozen.load(Ordering::SeqCst)
            || ((does.stuck.load(Ordering::SeqCst) || does.busy.load(Ordering::SeqCst)) && !is_greeting)
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn break_connections(&self) {
        self.alive.lock().unwrap().iter_mut().for_each(Alive::break_connections);
    }

    /// Makes everything received durable, and notifies clients.
    pub fn make_durable(&self) {
        if let Some(alive) = self.alive.lock().unwrap().as_mut() {
            let stripe_sets: Vec<_> = alive.stripe_sets.keys().copied().collect();
            stripe_sets.into_iter().for_each(|stripe_set| self.checkpoint(alive, stripe_set));
        }
    }

    /// Fails all stripe sets, and sends their clients the reason.
    pub fn fail_stripe_sets(&self, failure: &Failure) {
        for peer in &self.alive.lock().unwrap().as_ref().unwrap().connections {
            for (session, stripe_set) in peer.attached.lock().unwrap().iter().copied() {
                self.send(peer, 0, &Reply::StripeSetFailed { session, stripe_set, failure: failure.clone() }, &[]);
            }
        }
    }

    /// Writes the file as this node's stripe sets have it.
    pub fn bytes(&self, stripe_sets: u64, stripe_bytes: u64, into: &mut Vec<u8>) {
        for ((_, number), stripe_set) in &self.alive.lock().unwrap().as_ref().unwrap().stripe_sets {
            into.resize(into.len().max(stripe_set.bytes.len()), 0);
            for (offset, byte) in stripe_set.bytes.iter().enumerate() {
                if offset as u64 / stripe_bytes % stripe_sets == *number as u64 {
                    into[offset] = *byte;
                }
            }
        }
    }

    fn accept(self: Arc<Self>, socket: TcpStream) {
        socket.set_nodelay(true).unwrap();
        let mut reading = socket.try_clone().unwrap();
        let peer = {
            let mut alive = self.alive.lock().unwrap();
            let Some(alive) = alive.as_mut() else { return };
            let id = self.world.processes.fetch_add(1, Ordering::SeqCst);
            let peer = Arc::new(Peer {
                id,
                socket: Mutex::new(socket),
                greeting: Mutex::default(),
                attached: Mutex::default(),
            });
            alive.connections.push(peer.clone());
            peer
        };
        std::thread::spawn(move || {
            let mut buffer = Vec::new();
            while let Some((number, request, payload)) = receive(&mut reading, &mut buffer) {
                if matches!(request, Request::Attach { .. }) && self.does.freeze_at_attach.load(Ordering::SeqCst) {
                    self.does.frozen.store(true, Ordering::SeqCst);
                }
                self.wait_for_thaw(&request);
                if u32::from(request.kind()) == self.does.close_at.load(Ordering::SeqCst) {
                    let _ = peer.socket.lock().unwrap().shutdown(std::net::Shutdown::Both);
                    return;
                }
                self.serve(&peer, number, request, payload);
            }
        });
    }

    fn serve(self: &Arc<Self>, peer: &Arc<Peer>, number: u64, request: Request, payload: &[u8]) {
        let late =
            self.does.delay.load(Ordering::SeqCst) && matches!(request, Request::Read { .. } | Request::Size { .. });
        if let Request::Lock { session } = request {
            return self.lock(peer, number, session);
        }
        if let Request::Read { extents, .. } = &request {
            self.does.read_over.lock().unwrap().insert(peer.id);
            self.does.reads.fetch_add(1, Ordering::SeqCst);
            let held_above = self.does.held_above.load(Ordering::SeqCst);
            if held_above > 0 && Extent::total_bytes(extents) > held_above {
                return;
            }
        }
        let bytes_per_s = self.does.bytes_per_s.load(Ordering::SeqCst);
        if bytes_per_s > 0 {
            std::thread::sleep(Duration::from_secs_f64(payload.len() as f64 / bytes_per_s as f64));
        }
        let is_offer = matches!(request, Request::OfferDigest { .. } | Request::OfferFingerprints { .. });
        let (reply, bytes) = {
            let mut alive = self.alive.lock().unwrap();
            let Some(alive) = alive.as_mut() else { return };
            if !alive.connections.iter().any(|known| known.id == peer.id) {
                return;
            }
            self.answer(alive, peer, request, payload)
        };
        if is_offer && self.does.silent_on_offers.load(Ordering::SeqCst) {
            return;
        }
        let (node, peer) = (self.clone(), peer.clone());
        let send = move || node.send(&peer, number, &reply, &bytes);
        if late {
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(number % 7 * 300));
                send();
            });
        } else {
            send();
        }
    }

    fn answer(&self, alive: &mut Alive, peer: &Arc<Peer>, request: Request, payload: &[u8]) -> (Reply, Vec<u8>) {
        let done = |reply| (reply, Vec::new());
        let fail = |kind, text: &str| (Reply::Failed { failure: Failure::new(kind, text) }, Vec::new());
        if let Some(stripe_set) = stripe_set_of(&request) {
            let attach = matches!(request, Request::Attach { .. });
            if attach {
                self.take_stripe_set(alive, stripe_set);
                peer.attached.lock().unwrap().insert(stripe_set);
            }
            if self.world.owners.lock().unwrap().get(&stripe_set) != Some(&alive.incarnation) {
                return fail(FailureKind::StripeSetLost, "another node has it");
            }
        }
        match request {
            Request::Hello { client, stream, .. } => {
                *peer.greeting.lock().unwrap() = (client, stream);
                self.does.greetings.fetch_add(1, Ordering::SeqCst);
                let settings = format::Settings::new(format::StoreId::default()).to_text();
                done(Reply::Welcome { settings, incarnation: alive.incarnation })
            }
            Request::OpenPath { .. } if self.does.fail_opens.load(Ordering::SeqCst) => {
                fail(FailureKind::Full, "the disk is full")
            }
            Request::OpenPath { path, job, nodes, stripe_bytes, key, .. } => {
                let mut sessions = self.world.sessions.lock().unwrap();
                let id = SessionId(sessions.len() as u64 + 1);
                let session = sessions.entry(path.clone()).or_insert(PathSession {
                    id,
                    path,
                    nodes,
                    stripe_bytes,
                    job,
                    opened_ns: 0,
                    handles: 0,
                    interrupted: false,
                });
                self.world.keys.lock().unwrap().push((session.id, key));
                done(Reply::Opened { session: session.clone(), size: 0, segment_bytes: SEGMENT_BYTES })
            }
            Request::Attach { session, stripe_set, key } => {
                assert!(self.world.keys.lock().unwrap().contains(&(session, key)), "the key of a handle is shown");
                done(Reply::Attached { size: alive.stripe_sets[&(session, stripe_set)].size, epoch: 1 })
            }
            Request::Write { session, stripe_set, sequence, stamp, extents, .. } => {
                self.does.written_bytes.fetch_add(payload.len() as u64, Ordering::SeqCst);
                let stamp = self.stamp(stamp);
                if !self.does.discard.load(Ordering::SeqCst) {
                    let stripe_set = alive.stripe_sets.get_mut(&(session, stripe_set)).unwrap();
                    let last = stripe_set.sequences.entry(peer.greeting()).or_default();
                    if sequence > *last {
                        *last = sequence;
                        stripe_set.write(stamp, &extents, payload);
                    }
                } else if sequence % 16 == 0 {
                    self.send(peer, 0, &Reply::Durable { session, stripe_set, sequence, held: vec![] }, &[]);
                }
                done(Reply::Received { sequence, stamp })
            }
            Request::OfferDigest { session, stripe_set, sequence, stamp, extents, names, .. } => {
                self.does.digest_offers.fetch_add(1, Ordering::SeqCst);
                let offer = (peer.greeting(), session, stripe_set, sequence);
                let stamp = self.stamp(stamp);
                if alive.has_taken(&offer) {
                    return done(Reply::Received { sequence, stamp });
                }
                match alive.names.get(&names).cloned() {
                    Some(entries) => done(self.offered(alive, offer, stamp, &extents, &entries)),
                    None => {
                        alive.offers.insert(offer, (stamp, Vec::new()));
                        done(Reply::NeedFingerprints { sequence, stamp })
                    }
                }
            }
            Request::OfferFingerprints { session, stripe_set, sequence, stamp, extents, fingerprints, .. } => {
                self.does.offered_names.fetch_add(fingerprints.len() as u64, Ordering::SeqCst);
                let entry = |fingerprint| SegmentEntry { fingerprint, bytes: SEGMENT_BYTES };
                let entries: Vec<SegmentEntry> = fingerprints.into_iter().map(entry).collect();
                alive.names.insert(PlainReducer.digest(&entries), entries.clone());
                let offer = (peer.greeting(), session, stripe_set, sequence);
                let stamp = self.stamp(stamp);
                if alive.has_taken(&offer) {
                    return done(Reply::Received { sequence, stamp });
                }
                done(self.offered(alive, offer, stamp, &extents, &entries))
            }
            Request::SendBlocks { session, stripe_set, sequence, blocks } => {
                self.does.written_bytes.fetch_add(payload.len() as u64, Ordering::SeqCst);
                let mut rest = payload;
                for entry in blocks.iter().flat_map(|(_, segments)| segments) {
                    let (bytes, after) = rest.split_at(entry.bytes as usize);
                    rest = after;
                    self.world.known.lock().unwrap().insert(entry.fingerprint, bytes.to_vec());
                }
                done(self.take_offer(alive, (peer.greeting(), session, stripe_set, sequence)))
            }
            Request::Read { extents, .. } if self.is_damaged(&extents) => {
                fail(FailureKind::Corrupt, "a damaged segment")
            }
            Request::Read { session, stripe_set, extents } => {
                let stripe_set = &alive.stripe_sets[&(session, stripe_set)];
                let mut bytes: Vec<u8> = extents.iter().flat_map(|extent| stripe_set.read(extent)).collect();
                // As nodes do: what lies beyond the end is left out at the end.
                let within = Extent::bytes_until(extents.iter().copied(), stripe_set.size) as usize;
                bytes.truncate(if self.does.cut_reads.load(Ordering::SeqCst) { within / 2 } else { within });
                self.does.read_bytes.fetch_add(bytes.len() as u64, Ordering::SeqCst);
                (Reply::Bytes { size: stripe_set.size }, bytes)
            }
            Request::Size { session, stripe_set } => {
                done(Reply::Size { size: alive.stripe_sets[&(session, stripe_set)].size })
            }
            Request::SetSize { session, stripe_set, size } => {
                let stripe_set = alive.stripe_sets.get_mut(&(session, stripe_set)).unwrap();
                stripe_set.bytes.resize(stripe_set.bytes.len().min(size as usize), 0);
                stripe_set.stamps.resize(stripe_set.bytes.len(), 0);
                stripe_set.size = size;
                done(Reply::Done {})
            }
            Request::FlushHint { .. } if self.does.fail_hints.load(Ordering::SeqCst) => {
                fail(FailureKind::Full, "the disk is full")
            }
            Request::Checkpoint { session, stripe_set, .. } | Request::FlushHint { session, stripe_set } => {
                if matches!(request, Request::FlushHint { .. }) {
                    self.does.hints.fetch_add(1, Ordering::SeqCst);
                }
                if !self.does.never_durable.load(Ordering::SeqCst) {
                    self.checkpoint(alive, (session, stripe_set));
                }
                done(Reply::Done {})
            }
            Request::CommitPath { .. } if self.does.fail_commits.load(Ordering::SeqCst) => {
                fail(FailureKind::Full, "the disk is full")
            }
            Request::CommitPath { session, .. } => {
                if !self.does.never_durable.load(Ordering::SeqCst) {
                    self.checkpoint(alive, (session, 0));
                }
                self.does.commits.fetch_add(1, Ordering::SeqCst);
                done(Reply::Version { number: 1 })
            }
            Request::Detach { session, stripe_set } => {
                self.does.detaches.fetch_add(1, Ordering::SeqCst);
                peer.attached.lock().unwrap().remove(&(session, stripe_set));
                done(Reply::Done {})
            }
            Request::AwaitOthers { .. } => done(Reply::Others { streams: self.does.others.load(Ordering::SeqCst) }),
            Request::Leave { .. } => {
                self.does.leaves.fetch_add(1, Ordering::SeqCst);
                done(Reply::Done {})
            }
            Request::ReportFailure { path, why } => {
                self.does.failures.lock().unwrap().push((path.to_string(), why));
                done(Reply::Done {})
            }
            Request::Measure {} => {
                self.does.heard_alive.fetch_add(1, Ordering::SeqCst);
                done(Reply::Measured { workers: 1 })
            }
            Request::Model {} => (Reply::Model {}, self.does.model.lock().unwrap().clone()),
            Request::Unlock { session } => {
                alive.locks.remove(&session);
                done(Reply::Done {})
            }
            Request::MovePointer { key, number, initial, by, .. } => {
                self.does.pointer_moves.lock().unwrap().push(number);
                let position = alive.pointers.entry(key).or_insert(initial);
                let before = *position;
                *position += by;
                done(Reply::Pointer { position: before })
            }
            Request::Delete { .. } => fail(FailureKind::NotFound, "no such file"),
            _ => fail(FailureKind::Refused, "the fake node does not know this"),
        }
    }

    fn is_damaged(&self, extents: &[Extent]) -> bool {
        let damaged = *self.does.damaged.lock().unwrap();
        let holds = |extent: &Extent, byte: u64| (extent.offset..extent.offset + extent.bytes).contains(&byte);
        damaged.is_some_and(|byte| extents.iter().any(|extent| holds(extent, byte)))
    }

    /// Returns the stamp a piece came with, or a new one.
    fn stamp(&self, stamp: u64) -> u64 {
        let next = self.world.stamps.fetch_add(1, Ordering::SeqCst) + 1;
        if stamp == 0 { next } else { stamp }
    }

    fn offered(
        &self,
        alive: &mut Alive,
        offer: OfferFingerprints,
        stamp: u64,
        extents: &[Extent],
        entries: &[SegmentEntry],
    ) -> Reply {
        let offsets = Extent::segments(extents, SEGMENT_BYTES).unwrap();
        assert_eq!(offsets.len(), entries.len(), "each segment has a name");
        let known = self.world.known.lock().unwrap();
        let misses = |index: &u32| {
            let fingerprint = entries[*index as usize].fingerprint;
            fingerprint != ZEROS && !known.contains_key(&fingerprint)
        };
        let wanted: Vec<u32> = (0..entries.len() as u32).filter(misses).collect();
        drop(known);
        alive.offers.insert(offer, (stamp, offsets.into_iter().zip(entries.iter().copied()).collect()));
        if wanted.is_empty() {
            return self.take_offer(alive, offer);
        }
        Reply::Missing { sequence: offer.3, stamp, wanted }
    }

    fn take_offer(&self, alive: &mut Alive, offer: OfferFingerprints) -> Reply {
        let (stamp, segments) = alive.offers.remove(&offer).unwrap();
        let (source, session, stripe_set, sequence) = offer;
        let stripe_set = alive.stripe_sets.get_mut(&(session, stripe_set)).unwrap();
        let known = self.world.known.lock().unwrap();
        for (offset, entry) in segments {
            let zeros = vec![0; entry.bytes as usize];
            let bytes = known.get(&entry.fingerprint).unwrap_or(&zeros);
            stripe_set.write(stamp, &[Extent { offset, bytes: entry.bytes as u64 }], bytes);
        }
        let last = stripe_set.sequences.entry(source).or_default();
        *last = sequence.max(*last);
        Reply::Received { sequence, stamp }
    }

    fn lock(self: &Arc<Self>, peer: &Arc<Peer>, number: u64, session: SessionId) {
        let (node, peer) = (self.clone(), peer.clone());
        std::thread::spawn(move || {
            loop {
                {
                    let mut alive = node.alive.lock().unwrap();
                    let Some(alive) = alive.as_mut() else { return };
                    if let std::collections::hash_map::Entry::Vacant(free) = alive.locks.entry(session) {
                        free.insert(peer.id);
                        break node.send(&peer, number, &Reply::Done {}, &[]);
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }

    fn take_stripe_set(&self, alive: &mut Alive, stripe_set: (SessionId, u32)) {
        let before = self.world.owners.lock().unwrap().insert(stripe_set, alive.incarnation);
        if before != Some(alive.incarnation) {
            let durable = self.world.durable.lock().unwrap().get(&stripe_set).cloned().unwrap_or_default();
            alive.stripe_sets.insert(stripe_set, durable);
        }
    }

    fn checkpoint(&self, alive: &mut Alive, at: (SessionId, u32)) {
        if self.world.owners.lock().unwrap().get(&at) != Some(&alive.incarnation) {
            return;
        }
        let Some(stripe_set) = alive.stripe_sets.get(&at) else { return };
        // Offers awaiting content are not held, whatever came after them: they are sent again to the next process.
        let mut durable = stripe_set.clone();
        for (source, .., sequence) in alive.offers.keys().filter(|offer| (offer.1, offer.2) == at) {
            durable.sequences.entry(*source).and_modify(|last| *last = (*last).min(sequence - 1));
        }
        for peer in &alive.connections {
            let Some(sequence) = durable.sequences.get(&peer.greeting()).copied() else { continue };
            if peer.attached.lock().unwrap().contains(&at) {
                self.send(peer, 0, &Reply::Durable { session: at.0, stripe_set: at.1, sequence, held: vec![] }, &[]);
            }
        }
        self.world.durable.lock().unwrap().insert(at, durable);
    }

    fn send(&self, peer: &Peer, number: u64, reply: &Reply, payload: &[u8]) {
        let body = reply.encode();
        let mut frame = FrameHeader::new(reply.kind(), number, &body, payload).encode().to_vec();
        frame.extend_from_slice(&body);
        frame.extend_from_slice(payload);
        let step = if self.does.split.load(Ordering::SeqCst) { frame.len() / 3 + 1 } else { frame.len() };
        let mut socket = peer.socket.lock().unwrap();
        // A peer that is gone reads nothing; the test is about what it does next.
        frame.chunks(step).for_each(|piece| drop(socket.write_all(piece)));
    }
}

impl Peer {
    fn greeting(&self) -> (u64, u32) {
        *self.greeting.lock().unwrap()
    }
}

fn stripe_set_of(request: &Request) -> Option<(SessionId, u32)> {
    match request {
        Request::Attach { session, stripe_set, .. }
        | Request::Write { session, stripe_set, .. }
        | Request::OfferFingerprints { session, stripe_set, .. }
        | Request::OfferDigest { session, stripe_set, .. }
        | Request::SendBlocks { session, stripe_set, .. }
        | Request::Read { session, stripe_set, .. }
        | Request::Size { session, stripe_set }
        | Request::SetSize { session, stripe_set, .. }
        | Request::Checkpoint { session, stripe_set, .. }
        | Request::FlushHint { session, stripe_set } => Some((*session, *stripe_set)),
        _ => None,
    }
}

fn receive<'a>(socket: &mut TcpStream, buffer: &'a mut Vec<u8>) -> Option<(u64, Request, &'a [u8])> {
    let mut header = [0; FRAME_HEADER_BYTES];
    socket.read_exact(&mut header).ok()?;
    let header = FrameHeader::decode(&header).unwrap();
    let bytes = (header.body_bytes + header.payload_bytes) as usize;
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
    socket.read_exact(&mut buffer[..bytes]).ok()?;
    let (body, payload) = buffer[..bytes].split_at(header.body_bytes as usize);
    header.check(body, payload).unwrap();
    Some((header.request, Request::decode(header.kind, body).unwrap(), payload))
}
