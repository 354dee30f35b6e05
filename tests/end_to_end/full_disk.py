"""A disk without a free byte: reading goes on, and what makes room works."""

import errno
import os

from stage.building import MPIS, own_program
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Store

DISK_BYTES = 64 << 20
KINDS = ["ext4", "tmpfs"]


def small_disk(scene, kind):
    """A file system of its own with a store on it, mounted until the scene ends."""
    folder = scene.new_folder("disk")
    if kind == "tmpfs":
        scene.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", folder])
    else:
        image = scene.folder / "image"
        with open(image, "wb") as file:
            file.truncate(DISK_BYTES)
        scene.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image])
        scene.run(["mount", "-o", "loop", image, folder])
    scene.at_end(lambda: scene.run(["umount", "-l", folder], code=None))
    return Store(scene, "disk/store")


def fill_to_the_last_byte(scene):
    """Free bytes of the disk are none afterwards, in whatever pieces they can be had."""
    with open(scene.folder / "disk" / "filler", "ab", buffering=0) as file:
        for step in (1 << 20, 1 << 12, 1):
            while True:
                try:
                    if file.write(b"x" * step) < step:
                        break
                except OSError as error:
                    check(error.errno == errno.ENOSPC, str(error))
                    break
        os.fsync(file.fileno())


def put_random(scene, store, name, size, **settings):
    source = scene.folder / f"source of {name}"
    source.write_bytes(scene.dice.randbytes(size))
    return store.command("put", source, store.at(name), **settings)


def filled(scene, kind):
    store = small_disk(scene, kind)
    for name in ("kept", "gone"):
        put_random(scene, store, name, 6 << 20)
    for _ in range(2):
        put_random(scene, store, "versions", 3 << 20)
    return store


@test(each=KINDS)
def a_full_disk_is_read(scene, kind):
    store = filled(scene, kind)
    node = store.start_node()
    put_random(scene, store, "in the log", 1000)
    node.process.kill()
    scene.wait_for(node.process)
    (store.folder / "catalog.sqlite-shm").unlink()
    fill_to_the_last_byte(scene)
    (store.folder / "reserve").stat()
    for words in (["ls", "-lR", store.at()], ["stat", store.at("in the log")], ["stats", store.folder]):
        store.command(*words)
    store.command("sessions", store.folder)
    store.verify()
    for name in ("kept", "in the log"):
        check(store.get(name, "fetched").read_bytes() == (scene.folder / f"source of {name}").read_bytes(), name)


@test(each=KINDS)
def a_full_disk_is_freed_by_forget_rm_and_collect(scene, kind):
    store = filled(scene, kind)
    fill_to_the_last_byte(scene)
    put_random(scene, store, "too much", 5 << 20, code=1)
    store.command("forget", store.at("versions"), "--keep", "last=1")
    fill_to_the_last_byte(scene)
    store.command("rm", store.at("gone"))
    fill_to_the_last_byte(scene)
    # The failed put ended its lease, with the reserve's room: what it left goes at once.
    collected = store.json("collect", store.folder)
    check(collected["freed_bytes"] >= 6 << 20 and collected["open"] == 0, collected)
    check((store.folder / "reserve").stat().st_size == 8 << 20, "the reserve is not whole again")
    store.verify()
    check(store.get("kept", "fetched").read_bytes() == (scene.folder / "source of kept").read_bytes(), "kept")
    put_random(scene, store, "fits now", 5 << 20)


@test(each=KINDS)
def what_makes_room_can_be_repeated_on_a_full_disk(scene, kind):
    store = filled(scene, kind)
    fill_to_the_last_byte(scene)
    for turn in range(12):
        store.command("mv", store.at("kept"), store.at("kept"), code=None)
        store.command("rm", store.at("nothing"), code=1)
        store.command("collect", store.folder)
        fill_to_the_last_byte(scene)
    store.command("rm", store.at("gone"))
    store.command("collect", store.folder)
    store.verify()


@test(each=KINDS)
def collect_says_what_a_full_disk_keeps_it_from_freeing(scene, kind):
    """The living part of one container fits into no reserve; others give it not enough room."""
    store = small_disk(scene, kind)
    for name, gone, kept in (("large", 6, 20), ("a", 1, 1), ("b", 1, 1)):
        folder = scene.new_folder(name)
        (folder / "gone").write_bytes(scene.dice.randbytes(gone << 20))
        (folder / "kept").write_bytes(scene.dice.randbytes(kept << 20))
        # Files, not a tree, whose snapshot would keep what goes.
        store.command("put", folder / "gone", folder / "kept", store.at(f"{name}/"))
        store.command("rm", store.at(f"{name}/gone"))
    fill_to_the_last_byte(scene)
    collected = store.json("collect", store.folder, code=3)
    check(collected["rewritten"] == 2 and collected["short_of_room"] == 1, collected)
    deleted_bytes = collected["freed_bytes"] + collected["written_bytes"]
    check(deleted_bytes >= 3 << 20 and 5 << 20 < collected["not_freed_bytes"] < 7 << 20, collected)
    store.verify()
    (scene.folder / "disk" / "filler").unlink()
    check(store.json("collect", store.folder)["short_of_room"] == 0, "there is room now")
    store.verify()
    for name in ("a", "b", "large"):
        kept = store.get(f"{name}/kept", f"fetched-{name}").read_bytes()
        check(kept == (scene.folder / name / "kept").read_bytes(), name)


def check_reading(scene, store, mpi, nodes=()):
    """A program under `thalweg run` reads what was put, with these nodes or with the job's own."""
    words = launch(mpi, 2, own_program("same_as", mpi), "SD:/kept", scene.folder / "source of kept")
    store.run(words, nodes)


@test(each=KINDS, seconds=120)
def a_node_starts_on_a_full_disk_and_serves_readers(scene, kind):
    store = filled(scene, kind)
    fill_to_the_last_byte(scene)
    node = store.start_node()
    remote = store.through(node)
    check("kept" in remote.listing(), "ls")
    check(remote.get("kept", "fetched").read_bytes() == (scene.folder / "source of kept").read_bytes(), "kept")
    for mpi in MPIS:
        check_reading(scene, store, mpi, [node])
        check_reading(scene, store, mpi)
    fill_to_the_last_byte(scene)
    remote.command("rm", remote.at("gone"))
    fill_to_the_last_byte(scene)
    put_random(scene, remote, "too much", 5 << 20, code=1)
    check(any("the disk is full" in line for line in scene.log_lines()), "no word about room")
    store.command("forget", store.at("versions"), "--keep", "last=1")
    store.command("collect", store.folder)
    (scene.folder / "disk" / "filler").unlink()
    put_random(scene, remote, "fits now", 5 << 20)
    node.stop()
    store.verify()
    store.command("collect", store.folder)
    check((store.folder / "reserve").stat().st_size == 8 << 20, "the reserve is not whole again")


@test(each=KINDS, seconds=120)
def a_node_on_a_full_disk_lives_by_its_reserve(scene, kind):
    """Leases are renewed and sessions begun for longer than the reserve would last if each took new room."""
    store = filled(scene, kind)
    fill_to_the_last_byte(scene)
    node = store.start_node()
    for _ in range(100):
        store.through(node).command("ls", f"thalweg://{node.address}::")
        fill_to_the_last_byte(scene)
    check_reading(scene, store, MPIS[0], [node])
    log = (store.folder / "catalog.sqlite-wal").stat().st_size
    check(log < 2 << 20, f"the catalog's log has {log} bytes")
    node.stop()
    store.verify()


@test(each=KINDS, seconds=180)
def a_node_that_filled_the_disk_goes_on_once_there_is_room(scene, kind):
    """Nearly all of the disk is in the one container that the node had open: it is freed without a restart."""
    store = small_disk(scene, kind)
    node = store.start_node()
    remote = store.through(node)
    put_random(scene, remote, "kept", 1 << 20)
    put_random(scene, remote, "gone", 20 << 20)
    put_random(scene, remote, "too much", DISK_BYTES, code=1)
    fill_to_the_last_byte(scene)
    # Through the node, which must not take the reserve for what found no room.
    remote.command("rm", remote.at("gone"))
    fill_to_the_last_byte(scene)
    (scene.folder / "disk" / "filler").unlink()
    collected = [store.json("collect", store.folder)]

    def is_freed():
        collected.append(store.json("collect", store.folder))
        return sum(done["freed_bytes"] for done in collected) > 30 << 20

    scene.until(is_freed, "the container of the node is freed", seconds=60)
    # The container that the record of the removal went to.
    check(collected[-1]["open_bytes"] < 1 << 20, collected[-1])
    scene.until(
        lambda: not any("(deleted)" in name for name in open_files(node.process)), "the node closes deleted files", seconds=60
    )
    put_random(scene, remote, "fits now", 20 << 20)
    for name in ("kept", "fits now"):
        fetched = remote.get(name, f"fetched {name}").read_bytes()
        check(fetched == (scene.folder / f"source of {name}").read_bytes(), name)
    store.verify()
    node.stop()
    store.verify()


def open_files(process):
    folder = f"/proc/{process.pid}/fd"
    return [os.readlink(f"{folder}/{name}") for name in os.listdir(folder) if os.path.lexists(f"{folder}/{name}")]
