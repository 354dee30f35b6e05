//! Damaged or missing content answers for nothing, and storing it again heals the files that referred to it.

use std::ops::Range;
use std::sync::Arc;

use catalog::LocalCatalog;
use format::{Attributes, BlockKind, Change, ChunkerKind, ContainerId};
use random::Random;
use repository::{CommitEntry, FileWriter, Repository, WriteMode, collect, repair, verify};
use store::ClaimOwner;
use store::files::Files;

use crate::fixture::{CLAIM_OWNER, World, content, path, with_seeds};

pub fn put(process: &Arc<Repository>, name: &str, bytes: &[u8]) {
    let mut writer = FileWriter::new(process.clone(), ClaimOwner(1 << 60));
    writer.write(bytes).unwrap();
    let draft = writer.finish().unwrap();
    let entry = CommitEntry { path: path(name), attributes: Attributes::default(), mode: WriteMode::Replace, draft };
    process.name(CLAIM_OWNER, &[entry]).unwrap();
}

pub fn reads(process: &Arc<Repository>, name: &str, version: usize, plain: &[u8]) -> bool {
    let record = &process.catalog().versions(&path(name)).unwrap()[version].record;
    let mut bytes = vec![0xee; plain.len()];
    let read = process.reader(&record.root, record.size).read_at(0, &mut bytes);
    assert!(read.is_err() || bytes == plain, "wrong bytes were read");
    read.is_ok()
}

fn forget_old(process: &Arc<Repository>, name: &str) {
    let old: Vec<u64> =
        process.catalog().versions(&path(name)).unwrap().iter().rev().skip(1).map(|v| v.number).collect();
    let file = process.catalog().entry(&path(name)).unwrap().unwrap().file;
    let change = Change::Forget { path: path(name), file, versions: old };
    process.commit(CLAIM_OWNER, vec![change], Default::default(), Vec::new()).unwrap();
}

/// A world with one file, put by a process that is gone.
fn world_with(plain: &[u8]) -> World {
    let world = World::new();
    let process = world.process();
    put(&process, "a", plain);
    process.close().unwrap();
    world
}

pub fn file_of(container: u64) -> String {
    format!("containers/{container:02x}/{container:016x}.twc")
}

/// Changes one byte of the first data block of a container.
fn flip(world: &World, container: u64) {
    let mut first = None;
    let process = world.process();
    let local =
        store::MemoryStore::over(world.files.clone(), &world.settings, Arc::new(store::CountingRegistrar::new()));
    let visit = &mut |placed: store::StoredBlock| {
        first.get_or_insert(placed.block.payload);
        Ok(())
    };
    local.unwrap().visit_blocks(ContainerId(container), Some(BlockKind::Data), visit).unwrap();
    process.close().unwrap();
    let file = world.files.open(&file_of(container)).unwrap();
    let bytes = file.read(0, file.length().unwrap() as usize).unwrap();
    let payload = first.unwrap();
    let at = bytes.windows(64).position(|window| *window == payload[..64]).unwrap();
    file.write_at(at as u64 + 7, &[&[bytes[at + 7] ^ 1]]).unwrap();
}

#[test]
fn content_that_is_put_again_heals_a_damaged_block() {
    let plain = Random::new(1).bytes(300_000);
    let world = world_with(&plain);
    flip(&world, 1);
    assert!(!reads(&world.process(), "a", 0, &plain));
    assert!(!world.catalog.lost().unwrap().is_empty(), "what was found is recorded");
    // Another process, later: the damaged segments are no duplicates.
    let process = world.process();
    put(&process, "b", &plain);
    assert!(reads(&process, "b", 0, &plain));
    for process in [process, world.process()] {
        assert!(reads(&process, "a", 0, &plain), "the old version reads again");
    }
    assert!(world.catalog.lost().unwrap().iter().all(|lost| lost.copy.is_some()));
}

#[test]
fn content_that_is_put_again_heals_a_missing_container() {
    let plain = Random::new(2).bytes(300_000);
    let world = world_with(&plain);
    let process = world.process();
    world.files.remove(&file_of(1)).unwrap();
    assert!(!reads(&process, "a", 0, &plain));
    // At the same name: the process looks before it skips.
    put(&process, "a", &plain);
    assert!(reads(&process, "a", 0, &plain) && reads(&process, "a", 1, &plain));
    assert!(reads(&world.process(), "a", 0, &plain));
}

#[test]
fn copies_live_as_long_as_what_they_stand_in_for() {
    let plain = Random::new(3).bytes(300_000);
    let world = world_with(&plain);
    flip(&world, 1);
    assert!(!reads(&world.process(), "a", 0, &plain));
    let process = world.process();
    put(&process, "b", &plain);
    put(&process, "b", b"something else");
    forget_old(&process, "b");
    process.close().unwrap();
    for _ in 0..3 {
        let collector = world.process();
        collect(&collector).unwrap();
        collector.close().unwrap();
        assert!(reads(&world.process(), "a", 0, &plain));
    }
    assert_eq!(content(&world.process(), "b"), b"something else");
}

#[test]
fn collection_leaves_what_is_needed_and_missing() {
    let plain = Random::new(4).bytes(300_000);
    let world = world_with(&plain);
    let file = world.files.open(&file_of(1)).unwrap();
    let bytes = file.read(0, file.length().unwrap() as usize).unwrap();
    world.files.remove(&file_of(1)).unwrap();
    for _ in 0..2 {
        let collector = world.process();
        collect(&collector).unwrap();
        collector.close().unwrap();
    }
    // The disk is mounted again.
    world.files.create(&file_of(1)).unwrap().write_at(0, &[&bytes]).unwrap();
    assert!(reads(&world.process(), "a", 0, &plain));
    assert_eq!(verify(&world.process(), true, &mut |_| {}).unwrap().damages, []);
}

#[test]
fn repair_names_what_is_lost_and_is_content_when_it_is_healed() {
    let plain = Random::new(5).bytes(300_000);
    let world = world_with(&plain);
    assert!(repair(&world.process()).unwrap().lost.is_empty());
    assert!(world.process().known_damage().unwrap().is_none());
    flip(&world, 1);
    let process = world.process();
    let repaired = repair(&process).unwrap();
    let [lost] = &repaired.lost[..] else { panic!("{:?}", repaired.lost) };
    assert_eq!((&lost.path, lost.version, lost.range.start), (&path("a"), 1, 0));
    assert!(lost.range.end < 300_000, "only the block that is damaged: {:?}", lost.range);
    let root = process.catalog().entry(&path("a")).unwrap().unwrap().head.unwrap().record.root;
    assert!(process.known_damage().unwrap().unwrap().affects(&process, &root));
    put(&world.process(), "c", &plain);
    let repaired = repair(&world.process()).unwrap();
    assert!(repaired.lost.is_empty() && repaired.healed_segments > 0, "{repaired:?}");
    assert!(process.known_damage().unwrap().is_none_or(|damage| !damage.affects(&process, &root)));
}

/// A collection by a process of its own, and the findings of verification afterwards.
fn collection(world: &World) -> (repository::CollectReport, Vec<repository::Damage>) {
    let collector = world.process();
    let collected = collect(&collector).unwrap();
    collector.close().unwrap();
    (collected, verify(&world.process(), true, &mut |_| {}).unwrap().damages)
}

#[test]
fn a_damaged_container_whose_content_was_put_again_is_replaced() {
    let plain = Random::new(6).bytes(300_000);
    let world = world_with(&plain);
    flip(&world, 1);
    assert!(!reads(&world.process(), "a", 0, &plain));
    let process = world.process();
    put(&process, "b", &plain);
    process.close().unwrap();
    drop(process);
    let healed = |damage: &repository::Damage| {
        matches!(damage, repository::Damage::Container { lost_segments, healed_segments, .. }
            if lost_segments == healed_segments)
    };
    let before = verify(&world.process(), false, &mut |_| {}).unwrap().damages;
    assert!(before.len() == 1 && before.iter().all(healed), "{before:?}");
    let (collected, damages) = collection(&world);
    assert_eq!((collected.replaced, &damages[..]), (1, &[][..]), "{collected:?}");
    assert_eq!(world.catalog.lost().unwrap(), []);
    for name in ["a", "b"] {
        assert!(reads(&world.process(), name, 0, &plain));
    }
    // It needs the copies no more, and answers for its segments again.
    let process = world.process();
    put(&process, "b", b"something else");
    forget_old(&process, "b");
    process.close().unwrap();
    for _ in 0..3 {
        assert_eq!(collection(&world).1, []);
    }
    assert!(reads(&world.process(), "a", 0, &plain));
}

#[test]
fn a_missing_container_whose_content_was_put_again_is_replaced() {
    let plain = Random::new(7).bytes(300_000);
    let world = world_with(&plain);
    world.files.remove(&file_of(1)).unwrap();
    assert!(!reads(&world.process(), "a", 0, &plain));
    let process = world.process();
    put(&process, "a", &plain);
    process.close().unwrap();
    drop(process);
    let (collected, damages) = collection(&world);
    assert_eq!((collected.replaced, &damages[..]), (1, &[][..]), "{collected:?}");
    assert!(reads(&world.process(), "a", 0, &plain) && reads(&world.process(), "a", 1, &plain));
}

#[test]
fn a_damaged_container_with_something_lost_for_good_stays_and_is_named() {
    let (plain, other) = (Random::new(8).bytes(100_000), Random::new(9).bytes(100_000));
    let world = World::new();
    let process = world.process();
    put(&process, "a", &plain);
    put(&process, "b", &other);
    process.close().unwrap();
    world.files.remove(&file_of(1)).unwrap();
    assert!(!reads(&world.process(), "a", 0, &plain) && !reads(&world.process(), "b", 0, &other));
    put(&world.process(), "a", &plain);
    let (collected, damages) = collection(&world);
    assert_eq!((collected.replaced, collected.condemned), (0, 0));
    let named = |damage: &repository::Damage| match damage {
        repository::Damage::Version { path, .. } => Some(path.to_string()),
        _ => None,
    };
    assert_eq!(damages.iter().filter_map(named).collect::<Vec<_>>(), ["b"]);
    assert!(reads(&world.process(), "a", 0, &plain));
    put(&world.process(), "b", &other);
    let (collected, damages) = collection(&world);
    assert_eq!((collected.replaced, &damages[..]), (1, &[][..]));
    assert!(reads(&world.process(), "b", 0, &other));
}

/// The ranges of version 1 of a file that repair calls lost; all others read, each byte as it was.
fn lost_ranges(world: &World, name: &str, plain: &[u8]) -> Vec<Range<u64>> {
    let process = world.process();
    let repaired = repair(&process).unwrap();
    let record = process.catalog().versions(&path(name)).unwrap()[0].record.clone();
    let lost: Vec<_> = repaired.lost.iter().map(|lost| (lost.path.clone(), lost.version, lost.range.clone())).collect();
    let lost: Vec<_> = lost.into_iter().filter(|lost| lost.0 == path(name) && lost.1 == 1).map(|lost| lost.2).collect();
    for at in (0..plain.len()).step_by(100) {
        let wanted = at as u64..(at as u64 + 100).min(plain.len() as u64);
        let mut bytes = vec![0xee; (wanted.end - wanted.start) as usize];
        let read = process.version_reader(&record).read_at(at as u64, &mut bytes);
        let is_lost = lost.iter().any(|lost| lost.start < wanted.end && wanted.start < lost.end);
        assert_eq!(read.is_err(), is_lost, "{wanted:?} of {lost:?}: {read:?}");
        assert!(is_lost || bytes == plain[at..wanted.end as usize], "{wanted:?} has wrong bytes");
    }
    lost
}

/// A file whose container is gone; what is put then has most of its segments.
fn most_is_put_again(plain: &[u8], again: &[u8]) -> World {
    let world = world_with(plain);
    world.files.remove(&file_of(1)).unwrap();
    assert!(!reads(&world.process(), "a", 0, plain));
    let process = world.process();
    put(&process, "b", again);
    process.close().unwrap();
    world
}

#[test]
fn segments_with_copies_are_read_although_the_last_of_their_run_is_lost() {
    let mut random = Random::new(21);
    let plain = random.bytes(200_000);
    let world = most_is_put_again(&plain, &[&plain[..], &random.bytes(100_000)].concat());
    let lost = lost_ranges(&world, "a", &plain);
    assert!(matches!(&lost[..], [lost] if lost.start > 100_000 && lost.end == 200_000), "{lost:?}");
    put(&world.process(), "c", &plain);
    assert_eq!(lost_ranges(&world, "a", &plain), []);
}

#[test]
fn segments_with_copies_are_read_although_one_between_them_is_lost() {
    let plain = Random::new(22).bytes(200_000);
    let mut again = plain.clone();
    again[100_000] ^= 1;
    let world = most_is_put_again(&plain, &again);
    let lost = lost_ranges(&world, "a", &plain);
    assert!(matches!(&lost[..], [lost] if lost.contains(&100_000) && lost.end - lost.start < 100_000), "{lost:?}");
}

/// Where several are lost, the places of those between them are not known.
#[test]
fn segments_between_lost_ones_of_unknown_length_are_lost_with_them() {
    let plain = Random::new(23).bytes(200_000);
    let mut again = plain.clone();
    again[50_000] ^= 1;
    again[150_000] ^= 1;
    let world = most_is_put_again(&plain, &again);
    let lost = lost_ranges(&world, "a", &plain);
    assert!(matches!(&lost[..], [lost] if lost.contains(&50_000) && lost.contains(&150_000)), "{lost:?}");
    assert!(lost[0].start > 0 && lost[0].end < 200_000, "{lost:?}");
}

/// Pages of the manifest are in some of them.
#[test]
fn whichever_container_is_gone_repair_names_the_bytes_that_cannot_be_read_and_no_others() {
    let mut partly = 0;
    for container in 1.. {
        let mut world = World::new();
        (world.settings.chunker, world.settings.segment_bytes) = (ChunkerKind::Fixed, 512);
        let process = world.process();
        let segments = Random::new(24).bytes(512 << 10);
        put(&process, "b", &segments);
        // Each segment is an entry of its own.
        let plain: Vec<u8> = segments.chunks(512).rev().flatten().copied().collect();
        put(&process, "a", &plain);
        process.close().unwrap();
        if !world.files.exists(&file_of(container)).unwrap() {
            break;
        }
        world.files.remove(&file_of(container)).unwrap();
        let lost = lost_ranges(&world, "a", &plain);
        let lost_bytes: u64 = lost.iter().map(|lost| lost.end - lost.start).sum();
        partly += usize::from(lost_bytes > 0 && lost_bytes < plain.len() as u64);
        assert!(lost.is_sorted_by(|one, next| one.end < next.start), "{lost:?}");
    }
    assert!(partly > 1, "{partly}");
}

#[test]
fn whatever_byte_is_damaged_all_is_whole_again_once_it_was_put_again_and_collected() {
    with_seeds(60, |seed| {
        let mut random = Random::new(seed);
        let plain = random.bytes(150_000);
        let world = world_with(&plain);
        let file = world.files.open(&file_of(1)).unwrap();
        let length = file.length().unwrap();
        let (at, count) = (random.below(length), 1 + random.below(40));
        let damaged = random.bytes(count.min(length - at) as usize);
        file.write_at(at, &[&damaged]).unwrap();
        reads(&world.process(), "a", 0, &plain);
        let process = world.process();
        repair(&process).unwrap();
        put(&process, "b", &plain);
        repair(&process).unwrap();
        process.close().unwrap();
        drop(process);
        for attempt in 0..2 {
            let (collected, damages) = collection(&world);
            assert!(attempt == 0 || damages.is_empty(), "{at}: {damages:?} {collected:?}");
        }
        assert!(reads(&world.process(), "a", 0, &plain) && reads(&world.process(), "b", 0, &plain));
    });
}
