//! Random lives of one stripe set against a plain array of bytes with stamps.
//!
//! Clients write, offer and supply; the file is cut and grown; checkpoints of both kinds, crashes, power failures, lost
//! acknowledgements, takings-over and frames that cannot be come at any moment. After every step the stripe set reads as the
//! array says; in the end a version that is published does.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::LocalCatalog;
use format::{BlockKind, SegmentAddress, SegmentEntry, SessionId};
use random::Random;
use repository::{Budget, DurableUpTo, Repository, Source, StripeOwner, WriteOrigin, collect, publish};

use crate::fixture::{CLAIM_OWNER, World, content, with_seeds};

const SEGMENT: u64 = 64;
const SEGMENTS: u64 = 24;
const SPAN: u64 = SEGMENT * SEGMENTS;
const CLIENTS: u64 = 3;

/// A piece that a client keeps until it is durable.
#[derive(Clone)]
struct Kept {
    stamp: u64,
    extents: Vec<(u64, u64)>,
    bytes: Vec<u8>,
    /// It was offered by name, and its content is still to come.
    is_open: bool,
}

struct Life {
    random: Random,
    world: World,
    node: Arc<Repository>,
    session: SessionId,
    owner: StripeOwner,
    budget: Arc<Budget>,
    incarnation: u64,
    /// Each byte, and twice the stamp of what wrote it. A cut is one more than twice the last stamp before it.
    plain: Vec<(u8, u64)>,
    size: u64,
    last_stamp: u64,
    /// A cut that no checkpoint has made durable: no client would send it again.
    has_loose_size: bool,
    kept: BTreeMap<(u64, u64), Kept>,
    sequences: Vec<u64>,
}

fn source(client: u64) -> Source {
    Source { client, stream: 0 }
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let world = World::new();
        let node = world.process();
        let session = world.join("out", 1).id;
        // Some lives have so little room that segments stored in fragments must leave memory at once.
        let budget = Arc::new(Budget::new(if random.below(3) == 0 { 4 * SEGMENT } else { 1 << 30 }));
        let owner = StripeOwner::take(node.clone(), budget.clone(), session, 0, 1, SEGMENT as u32).unwrap();
        let (plain, sequences) = (vec![(0, 0); SPAN as usize], vec![0; CLIENTS as usize]);
        let (incarnation, size, last_stamp, has_loose_size, kept) = (1, 0, 0, false, BTreeMap::new());
        Life {
            random,
            world,
            node,
            session,
            owner,
            budget,
            incarnation,
            plain,
            size,
            last_stamp,
            has_loose_size,
            kept,
            sequences,
        }
    }

    fn step(&mut self) {
        match self.random.below(32) {
            0..11 => self.write(),
            11..14 => self.offer(),
            14..17 => self.send_blocks(),
            17..19 => drop(self.owner.reduce(CLAIM_OWNER).unwrap()),
            19..21 => self.checkpoint(false),
            21..23 => self.checkpoint(true),
            23..25 => self.set_size(),
            25 => self.read_anywhere(),
            26 => self.crash(false),
            27 => self.crash(true),
            28 => self.lose_the_stripe_set(),
            29 => self.break_connection(),
            30 => self.send_what_cannot_be(),
            _ => self.collect(),
        }
        self.check();
    }

    fn next(&mut self) -> (u64, u64) {
        let client = self.random.below(CLIENTS);
        self.sequences[client as usize] += 1;
        (client, self.sequences[client as usize])
    }

    fn extents(&mut self) -> Vec<(u64, u64)> {
        let one = |random: &mut Random| match random.below(3) {
            0 => (random.below(SEGMENTS) * SEGMENT, SEGMENT),
            1 => {
                let offset = random.below(SPAN);
                (offset, random.below(4 * SEGMENT).min(SPAN - offset))
            }
            _ => {
                let offset = random.below(SPAN - 8);
                (offset, random.below(8) + 1)
            }
        };
        (0..self.random.below(3) + 1).map(|_| one(&mut self.random)).collect()
    }

    fn write(&mut self) {
        let key = self.next();
        let extents = self.extents();
        let bytes = self.random.mixed_bytes(extents.iter().map(|(_, bytes)| *bytes as usize).sum());
        let mut kept = Kept { stamp: 0, extents, bytes, is_open: false };
        kept.stamp = self.send(key, &kept);
        self.apply(&kept);
        self.kept.insert(key, kept);
    }

    /// A piece by its bytes, for the first time or again.
    fn send(&mut self, (client, sequence): (u64, u64), kept: &Kept) -> u64 {
        let arrival = WriteOrigin { source: source(client), sequence, stamp: kept.stamp };
        let stamp = self.owner.write(arrival, &kept.extents, kept.bytes.clone()).unwrap();
        self.last_stamp = self.last_stamp.max(stamp);
        stamp
    }

    fn apply(&mut self, kept: &Kept) {
        let mut at = 0;
        for (offset, bytes) in &kept.extents {
            for i in *offset..offset + bytes {
                let address = &mut self.plain[i as usize];
                if address.1 <= 2 * kept.stamp {
                    *address = (kept.bytes[at], 2 * kept.stamp);
                    self.size = self.size.max(i + 1);
                }
                at += 1;
            }
        }
    }

    fn offer(&mut self) {
        let key = self.next();
        let first = self.random.below(SEGMENTS);
        let count = (self.random.below(3) + 1).min(SEGMENTS - first);
        let bytes = self.random.mixed_bytes((count * SEGMENT) as usize);
        let extents = vec![(first * SEGMENT, count * SEGMENT)];
        let mut kept = Kept { stamp: 0, extents, bytes, is_open: true };
        kept.stamp = self.send_offer(key, &kept);
        self.kept.insert(key, kept);
    }

    fn send_offer(&mut self, (client, sequence): (u64, u64), kept: &Kept) -> u64 {
        let arrival = WriteOrigin { source: source(client), sequence, stamp: kept.stamp };
        let (offset, bytes) = kept.extents[0];
        let offsets: Vec<u64> = (offset..offset + bytes).step_by(SEGMENT as usize).collect();
        let (stamp, known) = self.owner.offered(arrival, &offsets).unwrap();
        assert_eq!(known, !kept.is_open);
        self.last_stamp = self.last_stamp.max(stamp);
        stamp
    }

    /// The content of some offered piece comes: by names, or by its bytes after all.
    fn send_blocks(&mut self) {
        let open: Vec<_> = self.kept.iter().filter(|(_, kept)| kept.is_open).map(|(key, _)| *key).collect();
        if open.is_empty() {
            return;
        }
        let key = open[self.random.below(open.len() as u64) as usize];
        let mut kept = self.kept[&key].clone();
        if self.random.below(4) == 0 {
            assert_eq!(self.send(key, &kept), kept.stamp);
        } else {
            self.send_content(key, &kept);
        }
        kept.is_open = false;
        self.apply(&kept);
        self.kept.insert(key, kept);
    }

    fn send_content(&mut self, (client, sequence): (u64, u64), kept: &Kept) {
        let epoch = self.node.lease().epoch();
        let offset = kept.extents[0].0;
        let segments: Vec<_> = kept.bytes.chunks(SEGMENT as usize).map(|bytes| self.stored(bytes)).collect();
        let offsets = (offset..).step_by(SEGMENT as usize);
        let segments: Vec<_> =
            offsets.zip(segments).map(|(offset, (entry, address))| (offset, entry, address)).collect();
        let arrival = WriteOrigin { source: source(client), sequence, stamp: kept.stamp };
        self.owner.supplied(arrival, kept.stamp, epoch, &segments).unwrap();
    }

    fn stored(&self, bytes: &[u8]) -> (SegmentEntry, Option<SegmentAddress>) {
        let fingerprint = segment::fingerprint(self.node.settings.fingerprint, bytes);
        let entry = SegmentEntry { fingerprint, bytes: bytes.len() as u32 };
        if segment::is_zero(bytes) {
            return (entry, None);
        }
        let address = match self.node.store().missing(CLAIM_OWNER, &[fingerprint]).unwrap()[0] {
            store::Answer::Have(address) => address,
            _ => {
                let choice = self.node.settings.codec;
                let block = segment::encode(BlockKind::Data, &[(fingerprint, bytes)], choice, 0);
                self.node.store().put(CLAIM_OWNER, &block).unwrap().addresses().next().unwrap()
            }
        };
        (entry, Some(address))
    }

    fn checkpoint(&mut self, fragments: bool) {
        let moved = self.owner.checkpoint(CLAIM_OWNER, fragments, None).unwrap();
        self.has_loose_size = false;
        for durable in moved {
            if self.random.below(3) > 0 {
                self.forget(&durable);
            }
        }
    }

    fn forget(&mut self, durable: &DurableUpTo) {
        self.kept.retain(|(client, sequence), kept| {
            let is_durable = *client == durable.source.client && *sequence <= durable.sequence;
            let is_kept = !is_durable || durable.held.contains(sequence);
            assert!(is_kept || !kept.is_open, "durable before its content came");
            is_kept
        });
    }

    fn set_size(&mut self) {
        let size = self.random.below(SPAN + 1);
        self.owner.set_size(size).unwrap();
        self.last_stamp += 1;
        let cut = 2 * self.last_stamp - 1;
        self.plain[size as usize..].fill((0, cut));
        (self.size, self.has_loose_size) = (size, true);
    }

    fn read_anywhere(&mut self) {
        let offset = match self.random.below(3) {
            0 => u64::MAX - self.random.below(100),
            1 => self.random.next(),
            _ => self.random.below(SPAN + 100),
        };
        let mut into = vec![7; self.random.below(300) as usize];
        assert_eq!(self.owner.read(offset, &mut into).unwrap(), self.size);
        let expected = (0..into.len() as u64).map(|i| self.byte(offset.saturating_add(i)));
        assert!(into.iter().copied().eq(expected), "a read at {offset}");
    }

    fn byte(&self, at: u64) -> u8 {
        if at < self.size { self.plain[at as usize].0 } else { 0 }
    }

    /// The node dies, and with it what it had in memory; with `power`, also what it had not synced.
    fn crash(&mut self, power: bool) {
        if self.has_loose_size {
            self.checkpoint(false);
        }
        if power {
            self.world.files = Arc::new(self.world.files.crash(self.random.next()));
        }
        self.node = self.world.process();
        self.take();
    }

    /// Another node takes the stripe set: this one fails, and callers get that error.
    fn lose_the_stripe_set(&mut self) {
        if self.has_loose_size {
            self.checkpoint(false);
        }
        self.incarnation += 1;
        self.world.catalog.take_stripe_set(self.session, 0, self.incarnation).unwrap();
        let arrival = WriteOrigin { source: source(9), sequence: 1, stamp: 0 };
        self.owner.write(arrival, &[(0, 1)], vec![1]).unwrap();
        assert!(self.owner.checkpoint(CLAIM_OWNER, true, None).is_err());
        assert!(self.owner.read(0, &mut [0]).is_err() && self.owner.durable_up_to(source(0)).is_err());
        assert!(self.owner.write(arrival, &[(0, 1)], vec![1]).is_err());
        self.take();
    }

    fn take(&mut self) {
        self.incarnation += 1;
        let (node, budget) = (self.node.clone(), self.budget.clone());
        self.owner = StripeOwner::take(node, budget, self.session, 0, self.incarnation, SEGMENT as u32).unwrap();
        let first = self.random.below(CLIENTS);
        (0..CLIENTS).for_each(|client| self.send_again((client + first) % CLIENTS));
    }

    fn break_connection(&mut self) {
        let client = self.random.below(CLIENTS);
        self.send_again(client);
    }

    /// A client reconnects: it learns how far its pieces are durable, and sends the others again, in order.
    fn send_again(&mut self, client: u64) {
        if let Some(durable) = self.owner.durable_up_to(source(client)).unwrap() {
            self.forget(&durable);
        }
        let again: Vec<_> =
            self.kept.range((client, 0)..(client + 1, 0)).map(|(key, kept)| (*key, kept.clone())).collect();
        for (key, kept) in again {
            let is_offer =
                kept.is_open || (kept.extents.len() == 1 && self.is_whole(&kept) && self.random.below(3) == 0);
            if kept.is_open {
                assert_eq!(self.send_offer(key, &kept), kept.stamp);
            } else if is_offer && self.is_new(key, &kept) {
                self.send_content(key, &kept);
            } else {
                assert_eq!(self.send(key, &kept), kept.stamp);
            }
        }
    }

    fn is_whole(&self, kept: &Kept) -> bool {
        kept.extents[0].0.is_multiple_of(SEGMENT) && kept.extents[0].1.is_multiple_of(SEGMENT) && kept.extents[0].1 > 0
    }

    /// Offers a piece again that came once; says whether the stripe set wants its content.
    fn is_new(&mut self, (client, sequence): (u64, u64), kept: &Kept) -> bool {
        let (offset, bytes) = kept.extents[0];
        let offsets: Vec<u64> = (offset..offset + bytes).step_by(SEGMENT as usize).collect();
        let arrival = WriteOrigin { source: source(client), sequence, stamp: kept.stamp };
        let (stamp, known) = self.owner.offered(arrival, &offsets).unwrap();
        assert_eq!(stamp, kept.stamp);
        !known
    }

    fn send_what_cannot_be(&mut self) {
        let sequence = [0, 1, 5, u64::MAX][self.random.below(4) as usize];
        let stamp = [0, 1, u64::MAX, self.last_stamp + (1 << 60)][self.random.below(4) as usize];
        let (offset, bytes) = [(u64::MAX, 1), (0, 1), (u64::MAX - 63, 64), (1 << 62, 1)][self.random.below(4) as usize];
        let arrival = WriteOrigin { source: source(9), sequence, stamp };
        let fits = bytes == 1 && offset == 0;
        if fits && stamp == 0 && (sequence == 1 || sequence == 5) {
            return;
        }
        assert!(self.owner.write(arrival, &[(offset, bytes)], vec![9; bytes as usize]).is_err());
        if !fits || sequence == 0 || stamp != 0 {
            assert!(self.owner.offered(arrival, &[offset.max(1)]).is_err());
        }
        assert!(self.owner.set_size(u64::MAX - self.random.below(1 << 60)).is_err());
    }

    fn collect(&mut self) {
        if !self.owner.has_uncheckpointed() && !self.kept.values().any(|kept| kept.is_open) {
            self.node.lease().refresh_now().unwrap();
        }
        let collector = self.world.process();
        collect(&collector).unwrap();
        collector.close().unwrap();
    }

    fn check(&self) {
        assert_eq!(self.owner.size().unwrap(), self.size);
        let mut read = vec![0xee; SPAN as usize];
        self.owner.read(0, &mut read).unwrap();
        let bad = (0..SPAN).find(|at| read[*at as usize] != self.byte(*at));
        assert!(bad.is_none(), "byte {bad:?} of {}", self.size);
    }

    fn finish(mut self) {
        while self.kept.values().any(|kept| kept.is_open) {
            self.send_blocks();
        }
        self.check();
        self.checkpoint(true);
        assert!(!self.owner.has_uncheckpointed());
        publish(&self.node, CLAIM_OWNER, self.session, 5).unwrap();
        let expected: Vec<u8> = (0..self.size).map(|at| self.byte(at)).collect();
        assert!(content(&self.node, "out") == expected);
        drop(self.owner);
        assert_eq!(self.budget.used_bytes(), 0);
    }
}

#[test]
fn a_stripe_owner_reads_as_a_plain_array_says_whatever_happens_to_it() {
    with_seeds(3000, |seed| {
        let mut life = Life::new(seed);
        for _ in 0..60 {
            life.step();
        }
        life.finish();
    });
}
