//! Re-encoding and deduplication beside writers, readers and collection; killed at any point and run again.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use format::{Attributes, Change, CodecChoice, VersionRecord};
use random::Random;
use repository::{
    CommitEntry, DedupMode, DedupReport, DedupScope, FileWriter, Packer, Repack, RepackReport, Repository, WriteMode,
    collect, deduplicate, verify,
};
use store::ClaimOwner;
use store::files::Files;

use crate::damage::file_of;
use crate::fixture::{CLAIM_OWNER, World, commit_packed, content, path, with_seeds};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const CODECS: [CodecChoice; 4] =
    [CodecChoice::Zstd(9), CodecChoice::Xz(6), CodecChoice::Zlib(9), CodecChoice::Lz4Hc(12)];
const PIECES: u64 = 40;

/// A store whose codec leaves much to save.
fn world() -> World {
    let mut world = World::new();
    world.settings.codec = CodecChoice::Lz4Fast;
    world
}

/// Numbers in decimal, the same for the same seed.
fn text(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut text = String::new();
    while text.len() < bytes {
        text += &format!("{:5} ", random.below(20_000));
    }
    text.truncate(bytes);
    text.into_bytes()
}

fn put(process: &Arc<Repository>, name: &str, plain: &[u8]) {
    let mut writer = FileWriter::new(process.clone(), ClaimOwner(1 << 40));
    writer.write(plain).unwrap();
    let draft = writer.finish().unwrap();
    let entry = CommitEntry { path: path(name), attributes: Attributes::default(), mode: WriteMode::Replace, draft };
    process.name(CLAIM_OWNER, &[entry]).unwrap();
}

/// A process that ends when it has put.
fn put_and_end(world: &World, name: &str, plain: &[u8]) {
    let process = world.process();
    put(&process, name, plain);
    process.close().unwrap();
}

fn put_without_look_ups(world: &World, name: &str, plain: &[u8]) {
    let process = world.process();
    let mut packer = Packer::new(&process, ClaimOwner(1 << 41)).with_dedup(DedupMode::Off);
    packer.begin();
    packer.data(plain).unwrap();
    packer.end(name.to_owned()).unwrap();
    packer.flush().unwrap();
    commit_packed(&process, packer.take_finished());
    drop(packer);
    process.close().unwrap();
}

fn flip_a_bit(world: &World, container: u64) {
    let name = file_of(container);
    let file = world.files.open(&name).unwrap();
    let mut bytes = file.read(0, file.length().unwrap() as usize).unwrap();
    bytes[3_000] ^= 1;
    world.files.remove(&name).unwrap();
    world.files.create(&name).unwrap().write_at(0, &[&bytes]).unwrap();
}

fn dedup(world: &World, scope: DedupScope) -> DedupReport {
    let process = world.process();
    let report = deduplicate(&process, scope, &mut |_| ()).unwrap();
    process.close().unwrap();
    report
}

fn collect_all(world: &World) {
    let process = world.process();
    collect(&process).unwrap();
    process.close().unwrap();
}

fn repack(world: &World, codec: CodecChoice) -> RepackReport {
    let process = world.process();
    let report = Repack::begin(&process, codec).unwrap().run(&mut |_| ()).unwrap();
    process.close().unwrap();
    report
}

#[test]
fn what_is_encoded_again_is_shorter_reads_the_same_and_is_not_encoded_a_third_time() {
    let world = world();
    let plain = text(1, 600_000);
    put_and_end(&world, "a", &plain);
    put_and_end(&world, "r", &Random::new(2).bytes(300_000));
    let before = world.catalog_bytes();
    let report = repack(&world, CodecChoice::Xz(6));
    assert!(report.rewritten > 0 && report.rewritten < report.containers, "random bytes stay: {report:?}");
    assert_eq!((report.before_bytes, report.damaged, report.waiting), (before, 0, 0));
    assert_eq!(world.catalog_bytes(), report.after_bytes, "the old files are gone");
    assert!(report.saved_bytes() > 50_000, "{report:?}");
    assert_eq!(content(&world.process(), "a"), plain);
    let again = repack(&world, CodecChoice::Xz(6));
    assert_eq!((again.rewritten, again.before_bytes, again.saved_bytes()), (0, report.after_bytes, 0));
    assert_eq!(verify(&world.process(), true, &mut |_| {}).unwrap().damages, []);
}

#[test]
fn a_reader_from_before_keeps_the_old_file_until_it_ends() {
    let world = world();
    let plain = text(3, 400_000);
    put_and_end(&world, "a", &plain);
    let reader = world.process();
    let head = reader.catalog().entry(&path("a")).unwrap().unwrap().head.unwrap().record;
    let report = repack(&world, CodecChoice::Zstd(19));
    assert!(report.waiting == report.rewritten && report.waiting > 0, "{report:?}");
    assert!(report.waiting_bytes > report.saved_bytes());
    let read = |record: &VersionRecord| {
        let mut bytes = vec![0; plain.len()];
        reader.reader(&record.root, record.size).read_at(0, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(read(&head), plain);
    reader.close().unwrap();
    let collector = world.process();
    assert_eq!(collect(&collector).unwrap().deleted, report.waiting);
    assert_eq!(content(&world.process(), "a"), plain);
}

#[test]
fn a_writer_that_found_duplicates_in_a_file_that_is_replaced_commits_all_the_same() {
    let world = world();
    let plain = text(4, 300_000);
    put_and_end(&world, "a", &plain);
    let process = world.process();
    let mut writer = FileWriter::new(process.clone(), ClaimOwner(1 << 40));
    writer.write(&plain).unwrap();
    let draft = writer.finish().unwrap();
    assert!(repack(&world, CodecChoice::Xz(6)).rewritten > 0);
    let entry = CommitEntry { path: path("b"), attributes: Attributes::default(), mode: WriteMode::Replace, draft };
    process.name(CLAIM_OWNER, &[entry]).unwrap();
    assert_eq!(content(&world.process(), "b"), plain);
}

#[test]
fn duplicates_go_and_versions_stay_what_they_were() {
    for scope in [DedupScope::Segments, DedupScope::Files] {
        let world = world();
        let (plain, other) = (text(5, 300_000), text(6, 300_000));
        for (name, plain) in [("a", &plain), ("b", &plain), ("a", &other), ("c", &plain), ("a", &plain)] {
            put_without_look_ups(&world, name, plain);
        }
        let before = world.process().catalog().versions(&path("a")).unwrap();
        let bytes = world.catalog_bytes();
        let report = dedup(&world, scope);
        let versions = if scope == DedupScope::Segments { 5 } else { 4 };
        assert_eq!((report.versions, report.changed, report.damaged, report.skipped), (versions, 3, 0, 0));
        assert_eq!(report.duplicate_bytes, 3 * plain.len() as u64);
        collect_all(&world);
        assert!(world.catalog_bytes() < bytes / 2, "{bytes} became {}", world.catalog_bytes());
        let process = world.process();
        let after = process.catalog().versions(&path("a")).unwrap();
        let told = |version: &catalog::Version| {
            (version.number, version.committed_ns, version.record.size, version.record.content)
        };
        assert_eq!(before.iter().map(told).collect::<Vec<_>>(), after.iter().map(told).collect::<Vec<_>>());
        for (version, expected) in after.iter().zip([&plain, &other, &plain]) {
            let mut read = vec![0; expected.len()];
            process.version_reader(&version.record).read_at(0, &mut read).unwrap();
            assert!(read == *expected);
        }
        let again = dedup(&world, scope);
        assert_eq!((again.changed, again.duplicate_bytes), (0, 0));
        assert_eq!(verify(&world.process(), true, &mut |_| {}).unwrap().damages, []);
    }
}

#[test]
fn a_duplicate_stays_where_the_copy_to_keep_is_damaged() {
    let world = world();
    let plain = text(7, 20_000);
    put_without_look_ups(&world, "a", &plain);
    put_without_look_ups(&world, "b", &plain);
    flip_a_bit(&world, 1);
    let report = dedup(&world, DedupScope::Segments);
    assert!(report.duplicate_bytes < plain.len() as u64, "{report:?}");
    collect_all(&world);
    assert_eq!(content(&world.process(), "b"), plain);
}

#[test]
fn a_file_that_is_being_written_is_left_as_it_is() {
    let world = world();
    let plain = text(8, 100_000);
    put_without_look_ups(&world, "a", &plain);
    put_without_look_ups(&world, "b", &plain);
    let session = world.join("b", 1);
    let report = dedup(&world, DedupScope::Segments);
    assert_eq!((report.changed, report.skipped), (0, 1));
    catalog::Names::discard(&*world.catalog, session.id).unwrap();
    assert_eq!(dedup(&world, DedupScope::Segments).changed, 1);
}

#[test]
fn a_reader_from_before_reads_on_by_the_old_manifest() {
    let world = world();
    let plain = text(9, 200_000);
    put_without_look_ups(&world, "a", &plain);
    put_without_look_ups(&world, "b", &plain);
    let reader = world.process();
    let head = reader.catalog().entry(&path("b")).unwrap().unwrap().head.unwrap().record;
    assert_eq!(dedup(&world, DedupScope::Segments).changed, 1);
    collect_all(&world);
    collect_all(&world);
    let mut read = vec![0; plain.len()];
    reader.version_reader(&head).read_at(0, &mut read).unwrap();
    assert!(read == plain);
}

/// Writers, removals, collections and other runs happen whenever a run has read something, before it replaces a file; some
/// runs are killed there.
struct History {
    random: Random,
    world: World,
    plain: BTreeMap<&'static str, Vec<u8>>,
    saved: u64,
    deduplicated: u64,
}

impl History {
    fn step(&mut self) {
        match self.random.below(8) {
            0..4 => self.put(),
            4 => self.remove(),
            5 => self.collect(),
            6 => self.deduplicate(),
            _ => self.repack(),
        }
    }

    /// What others do.
    fn interfere(&mut self) {
        match self.random.below(40) {
            0..2 => self.put(),
            2 => self.remove(),
            3 => self.collect(),
            4 => drop(repack(&self.world, CODECS[self.random.below(4) as usize])),
            5 => drop(dedup(&self.world, DedupScope::Segments)),
            _ => {}
        }
    }

    fn put(&mut self) {
        let (name, count) = (NAMES[self.random.below(6) as usize], 1 + self.random.below(10));
        let plain: Vec<u8> = (0..count).flat_map(|_| text(self.random.below(PIECES), 6_000)).collect();
        match self.random.below(2) {
            0 => put_and_end(&self.world, name, &plain),
            _ => put_without_look_ups(&self.world, name, &plain),
        }
        self.plain.insert(name, plain);
    }

    fn remove(&mut self) {
        let name = NAMES[self.random.below(6) as usize];
        if self.plain.remove(name).is_some() {
            let process = self.world.process();
            let change = Change::Remove { path: path(name), recursive: false };
            process.commit(CLAIM_OWNER, vec![change], Default::default(), Vec::new()).unwrap();
            process.close().unwrap();
        }
    }

    fn collect(&mut self) {
        collect_all(&self.world);
    }

    fn repack(&mut self) {
        let process = self.world.process();
        let is_killed = self.random.below(4) == 0;
        let run = Repack::begin(&process, CODECS[self.random.below(4) as usize]).unwrap();
        let done = catch_unwind(AssertUnwindSafe(|| {
            run.run(&mut |_| {
                self.interfere();
                if is_killed && self.random.below(6) == 0 {
                    std::panic::resume_unwind(Box::new(Killed));
                }
            })
        }));
        match done {
            Ok(report) => self.saved += report.unwrap().saved_bytes(),
            Err(panic) if panic.is::<Killed>() => {}
            Err(panic) => std::panic::resume_unwind(panic),
        }
        self.world.run_out(&process);
        self.check();
    }

    fn deduplicate(&mut self) {
        let process = self.world.process();
        let is_killed = self.random.below(4) == 0;
        let scope = [DedupScope::Segments, DedupScope::Files][self.random.below(2) as usize];
        let done = catch_unwind(AssertUnwindSafe(|| {
            deduplicate(&process, scope, &mut |_| {
                self.interfere();
                if is_killed && self.random.below(6) == 0 {
                    std::panic::resume_unwind(Box::new(Killed));
                }
            })
        }));
        match done {
            Ok(report) => self.deduplicated += report.unwrap().changed,
            Err(panic) if panic.is::<Killed>() => {}
            Err(panic) => std::panic::resume_unwind(panic),
        }
        self.world.run_out(&process);
        self.check();
    }

    fn check(&self) {
        let process = self.world.process();
        self.plain.iter().for_each(|(name, plain)| assert!(content(&process, name) == *plain, "{name}"));
        process.close().unwrap();
    }
}

/// The payload of a panic that stands for `kill -9`.
struct Killed;

#[test]
fn histories_of_writers_runs_and_collection_equal_a_plain_map() {
    let (saved, deduplicated) = (Cell::new(0), Cell::new(0));
    with_seeds(8, |seed| {
        let (random, world, plain) = (Random::new(seed), world(), BTreeMap::new());
        let mut history = History { random, world, plain, saved: 0, deduplicated: 0 };
        (0..30).for_each(|_| history.step());
        history.check();
        saved.set(saved.get() + history.saved);
        deduplicated.set(deduplicated.get() + history.deduplicated);
        assert_eq!(verify(&history.world.process(), true, &mut |_| {}).unwrap().damages, []);
        // What killed and overtaken runs left goes: nothing is stored twice.
        (0..3).for_each(|_| history.collect());
        let (left, catalog) = (history.world.catalog_bytes(), history.world.catalog.clone());
        assert_eq!(catalog::LocalCatalog::statistics(&*catalog).unwrap().condemned_containers, 0);
        repack(&history.world, CodecChoice::Zstd(19));
        assert!(history.world.catalog_bytes() <= left);
        history.check();
    });
    assert!(saved.get() > 0 && deduplicated.get() > 0, "the histories did nothing");
}
