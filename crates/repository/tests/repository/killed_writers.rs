//! Containers left unsealed, since their writers were killed, and damaged afterwards.

use catalog::{ContainerState, LocalCatalog};
use format::ContainerId;
use random::Random;
use repository::{collect, repair, verify};
use store::files::Files;

use crate::damage::{file_of, put, reads};
use crate::fixture::{World, path};

/// A kind of damage to a container's file.
type Harm = fn(&mut Vec<u8>);

/// In the first part, after which others follow; in the last part with content; in the last part's index; the parts
/// behind the first are gone; nearly all is.
const HARMS: [Harm; 5] = [
    |bytes| bytes[9_000] ^= 4,
    |bytes| {
        let at = bytes.len() - 2_000;
        bytes[at] ^= 4
    },
    |bytes| {
        let index = bytes.windows(4).rposition(|window| window == b"TWPT").unwrap_or(bytes.len() - 6_000);
        bytes[index + 120] ^= 4
    },
    |bytes| bytes.truncate(40_000),
    |bytes| bytes.truncate(200),
];

/// A world with one file, put by a process that was killed; its lease has run out, and was ended or not.
fn world_of_a_killed_writer(plain: &[u8], is_ended: bool) -> World {
    let world = World::new();
    let process = world.process();
    put(&process, "a", plain);
    match is_ended {
        true => world.run_out(&process),
        false => world.pass_leases(),
    }
    std::mem::forget(process);
    world
}

fn harm(world: &World, harm: Harm) {
    let file = world.files.open(&file_of(1)).unwrap();
    let mut bytes = file.read(0, file.length().unwrap() as usize).unwrap();
    harm(&mut bytes);
    world.files.remove(&file_of(1)).unwrap();
    world.files.create(&file_of(1)).unwrap().write_at(0, &[&bytes]).unwrap();
}

/// Whether `put` would read the file again.
fn is_known_to_be_damaged(world: &World) -> bool {
    let process = world.process();
    let root = process.catalog().entry(&path("a")).unwrap().unwrap().head.unwrap().record.root;
    process.known_damage().unwrap().is_some_and(|damage| damage.affects(&process, &root))
}

#[test]
fn an_unsealed_container_counts_as_checked_and_its_files_as_unchanged() {
    for is_ended in [false, true] {
        let world = world_of_a_killed_writer(&Random::new(1).bytes(150_000), is_ended);
        let state = world.catalog.container(ContainerId(1)).unwrap().unwrap().state;
        assert_eq!(state == ContainerState::Live, is_ended);
        let verified = verify(&world.process(), true, &mut |_| {}).unwrap();
        assert_eq!((verified.containers, &verified.damages[..]), (1, &[][..]));
        assert!(verified.segments >= 18 && verified.stored_bytes > 150_000, "{verified:?}");
        assert!(!is_known_to_be_damaged(&world));
    }
}

#[test]
fn content_put_again_heals_the_losses_of_an_unsealed_container() {
    let plain = Random::new(2).bytes(150_000);
    for (number, change) in HARMS.into_iter().enumerate() {
        for is_ended in [false, true] {
            let world = world_of_a_killed_writer(&plain, is_ended);
            harm(&world, change);
            assert!(is_known_to_be_damaged(&world), "harm {number}");
            put(&world.process(), "b", &plain);
            assert!(reads(&world.process(), "b", 0, &plain), "harm {number}");
            let lost = repair(&world.process()).unwrap().lost;
            assert!(lost.is_empty(), "harm {number}, {is_ended}: {lost:?}");
            assert!(reads(&world.process(), "a", 0, &plain), "harm {number}: the old version is not healed");
            let collector = world.process();
            collect(&collector).unwrap();
            collector.close().unwrap();
            assert_eq!(verify(&world.process(), true, &mut |_| {}).unwrap().damages, [], "harm {number}");
        }
    }
}

/// The writer died before it had published its last run of the table.
#[test]
fn repair_finds_copies_of_a_damaged_block_that_no_table_knows() {
    let plain = Random::new(3).bytes(150_000);
    for change in &HARMS[..2] {
        let world = world_of_a_killed_writer(&plain, true);
        world.files.list("table").unwrap().iter().for_each(|name| world.files.remove(name).unwrap());
        harm(&world, *change);
        let first = repair(&world.process()).unwrap();
        assert!(!first.lost.is_empty(), "{first:?}");
        put(&world.process(), "b", &plain);
        let healed = repair(&world.process()).unwrap();
        assert!(healed.lost.is_empty() && healed.healed_segments > 0, "{healed:?}");
        assert!(reads(&world.process(), "a", 0, &plain));
    }
}

/// Manifests name runs by a digest over their fingerprints, which are lost with the container.
#[test]
fn repair_takes_the_segments_of_equal_content_where_nothing_tells_what_was_lost() {
    for length in [150_000, 5_000_000] {
        let plain = Random::new(5).bytes(length);
        for (number, change) in HARMS.into_iter().enumerate() {
            let world = world_of_a_killed_writer(&plain, true);
            world.files.list("table").unwrap().iter().for_each(|name| world.files.remove(name).unwrap());
            harm(&world, change);
            assert!(!repair(&world.process()).unwrap().lost.is_empty(), "harm {number}");
            // In other runs: some of it is stored already, by itself.
            let process = world.process();
            put(&process, "part", &plain[length / 2..][..60_000]);
            process.close().unwrap();
            let process = world.process();
            put(&process, "b", &plain);
            process.close().unwrap();
            let lost = repair(&world.process()).unwrap().lost;
            assert!(lost.is_empty(), "harm {number}, {length} bytes: {lost:?}");
            assert!(reads(&world.process(), "a", 0, &plain), "harm {number}");
            for _ in 0..2 {
                let collector = world.process();
                collect(&collector).unwrap();
                collector.close().unwrap();
            }
            assert!(reads(&world.process(), "a", 0, &plain), "harm {number}");
            assert_eq!(verify(&world.process(), true, &mut |_| {}).unwrap().damages, [], "harm {number}");
        }
    }
}

/// A container that is still being written is not damaged, for any reader.
#[test]
fn a_container_that_is_being_written_is_not_taken_for_damaged() {
    let plain = Random::new(4).bytes(150_000);
    let world = World::new();
    let writer = world.process();
    put(&writer, "a", &plain);
    assert!(!is_known_to_be_damaged(&world));
    put(&writer, "b", &plain[..100_000]);
    assert!(!is_known_to_be_damaged(&world));
    assert_eq!(world.catalog.lost().unwrap(), []);
}
