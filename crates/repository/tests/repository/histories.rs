//! Whole histories of nodes, clients, commands and collector in one thread, from one seed, on engines in memory.
//!
//! Beside the nodes, a process writes files as `put` does, with drafts that wait for their names while others remove
//! and collect, and readers keep reading versions that were removed since. Content repeats, so that writers keep finding
//! segments that are dead, in containers that were rewritten, some of them several times.
//!
//! The oracle applies a piece when a stripe set first takes it. Nodes die and lose what was not durable, power fails and
//! tears files, acknowledgements get lost, collectors run at any moment: whatever happens, the session reads as the
//! oracle says, and a commit makes a version that equals it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use catalog::LocalCatalog;
use format::{Attributes, Change, SessionId, VersionRecord};
use random::Random;
use repository::{
    CommitEntry, Draft, FileWriter, Repository, Source, StripeOwner, WriteMode, WriteOrigin, collect, publish, verify,
};
use store::ClaimOwner;

use crate::fixture::{CLAIM_OWNER, KEY, SEGMENT_BYTES, STRIPE_BYTES, World, content, owner, path, with_seeds};

const NODES: usize = 2;
const CLIENTS: u64 = 3;
const SPAN_BYTES: u64 = 12 * SEGMENT_BYTES as u64;

/// A piece a client keeps until it is durable.
#[derive(Clone)]
struct Kept {
    sequence: u64,
    stamp: u64,
    offset: u64,
    bytes: Vec<u8>,
}

/// One path's session, with its stripe sets and what each client still keeps for each.
struct Open {
    session: SessionId,
    owners: Vec<StripeOwner>,
    kept: HashMap<(u64, usize), Vec<Kept>>,
    sequences: HashMap<(u64, usize), u64>,
    epoch: u64,
    plain: Vec<u8>,
}

/// A process that writes whole files, each with its content; they get their names later.
struct Writer {
    repository: Arc<Repository>,
    drafts: Vec<(&'static str, Draft, Vec<u8>)>,
}

/// A process that reads a version, whatever becomes of its name.
struct LongReader {
    repository: Arc<Repository>,
    record: VersionRecord,
    plain: Vec<u8>,
}

/// Names of files that commands put; the nodes' are "a" and "b".
const PUT_NAMES: [&str; 4] = ["p", "q", "r", "s"];
/// Pieces that content is made of, again and again, and how long each is (bytes).
const PIECES: u64 = 48;
const PIECE_BYTES: usize = 8192;

struct History {
    random: Random,
    world: World,
    nodes: Vec<Arc<Repository>>,
    open: BTreeMap<&'static str, Open>,
    committed: BTreeMap<&'static str, Vec<u8>>,
    writer: Writer,
    readers: Vec<LongReader>,
    /// How often container files were rewritten.
    rewritten: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        let world = World::new();
        let nodes = (0..NODES).map(|_| world.process()).collect();
        let writer = Writer { repository: world.process(), drafts: Vec::new() };
        let (open, committed, readers) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        History { random: Random::new(seed), world, nodes, open, committed, writer, readers, rewritten: 0 }
    }

    fn step(&mut self) {
        let name = ["a", "b"][self.random.below(2) as usize];
        match self.random.below(32) {
            0..8 => self.write(name),
            8 => self.read(name),
            9 => drop(self.stripe_set_of(name).map(|owner| owner.reduce(CLAIM_OWNER).unwrap())),
            10..12 => self.checkpoint(name),
            12 => self.sync(name),
            13 => self.commit(name),
            14 => self.close(name),
            15 => self.kill_node(),
            16 => self.fail_power(),
            17 => self.break_connection(name),
            18 => self.forget_old(name),
            19..22 => self.collect(),
            22..25 => self.draft(),
            25..28 => self.name_draft(),
            28 => self.remove(),
            29 => self.begin_reading(),
            30 => self.end_reading(),
            _ => {
                let name = PUT_NAMES[self.random.below(4) as usize];
                self.forget_old(name)
            }
        }
    }

    fn ensure_open(&mut self, name: &'static str) {
        if self.open.contains_key(name) {
            return;
        }
        let session = self.world.join(name, NODES).id;
        let owners = (0..NODES).map(|i| owner(&self.nodes[i], session, i as u32, i as u64)).collect();
        let plain = self.committed.get(name).cloned().unwrap_or_default();
        let epoch = 0;
        let opened = Open { session, owners, kept: HashMap::new(), sequences: HashMap::new(), epoch, plain };
        self.open.insert(name, opened);
    }

    fn stripe_set_of(&mut self, name: &'static str) -> Option<&StripeOwner> {
        let i = self.random.below(NODES as u64) as usize;
        self.open.get(name).map(|open| &open.owners[i])
    }

    fn write(&mut self, name: &'static str) {
        self.ensure_open(name);
        let client = self.random.below(CLIENTS);
        let offset = self.random.below(SPAN_BYTES);
        let aligned = self.random.below(2) == 0;
        let offset = if aligned { offset / SEGMENT_BYTES as u64 * SEGMENT_BYTES as u64 } else { offset };
        let left = STRIPE_BYTES - offset % STRIPE_BYTES;
        let count = if aligned { SEGMENT_BYTES as u64 } else { self.random.below(3000) + 1 }.min(left);
        let bytes = self.random.mixed_bytes(count as usize);
        let lost_answer = self.random.below(6) == 0;
        let open = self.open.get_mut(name).unwrap();
        let owner = (offset / STRIPE_BYTES) as usize % NODES;
        let sequence = open.sequences.entry((client, owner)).or_default();
        *sequence += 1;
        let mut kept = Kept { sequence: *sequence, stamp: 0, offset, bytes };
        let stamp = open.send(client, owner, &kept);
        if lost_answer {
            // The client gets no answer, reconnects and sends all it keeps: nothing may change.
            open.keep(client, owner, kept);
            open.send_again(client, owner);
        } else {
            kept.stamp = stamp;
            open.keep(client, owner, kept);
        }
    }

    fn read(&mut self, name: &'static str) {
        if let Some(open) = self.open.get(name) {
            open.check();
        }
    }

    fn checkpoint(&mut self, name: &'static str) {
        let (fragments, lost) = (self.random.below(2) == 0, self.random.below(3) == 0);
        let i = self.random.below(NODES as u64) as usize;
        let Some(open) = self.open.get_mut(name) else { return };
        let durable = open.owners[i].checkpoint(CLAIM_OWNER, fragments, None).unwrap();
        for durable in durable.into_iter().filter(|_| !lost) {
            let is_kept = |kept: &Kept| kept.sequence > durable.sequence || durable.held.contains(&kept.sequence);
            open.kept.entry((durable.source.client, i)).or_default().retain(is_kept);
        }
    }

    fn sync(&mut self, name: &'static str) {
        let Some(open) = self.open.get_mut(name) else { return };
        open.epoch += 1;
        for owner in &open.owners {
            owner.checkpoint(CLAIM_OWNER, true, Some(open.epoch)).unwrap();
        }
        open.kept.clear();
    }

    fn commit(&mut self, name: &'static str) {
        self.sync(name);
        let node = self.random.below(NODES as u64) as usize;
        let Some(open) = self.open.get(name) else { return };
        publish(&self.nodes[node], CLAIM_OWNER, open.session, self.world.now_ns()).unwrap();
        self.committed.insert(name, open.plain.clone());
        assert_eq!(content(&self.nodes[1 - node], name), open.plain);
    }

    fn close(&mut self, name: &'static str) {
        self.commit(name);
        if let Some(open) = self.open.remove(name) {
            self.world.catalog.leave(open.session, &KEY).unwrap();
        }
    }

    /// kill -9: the node's memory is gone, its writes to files are not.
    fn kill_node(&mut self) {
        let i = self.random.below(NODES as u64) as usize;
        let dead = std::mem::replace(&mut self.nodes[i], self.world.process());
        self.world.run_out(&dead);
        if i == 0 {
            self.replace_writer();
        }
        self.retake(&[i]);
    }

    fn fail_power(&mut self) {
        let seed = self.random.next();
        let readers = self.readers.drain(..).map(|reader| reader.repository);
        let dead: Vec<_> = self.nodes.drain(..).chain([self.writer.repository.clone()]).chain(readers).collect();
        self.world.files = Arc::new(self.world.files.crash(seed));
        self.nodes = (0..NODES).map(|_| self.world.process()).collect();
        self.replace_writer();
        dead.iter().for_each(|process| self.world.run_out(process));
        self.retake(&(0..NODES).collect::<Vec<_>>());
    }

    /// The writer is gone with its node or the machine; the next is a command on the store's directory or one that
    /// reaches it through a node.
    fn replace_writer(&mut self) {
        let repository =
            if self.random.below(2) == 0 { self.world.process() } else { self.world.remote(&self.nodes[0]) };
        let dead = std::mem::replace(&mut self.writer, Writer { repository, drafts: Vec::new() });
        self.world.run_out(&dead.repository);
    }

    fn retake(&mut self, dead: &[usize]) {
        let incarnation = self.random.next() >> 1;
        for open in self.open.values_mut() {
            for &i in dead {
                open.owners[i] = owner(&self.nodes[i], open.session, i as u32, incarnation);
                // Clients notice in any order.
                let first = self.random.below(CLIENTS);
                (0..CLIENTS).for_each(|client| open.send_again((client + first) % CLIENTS, i));
            }
            open.check();
        }
    }

    fn break_connection(&mut self, name: &'static str) {
        let (client, i) = (self.random.below(CLIENTS), self.random.below(NODES as u64) as usize);
        if let Some(open) = self.open.get_mut(name) {
            open.send_again(client, i);
            open.check();
        }
    }

    fn forget_old(&mut self, name: &'static str) {
        let catalog = self.nodes[0].catalog();
        let Some(entry) = catalog.entry(&path(name)).unwrap() else { return };
        let versions = catalog.versions(&path(name)).unwrap();
        let old: Vec<u64> = versions.iter().rev().skip(1).map(|version| version.number).collect();
        if !old.is_empty() {
            let change = Change::Forget { path: path(name), file: entry.file, versions: old };
            self.nodes[0].commit(CLAIM_OWNER, vec![change], Default::default(), Vec::new()).unwrap();
        }
    }

    /// Content of pieces that occur in other files too.
    fn pieces(&mut self) -> Vec<u8> {
        let count = 1 + self.random.below(12);
        (0..count).flat_map(|_| Random::new(self.random.below(PIECES)).bytes(PIECE_BYTES)).collect()
    }

    fn draft(&mut self) {
        let (name, plain) = (PUT_NAMES[self.random.below(4) as usize], self.pieces());
        let mut writer = FileWriter::new(self.writer.repository.clone(), ClaimOwner(self.random.next() | 1 << 63));
        writer.write(&plain).unwrap();
        self.writer.drafts.push((name, writer.finish().unwrap(), plain));
    }

    /// Any draft but the newest may have waited while others were removed and collected.
    fn name_draft(&mut self) {
        if self.writer.drafts.is_empty() {
            return;
        }
        let at = self.random.below(self.writer.drafts.len() as u64) as usize;
        let (name, draft, plain) = self.writer.drafts.swap_remove(at);
        let entry =
            CommitEntry { path: path(name), attributes: Attributes::default(), mode: WriteMode::Replace, draft };
        self.writer.repository.name(CLAIM_OWNER, &[entry]).unwrap();
        assert_eq!(content(&self.nodes[0], name), plain);
        self.committed.insert(name, plain);
    }

    fn remove(&mut self) {
        let name = PUT_NAMES[self.random.below(4) as usize];
        if self.committed.remove(name).is_some() {
            let change = Change::Remove { path: path(name), recursive: false };
            self.nodes[0].commit(CLAIM_OWNER, vec![change], Default::default(), Vec::new()).unwrap();
        }
    }

    fn begin_reading(&mut self) {
        let name = ["a", "b", "p", "q", "r", "s"][self.random.below(6) as usize];
        let repository = self.world.process();
        let Some(plain) = self.committed.get(name).cloned() else { return };
        let record = repository.catalog().entry(&path(name)).unwrap().unwrap().head.unwrap().record;
        self.readers.push(LongReader { repository, record, plain });
    }

    fn end_reading(&mut self) {
        if !self.readers.is_empty() {
            let at = self.random.below(self.readers.len() as u64) as usize;
            let reader = self.readers.swap_remove(at);
            reader.check();
            reader.repository.close().unwrap();
        }
    }

    fn collect(&mut self) {
        if self.writer.drafts.is_empty() {
            self.writer.repository.lease().refresh_now().unwrap();
        }
        // A node whose stripe sets are all checkpointed relies on none of its earlier answers.
        for (i, node) in self.nodes.iter().enumerate() {
            if self.open.values().all(|open| !open.owners[i].has_uncheckpointed()) {
                node.lease().refresh_now().unwrap();
            }
        }
        let collector = self.world.process();
        self.rewritten += collect(&collector).unwrap().rewritten;
        collector.close().unwrap();
        self.open.values().for_each(Open::check);
    }

    fn finish(mut self) -> u64 {
        while !self.writer.drafts.is_empty() {
            self.name_draft();
        }
        for name in ["a", "b"] {
            self.close(name);
        }
        let late = self.world.process();
        for (name, plain) in &self.committed {
            assert_eq!(&content(&late, name), plain);
        }
        assert_eq!(verify(&late, true, &mut |_| {}).unwrap().damages, []);
        self.rewritten
    }
}

impl LongReader {
    /// The version reads as it did, removed or not.
    fn check(&self) {
        let mut bytes = vec![0xee; self.plain.len()];
        let read = self.repository.reader(&self.record.root, self.record.size).read_at(0, &mut bytes).unwrap();
        assert!(read == bytes.len() && bytes == self.plain);
    }
}

impl Open {
    /// Delivers a piece; the oracle takes it when it comes for the first time.
    fn send(&mut self, client: u64, owner: usize, kept: &Kept) -> u64 {
        let source = Source { client, stream: 0 };
        let arrival = WriteOrigin { source, sequence: kept.sequence, stamp: kept.stamp };
        let extent = (kept.offset, kept.bytes.len() as u64);
        let stamp = self.owners[owner].write(arrival, &[extent], kept.bytes.clone()).unwrap();
        let end = kept.offset as usize + kept.bytes.len();
        if kept.stamp == 0 {
            self.plain.resize(self.plain.len().max(end), 0);
            self.plain[kept.offset as usize..end].copy_from_slice(&kept.bytes);
        }
        stamp
    }

    fn keep(&mut self, client: u64, owner: usize, kept: Kept) {
        self.kept.entry((client, owner)).or_default().push(kept);
    }

    fn send_again(&mut self, client: u64, owner: usize) {
        let mut all = self.kept.remove(&(client, owner)).unwrap_or_default();
        // A client that reconnects learns how far its pieces are durable.
        if let Some(durable) = self.owners[owner].durable_up_to(Source { client, stream: 0 }).unwrap() {
            all.retain(|kept| kept.sequence > durable.sequence || durable.held.contains(&kept.sequence));
        }
        for kept in &mut all {
            let source = Source { client, stream: 0 };
            let arrival = WriteOrigin { source, sequence: kept.sequence, stamp: kept.stamp };
            let extent = (kept.offset, kept.bytes.len() as u64);
            kept.stamp = self.owners[owner].write(arrival, &[extent], kept.bytes.clone()).unwrap();
        }
        self.kept.insert((client, owner), all);
    }

    /// The stripe sets' content equals the oracle.
    fn check(&self) {
        let size = self.owners.iter().map(|owner| owner.size().unwrap()).max().unwrap();
        assert_eq!(size, self.plain.len() as u64);
        for start in (0..size).step_by(STRIPE_BYTES as usize) {
            let count = STRIPE_BYTES.min(size - start) as usize;
            let owner = (start / STRIPE_BYTES) as usize % NODES;
            let mut bytes = vec![0xee; count];
            self.owners[owner].read(start, &mut bytes).unwrap();
            let bad = (0..count).find(|i| bytes[*i] != self.plain[start as usize + i]);
            assert!(bad.is_none(), "stripe at {start}, byte {:?}", bad.map(|i| i + start as usize));
        }
    }
}

#[test]
fn histories_of_nodes_clients_and_collector_keep_every_promise() {
    let rewritten = std::cell::Cell::new(0);
    with_seeds(150, |seed| {
        let mut history = History::new(seed);
        for _ in 0..160 {
            history.step();
        }
        rewritten.set(rewritten.get() + history.finish());
    });
    if std::env::var_os("THALWEG_SEED").is_none() {
        assert!(rewritten.get() > 500, "only {} containers were rewritten", rewritten.get());
    }
}
