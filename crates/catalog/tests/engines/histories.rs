//! Random histories: the engine on disk must answer as the one in memory does, step for step, and a replayed
//! journal must give the same catalog again. A failure names its seed; `HISTORY_SEED=n` runs that one alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use random::Random;

use crate::catalog::{Checkpoint, Commit, Join, LocalCatalog, MemoryCatalog, Names, Purpose, Snapshot, SqliteCatalog};
use crate::{opened, path, scratch};
use format::{
    Attributes, Change, ContainerId, FileId, FileKind, HandleKey, Root, SegmentAddress, SessionId, StorePath,
    VersionId, VersionRecord,
};

/// Random calls and what they are about.
struct Draws(Random);

impl Draws {
    fn new(seed: u64) -> Self {
        Draws(Random::new(seed))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn some<T>(&mut self, most: u64, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| item(self)).collect()
    }

    /// Returns one of few names, of bytes around the slash: collisions and near misses are frequent.
    fn path(&mut self) -> StorePath {
        let names = ["a", "b", "a-"];
        let depth = [1, 2, 2, 2, 3, 3][self.below(6) as usize] * !self.chance(2) as u64;
        let names: Vec<_> = (0..depth).map(|_| names[self.below(3) as usize]).collect();
        path(&names.join("/"))
    }

    fn attributes(&mut self, kinds: [FileKind; 3]) -> Attributes {
        Attributes { kind: kinds[self.below(3) as usize], mode: self.below(512) as u32, ..Default::default() }
    }

    fn root(&mut self) -> Root {
        let address = SegmentAddress::new(ContainerId(self.below(9)), self.below(1000) as u32);
        Root::Stored { address, digest: [self.below(256) as u8; 32] }
    }

    fn container(&mut self) -> ContainerId {
        ContainerId(1 + self.below(12))
    }

    fn key(&mut self) -> HandleKey {
        key(self.below(3) as u8)
    }

    /// Returns mostly the first session, which is the history's own writer.
    fn session(&mut self) -> SessionId {
        SessionId(if self.chance(80) { 1 } else { 1 + self.below(12) })
    }

    /// Returns a file's number, odd or even as the counters have it; most of the first dozen exist.
    fn file(&mut self) -> FileId {
        FileId(1 + self.below(12))
    }

    fn version_id(&mut self) -> VersionId {
        VersionId { file: self.file(), number: 1 + self.below(3) }
    }

    fn change(&mut self) -> Change {
        use FileKind::{Directory, Regular, Symlink};
        let path = self.path();
        match self.below(24) {
            0..=9 => {
                let size = self.below(1 << 40);
                let version = VersionRecord { root: self.root(), size, content: None };
                let base = self.chance(10).then(|| self.chance(70).then(|| self.version_id()));
                let mut attributes = self.attributes([Regular; 3]);
                if self.chance(3) {
                    attributes.kind = Directory;
                }
                Change::Write { path, attributes, version, base }
            }
            10..=11 => Change::Make { path, attributes: self.attributes([Directory, Symlink, Regular]) },
            12 => Change::Make { path, attributes: self.attributes([Symlink; 3]) },
            13..=17 => Change::Link { path, target: self.path() },
            18..=19 => Change::Remove { path, recursive: self.chance(70) },
            20..=21 => Change::Rename { from: path, to: self.path() },
            22 => Change::Attributes { path, attributes: self.attributes([Regular, Directory, Symlink]) },
            _ => Change::Forget { path, file: self.file(), versions: self.some(2, |random| 1 + random.below(4)) },
        }
    }

    fn commit(&mut self) -> Commit {
        let session = self.session();
        let references = if self.chance(60) { vec![] } else { self.some(2, Draws::container) };
        let most = if self.chance(80) { 1 } else { 4 };
        let changes = self.some(most, Draws::change);
        let checkpoints = self.some(1, |random| (random.session(), random.below(2) as u32, random.below(5)));
        Commit { session, references, epoch: u64::MAX, changes, checkpoints }
    }
}

fn key(number: u8) -> HandleKey {
    HandleKey([number; HandleKey::BYTES])
}

/// A call with its arguments; the answer comes back as text.
type Call = Box<dyn Fn(&dyn LocalCatalog) -> String>;

/// Returns one call with random arguments; the same for both engines.
fn step(random: &mut Draws, snapshots: &[Snapshot]) -> Call {
    fn answer<T: std::fmt::Debug>(call: impl Fn(&dyn LocalCatalog) -> T + 'static) -> Call {
        Box::new(move |catalog| format!("{:?}", call(catalog)))
    }
    let (session, container) = (random.session(), random.container());
    let lease_ms = 1 + random.below(200);
    let snapshot = snapshots[snapshots.len() - 1 - random.below(2.min(snapshots.len() as u64)) as usize];
    match random.below(32) {
        0 => answer(move |catalog| catalog.begin(Purpose::Read, lease_ms)),
        1 => {
            let refresh = random.chance(70);
            let lease_ms = if session.0 == 1 { 1 << 40 } else { lease_ms };
            answer(move |catalog| catalog.renew(session, lease_ms, refresh))
        }
        2 if session.0 > 1 => answer(move |catalog| catalog.end(session)),
        3 => answer(move |catalog| catalog.open_container(session)),
        4 => answer(move |catalog| catalog.seal_container(container, lease_ms, 5)),
        5 => {
            let nodes = random.some(2, |random| format!("node {}", random.below(9)));
            let (path, job, key) = (random.path(), String::from("job"), random.key());
            let join = Join { path, nodes, stripe_bytes: 1 << 20, job, key, lease_ms };
            answer(move |catalog| catalog.join(&join))
        }
        6 => {
            let (key, all) = (random.key(), random.chance(20));
            answer(move |catalog| match all {
                true => catalog.leave_all(session).map(|()| 0),
                false => catalog.leave(session, &key),
            })
        }
        7 if random.chance(30) => answer(move |catalog| catalog.discard(session)),
        8 => {
            let (session, owner) = (SessionId(2 + random.below(10)), random.below(2));
            answer(move |catalog| catalog.take_stripe_set(session, 0, owner))
        }
        9..=11 => {
            let (number, owner) = (1 + random.below(8), random.below(2));
            let session = SessionId(2 + random.below(10));
            let (root, resized) = (random.root(), random.chance(50));
            let (frontier, stamps) = (vec![(1, 2, number)], vec![(number, 4, 5)]);
            let (epoch, size) = (1, 9);
            let made =
                Checkpoint { session, stripe_set: 0, owner, number, epoch, root, size, resized, frontier, stamps };
            let references = random.some(1, Draws::container);
            answer(move |catalog| catalog.checkpoint(SessionId(1), &made, &references, u64::MAX))
        }
        12 => {
            let containers = random.some(3, Draws::container);
            answer(move |catalog| catalog.condemn(snapshot, &containers))
        }
        13 => {
            let moves = random.some(2, |random| (random.container(), random.container()));
            answer(move |catalog| catalog.relocate(snapshot, &moves))
        }
        14 => answer(|catalog| catalog.deletable()),
        15 => answer(|catalog| catalog.deleted(&catalog.deletable()?)),
        16 => {
            let sequences = random.some(3, |random| random.below(40));
            answer(move |catalog| catalog.journaled(&sequences))
        }
        17 => {
            let (directory, recursive, after) = (random.path(), random.chance(50), random.path());
            let (after, limit) = (random.chance(50).then_some(after), random.below(5) as usize);
            answer(move |catalog| catalog.list(&directory, recursive, after.as_ref(), limit))
        }
        _ => {
            let commit = random.commit();
            answer(move |catalog| catalog.commit(&commit))
        }
    }
}

/// Returns every answer a catalog can give.
fn picture(catalog: &dyn LocalCatalog) -> Vec<String> {
    let mut picture = names(catalog);
    picture.push(format!("{:?}", catalog.containers()));
    picture.extend((1..14).map(|id| format!("{:?}", catalog.container(ContainerId(id)))));
    picture.push(format!("{:?}", catalog.unjournaled(usize::MAX)));
    for session in catalog.path_sessions().unwrap() {
        picture.push(format!("{session:?} {:?}", catalog.live_session(&session.path)));
        picture.push(format!("{:?}", catalog.checkpoints(session.id)));
        picture.extend((0..3).map(|number| format!("{:?}", catalog.has_handle(session.id, &key(number)))));
    }
    picture.push(format!("{:?}", catalog.statistics()));
    let roots = catalog.roots(0, usize::MAX).unwrap();
    picture.extend(roots.into_iter().map(|(_, root)| format!("{root:?}")));
    picture
}

/// Returns what a journal restores: names, entries, versions.
fn names(catalog: &dyn LocalCatalog) -> Vec<String> {
    let found = catalog.list(&StorePath::root(), true, None, usize::MAX).unwrap();
    let root = catalog.entry(&StorePath::root()).unwrap();
    let names = found.iter().map(|(path, entry)| format!("{path:?} {entry:?} {:?}", catalog.versions(path)));
    names.chain([format!("{root:?}")]).collect()
}

/// Runs the seeds, each printed before so that a failure can be repeated.
fn for_each_seed(count: u64, run: impl Fn(u64)) {
    let chosen = std::env::var("HISTORY_SEED").ok().and_then(|text| text.parse::<u64>().ok());
    for seed in chosen.map_or(0..count, |seed| seed..seed + 1) {
        eprintln!("HISTORY_SEED={seed}");
        run(seed);
    }
}

/// Returns both engines with one clock, and a session 1 that outlives everything.
fn pair(file: &std::path::Path) -> (MemoryCatalog, SqliteCatalog, Arc<AtomicI64>) {
    let now_ns = Arc::new(AtomicI64::new(1_000_000_000));
    let shown = now_ns.clone();
    let clock: crate::catalog::Clock = Arc::new(move || shown.load(Ordering::Relaxed));
    let (memory, disk) = (MemoryCatalog::new().with_clock(clock.clone()), opened(file).with_clock(clock));
    for catalog in [&memory as &dyn LocalCatalog, &disk] {
        catalog.begin(Purpose::Write, 1 << 40).unwrap();
    }
    (memory, disk, now_ns)
}

#[test]
fn both_engines_answer_alike() {
    for_each_seed(40, |seed| {
        let directory = scratch();
        let (memory, disk, now_ns) = pair(&directory.path().join("catalog"));
        let mut random = Draws::new(seed);
        let mut snapshots = vec![memory.snapshot().unwrap()];
        disk.snapshot().unwrap();
        for count in 0..600 {
            if random.chance(5) {
                snapshots.push(memory.snapshot().unwrap());
                assert_eq!(disk.snapshot().unwrap(), *snapshots.last().unwrap(), "seed {seed}, step {count}");
            }
            now_ns.fetch_add(random.below(20) as i64 * 1_000_000, Ordering::Relaxed);
            let call = step(&mut random, &snapshots);
            assert_eq!(call(&disk), call(&memory), "seed {seed}, step {count}");
            if count % 20 == 0 {
                assert_eq!(picture(&disk), picture(&memory), "seed {seed}, step {count}");
            }
        }
        assert_eq!(picture(&disk), picture(&memory), "seed {seed}");
    });
}

#[test]
fn a_replayed_journal_gives_the_same_catalog() {
    for_each_seed(40, |seed| {
        let directory = scratch();
        let (original, disk, now_ns) = pair(&directory.path().join("catalog"));
        let memory = MemoryCatalog::new();
        let mut random = Draws::new(seed);
        for _ in 0..400 {
            now_ns.fetch_add(1, Ordering::Relaxed);
            let changes = random.some(2, Draws::change);
            let _ = original.commit(&Commit {
                session: SessionId(1),
                references: vec![],
                epoch: u64::MAX,
                changes,
                checkpoints: vec![],
            });
        }
        let records = original.unjournaled(usize::MAX).unwrap();
        for copy in [&memory as &dyn LocalCatalog, &disk] {
            let left_out = copy.replay(&original.containers().unwrap(), &records, &Default::default()).unwrap();
            assert_eq!(left_out, [], "seed {seed}");
            assert_eq!(names(copy), names(&original), "seed {seed}");
        }
    });
}

#[test]
fn both_engines_make_the_same_of_a_journal_with_gaps() {
    for_each_seed(40, |seed| {
        let directory = scratch();
        let (original, disk, _) = pair(&directory.path().join("catalog"));
        let mut random = Draws::new(seed);
        for _ in 0..400 {
            let changes = random.some(2, Draws::change);
            let _ = original.commit(&Commit {
                session: SessionId(1),
                references: vec![],
                epoch: u64::MAX,
                changes,
                checkpoints: vec![],
            });
        }
        let mut records = original.unjournaled(usize::MAX).unwrap();
        records.retain(|_| random.chance(70));
        let memory = MemoryCatalog::new();
        let left_out = memory.replay(&[], &records, &Default::default()).unwrap();
        assert_eq!(disk.replay(&[], &records, &Default::default()).unwrap(), left_out, "seed {seed}");
        assert_eq!(names(&disk), names(&memory), "seed {seed}");
    });
}
