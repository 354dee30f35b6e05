"""A worker's cache: bounded, checked, shared, and the same after restarts. SPDX-License-Identifier: Apache-2.0"""

import concurrent.futures
import errno
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stores import Source
from worker_caches import (  # noqa: F401 (fixtures)
    SIZE,
    brought,
    cache,
    cache_of,
    content_of,
    files_of,
    item_of,
    partial_files_of,
    read_pinned,
    source,
)

from thalweg.diffusion.cache.item import Item
from thalweg.diffusion.cache.worker_cache import WorkerCache
from thalweg.diffusion.stores.origin import StoreOffer
from thalweg.diffusion.stores.store_retry import StoreRetry


@pytest.mark.parametrize(
    "item",
    [
        Item("s3://b/x"),
        Item("s3://b/x", 5),
        Item("s3://b/x", 0, 7),
        Item("5-7 s3"),
        Item("0- x", 3, 4),
        Item("a\nb", 1),
    ],
)
def test_a_key_names_one_item(item):
    assert Item.of_key(item.key) == item


def test_an_item_is_fetched_once_and_found_then(source, cache):
    arrival = cache.bring(item_of(source, 1), "store", keep=True)
    assert (arrival.bytes, arrival.source, arrival.kept, arrival.held) == (SIZE, "store", True, False)
    assert arrival.path.endswith("1.bin"), "programs go by the ending"
    assert read_pinned(cache, item_of(source, 1)) == content_of(1)
    assert cache.bring(item_of(source, 1), "store", keep=True).source == "local"
    assert len(source.fetches()) == 1 and cache.held_bytes() == SIZE and cache.lost() == []
    assert [(held.item, held.bytes) for held in cache.contents()] == [(item_of(source, 1), SIZE)]
    assert read_pinned(cache, item_of(source, 2)) is None


def test_ranges_are_items_of_their_own(source, cache):
    url = source.url("1.bin")
    for item in (Item(url, 100, 300), Item(url, 900), Item(url, 990, 2000), Item(url, 300, 300), Item(url)):
        assert brought(cache, item) == content_of(1)[item.start : item.end]
        assert read_pinned(cache, item) == content_of(1)[item.start : item.end]
    assert len(cache.contents()) == 5


def test_what_is_not_kept_is_there_until_it_is_released(source, cache):
    first = cache.bring(item_of(source, 1), "store", keep=False)
    second = cache.bring(item_of(source, 1), "store", keep=False)
    assert len(source.fetches()) == 1 and second.source == "local", "they share it"
    cache.release(first)
    assert Path(second.path).read_bytes() == content_of(1)
    cache.release(second)
    assert not os.path.exists(second.path) and cache.held_bytes() == 0 and not partial_files_of(cache)
    assert read_pinned(cache, item_of(source, 1)) is None


def test_missing_files_and_ranges_of_folders_are_errors_and_leave_nothing(source, cache):
    with pytest.raises(FileNotFoundError):
        cache.bring(Item(source.url("none")), "store", keep=True)
    with pytest.raises(IsADirectoryError):
        cache.bring(Item(source.url(""), 0, 10), "store", keep=True)
    assert cache.held_bytes() == 0 and not partial_files_of(cache)


def test_the_least_recently_used_copy_goes_first_and_is_reported(source, cache):
    for number in range(10):
        brought(cache, item_of(source, number))
    assert read_pinned(cache, item_of(source, 0)) and read_pinned(cache, item_of(source, 2))
    brought(cache, item_of(source, 10))
    brought(cache, item_of(source, 11))
    assert sorted(cache.lost()) == [item_of(source, 1).key, item_of(source, 3).key] and cache.lost() == []
    assert sum(path.stat().st_size for path in files_of(cache)) == cache.held_bytes() == 10 * SIZE


def test_what_is_pinned_stays_and_what_finds_no_room_is_not_kept(source, tmp_path):
    cache, other = cache_of(source, tmp_path, 2 * SIZE), cache_of(source, tmp_path, 2 * SIZE)
    held = [cache.bring(item_of(source, number), "store", keep=True, pin=True) for number in (1, 2)]
    # Another one is as another process.
    arrival = other.bring(item_of(source, 3), "store", keep=True)
    assert not arrival.kept and Path(arrival.path).read_bytes() == content_of(3)
    other.release(arrival)
    other.evict([item_of(source, 1).key, item_of(source, 2).key])
    assert [Path(one.path).read_bytes() for one in held] == [content_of(1), content_of(2)]
    for one in held:
        cache.release(one)
    assert cache.contents() == [] and cache.held_bytes() == 0 and not files_of(cache)
    assert cache.lost() == [], "it was ordered to"
    assert other.bring(item_of(source, 3), "store", keep=True).kept


@pytest.mark.parametrize("keep", [True, False])
def test_an_old_copy_in_use_is_not_given_out_once_the_file_was_written_anew(source, cache, keep):
    item = item_of(source, 1)
    old = cache.bring(item, "store", keep=keep, pin=True)
    source.write("1.bin", b"new")
    cache.evict([item.key])
    assert not cache.is_current(old) and cache.pin_again(item) is None and cache.pin(item) is None
    assert brought(cache, item, keep) == b"new" and brought(cache, item) == b"new"
    assert Path(old.path).read_bytes() == content_of(1), "its user keeps it"
    cache.release(old)
    assert read_pinned(cache, item) == b"new" and cache.lost() == []
    assert [path.read_bytes() for path in files_of(cache)] == [b"new"] and not partial_files_of(cache)
    assert cache.held_bytes() == 3


def test_what_a_task_writes_over_a_copy_in_use_leaves_that_copy_alone(source, cache, tmp_path):
    item = item_of(source, 1)
    old = cache.bring(item, "store", keep=True, pin=True)
    (tmp_path / "written").write_bytes(b"new")
    source.write("1.bin", b"new")
    cache.adopt(item, tmp_path / "written")
    assert read_pinned(cache, item) == b"new" and Path(old.path).read_bytes() == content_of(1)
    cache.release(old)
    assert len(files_of(cache)) == 1 and cache.held_bytes() == 3


@pytest.mark.parametrize("keep", [True, False])
def test_what_is_written_anew_while_it_comes_is_fetched_again(source, cache, keep):
    item = item_of(source, 1)
    source.switch("gate")
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        bringing = threads.submit(brought, cache, item, keep)
        while not source.fetches():
            time.sleep(0.01)
        cache.evict([item.key])
        source.switch("gate", on=False)
        assert bringing.result() == content_of(1)
    assert len(source.fetches()) == 2 and not partial_files_of(cache)
    assert cache.held_bytes() == (SIZE if keep else 0)


def test_a_folder_that_is_no_cache_is_left_alone(source, tmp_path):
    precious = tmp_path / "mine" / "items" / "a" / "precious"
    precious.parent.mkdir(parents=True)
    precious.write_text("kept")
    with pytest.raises(FileExistsError, match="is no cache"):
        WorkerCache(tmp_path / "mine", SIZE)
    assert precious.read_text() == "kept"


def test_what_is_used_when_the_cache_is_closed_may_be_released_after(source, tmp_path):
    cache = cache_of(source, tmp_path)
    held = [cache.bring(item_of(source, number), "store", keep=number == 1, pin=True) for number in (1, 2)]
    cache.close()
    for arrival in held:
        cache.release(arrival)


def test_larger_than_the_limit_is_not_kept(source, tmp_path):
    cache = cache_of(source, tmp_path, SIZE - 1)
    arrival = cache.bring(item_of(source, 1), "store", keep=True)
    assert not arrival.kept and arrival.held and cache.held_bytes() == 0


def test_it_survives_restarts_and_smaller_limits(source, tmp_path):
    cache = cache_of(source, tmp_path)
    for number in range(6):
        brought(cache, item_of(source, number))
    cache.close()
    for token in ("run 1", "run 2", ""):
        again = cache_of(source, tmp_path, token=token)
        assert len(again.contents()) == 6
        assert all(read_pinned(again, item_of(source, number)) == content_of(number) for number in range(6))
    assert len(source.fetches()) == 6
    assert len(cache_of(source, tmp_path, 3 * SIZE).contents()) == 3


def test_a_file_is_constant_in_a_run_and_looked_at_again_in_the_next(source, cache, tmp_path):
    item = item_of(source, 1)
    brought(cache, item)
    source.write("1.bin", b"other")
    assert brought(cache, item) == content_of(1)
    again = cache_of(source, tmp_path, token="run 2")
    assert again.pin(item) is None and again.lost() == [item.key]
    assert brought(again, item) == b"other"


def test_what_is_pinned_is_pinned_again_while_nobody_touched_it(source, cache):
    item = item_of(source, 1)
    brought(cache, item)
    assert cache.pin_again(item) is None
    row = cache.pin(item)
    assert cache.pin_again(item).path == row.path
    cache.unpin(row)
    cache.evict([item.key])
    assert os.path.exists(row.path), "one pin is left"
    Path(row.path).write_bytes(b"x" * SIZE)
    assert cache.pin_again(item) is None and cache.pin(item) is None
    cache.unpin(row)
    assert not files_of(cache)


def test_copies_of_what_could_change_unnoticed_serve_one_run(tmp_path):
    source = Source(tmp_path / "source", "silent")
    item = Item(source.write("x", content_of("x")))
    cache = cache_of(source, tmp_path)
    assert brought(cache, item) == content_of("x") and cache.bring(item, "store", keep=True).source == "local"
    assert cache_of(source, tmp_path, token="run 2").pin(item) is None


def test_a_store_that_does_not_answer_takes_no_copies_away(source, cache, tmp_path):
    brought(cache, item_of(source, 1))
    source.switch("gone")
    assert read_pinned(cache, item_of(source, 1)) == content_of(1)
    again = cache_of(source, tmp_path, token="run 2")
    assert again.pin(item_of(source, 1)) is None and again.lost() == []
    with pytest.raises(ConnectionError):
        again.bring(item_of(source, 1), "store", keep=True)
    source.switch("gone", on=False)
    assert again.bring(item_of(source, 1), "store", keep=True).source == "local"


def flip(path):
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [flip, truncate, Path.unlink])
def test_a_damaged_copy_is_none(source, cache, damage):
    brought(cache, item_of(source, 1))
    damage(files_of(cache)[0])
    assert cache.pin(item_of(source, 1)) is None and cache.lost() == [item_of(source, 1).key]
    assert brought(cache, item_of(source, 1)) == content_of(1)
    assert cache.held_bytes() == SIZE and len(source.fetches()) == 2


def test_a_touched_copy_that_is_still_the_same_is_one(source, cache):
    brought(cache, item_of(source, 1))
    os.utime(files_of(cache)[0], (1, 1))
    assert read_pinned(cache, item_of(source, 1)) == content_of(1) and len(source.fetches()) == 1


def test_damage_that_the_disk_says_nothing_of_is_found_in_the_next_run(source, cache, tmp_path):
    brought(cache, item_of(source, 1))
    path = files_of(cache)[0]
    seen = path.stat()
    flip(path)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    again = cache_of(source, tmp_path, token="run 2")
    assert again.pin(item_of(source, 1)) is None
    assert brought(again, item_of(source, 1)) == content_of(1)


def test_a_damaged_list_costs_time_only(source, cache, tmp_path):
    brought(cache, item_of(source, 1))
    for path in Path(cache.folder).glob("index.sqlite*"):
        path.write_bytes(b"no list" * 1000)
    again = cache_of(source, tmp_path)
    assert again.contents() == [] and not files_of(again)
    assert brought(again, item_of(source, 1)) == content_of(1)
    assert brought(cache, item_of(source, 1)) == content_of(1)
    assert again.held_bytes() == SIZE


def test_a_deleted_folder_costs_time_only(source, cache):
    brought(cache, item_of(source, 1))
    for number in (1, 2):
        shutil.rmtree(cache.folder)
        assert cache.pin(item_of(source, 1)) is None
        assert brought(cache, item_of(source, number)) == content_of(number)
        assert read_pinned(cache, item_of(source, number)) == content_of(number)
    shutil.rmtree(cache.folder)
    assert brought(cache, item_of(source, 3), keep=False) == content_of(3)


def test_on_a_full_disk_what_nobody_uses_goes(source, cache):
    for number in range(8):
        brought(cache, item_of(source, number))
    source.switch("full")
    assert brought(cache, item_of(source, 9)) == content_of(9)
    assert read_pinned(cache, item_of(source, 9)) == content_of(9)
    assert sorted(cache.lost()) == [item_of(source, number).key for number in range(4)]


def test_on_a_disk_without_room_for_one_the_cache_says_so_and_which(source, cache, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "target")

    brought(cache, item_of(source, 1))
    monkeypatch.setattr(StoreOffer, "fill", full)
    with pytest.raises(OSError, match="disk of this cache folder") as failed:
        StoreRetry(60).call("counted://x", lambda: cache.bring(item_of(source, 2), "store", keep=True))
    assert (failed.value.errno, failed.value.filename) == (errno.ENOSPC, cache.folder)


def test_with_a_list_that_cannot_be_written_files_arrive_all_the_same(source, cache, monkeypatch):
    brought(cache, item_of(source, 1))

    def full(_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("thalweg.disk_cache.shared_list.SharedList.transaction", full)
    assert brought(cache, item_of(source, 1)) == content_of(1) and len(source.fetches()) == 1
    arrival = cache.bring(item_of(source, 2), "store", keep=True)
    assert not arrival.kept and Path(arrival.path).read_bytes() == content_of(2)
    cache.release(arrival)
    assert cache.adopt(item_of(source, 3), source.folder / "3.bin") is None and not partial_files_of(cache)


def test_with_a_list_that_is_damaged_under_way_files_arrive_all_the_same(source, cache):
    brought(cache, item_of(source, 1))
    for path in Path(cache.folder).glob("index.sqlite*"):
        path.unlink()
    Path(cache.folder, "index.sqlite").write_bytes(b"no list" * 1000)
    assert cache.contents() == [] and cache.held_bytes() == 0 and cache.lost() == []
    assert brought(cache, item_of(source, 1)) == content_of(1)
    cache.evict([item_of(source, 1).key])
    assert brought(cache, item_of(source, 2)) == content_of(2)


def test_a_fetch_that_ends_early_is_an_error_and_no_copy(source, cache, monkeypatch):
    def short(self, path, target, **kwargs):
        Path(target).write_bytes(b"sho")

    with monkeypatch.context() as patch:
        patch.setattr("stores.CountedFileSystem.get_file", short)
        with pytest.raises(OSError, match="3 bytes came of 1000"):
            cache.bring(item_of(source, 1), "store", keep=True)
    assert cache.held_bytes() == 0 and not partial_files_of(cache)
    assert brought(cache, item_of(source, 1)) == content_of(1)


def test_what_a_task_wrote_is_adopted(source, cache, tmp_path):
    written = tmp_path / "written"
    written.write_bytes(b"result")
    shutil.copyfile(written, source.folder / "out")
    item = Item(source.url("out"))
    held = cache.adopt(item, written)
    assert held.bytes == 6 and read_pinned(cache, item) == b"result" and source.fetches() == []
    written.unlink()
    assert cache_of(source, tmp_path, token="run 2").bring(item, "store", keep=True).source == "local"
    later = Item(source.url("later"))
    (tmp_path / "later").write_bytes(b"later")
    cache.adopt(later, tmp_path / "later")
    assert read_pinned(cache, later) == b"later", "before it is in the store"
    # A write to it after all has not changed a copy.
    (tmp_path / "later").write_bytes(b"wrong")
    assert cache.pin(later) is None


def test_deeds_at_random_agree_with_a_dictionary(tmp_path):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    for round in range(6):
        RandomOperations(tmp_path / str(round), random.Random(f"{seed} {round}")).run(120)


class RandomOperations:
    """What is kept is known but for evictions that the cache reports itself; what is read is always right."""

    ITEMS, ROOM = 14, 6

    def __init__(self, folder, dice):
        folder.mkdir()
        self.folder, self.dice, self.runs = folder, dice, 0
        self.source = Source(folder / "source")
        for number in range(self.ITEMS):
            self.source.write(f"{number}.bin", content_of(number))
        self.cache = cache_of(self.source, folder, self.ROOM * SIZE, token="0")
        self.held, self.pinned = set(), []

    def run(self, count):
        for _ in range(count):
            operation = self.dice.choice(
                [self.bring, self.bring, self.bring, self.pin, self.unpin, self.evict, self.harm]
            )
            operation(self.dice.randrange(self.ITEMS))
            if self.dice.random() < 0.03:
                self.restart()
            self.compare()

    def bring(self, number):
        item, keep = item_of(self.source, number), self.dice.random() < 0.8
        arrival = self.cache.bring(item, "store", keep=keep, pin=True)
        assert Path(arrival.path).read_bytes() == content_of(number)
        if arrival.kept:
            assert keep or number in self.held
            self.held.add(number)
        self.cache.release(arrival)

    def pin(self, number):
        row = self.cache.pin(item_of(self.source, number))
        if row is not None:
            assert number in self.held
            self.pinned.append((number, row))

    def unpin(self, _):
        if self.pinned:
            _, row = self.pinned.pop(self.dice.randrange(len(self.pinned)))
            self.cache.unpin(row)

    def evict(self, number):
        self.cache.evict([item_of(self.source, number).key])
        assert self.cache.pin(item_of(self.source, number)) is None
        self.held.discard(number)

    def harm(self, number):
        files = [path for path in files_of(self.cache) if all(str(path) != row.path for _, row in self.pinned)]
        if files and self.dice.random() < 0.5:
            self.dice.choice([flip, truncate, Path.unlink])(self.dice.choice(files))

    def restart(self):
        self.cache.close()
        self.pinned = []
        self.runs += self.dice.random() < 0.5
        self.cache = cache_of(self.source, self.folder, self.ROOM * SIZE, token=str(self.runs))

    def compare(self):
        for key in self.cache.lost():
            self.held.discard(int(Path(Item.of_key(key).url).stem))
        listed = {int(Path(held.item.url).stem) for held in self.cache.contents()}
        assert listed <= self.held
        # Files that go as soon as they are unpinned are not listed any more.
        self.held = listed | {number for number, _ in self.pinned}
        assert self.cache.held_bytes() <= self.ROOM * SIZE
        assert sum(path.stat().st_size for path in files_of(self.cache)) <= self.ROOM * SIZE
        for number, row in self.pinned:
            assert Path(row.path).read_bytes() == content_of(number)


BRING_MUCH = """
import re, sys
from thalweg.diffusion.cache.worker_cache import Item, WorkerCache
cache = WorkerCache(sys.argv[1], "1 GB", token="t", serve="127.0.0.1")
for item in (Item(sys.argv[2]), Item(sys.argv[2], 1)):
    cache.bring(item, "store", keep=True)
    other = WorkerCache(sys.argv[3], "1 GB", token="t")
    other.bring(item, cache.address, keep=True)
print(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
"""


def test_memory_does_not_grow_with_the_file(tmp_path):
    large = tmp_path / "large"
    with open(large, "wb") as file:
        file.truncate(200 << 20)
    command = [sys.executable, "-c", BRING_MUCH, tmp_path / "cache", large, tmp_path / "other"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # The interpreter and fsspec; a piece of 8 MiB, and the buffers.
    assert int(done.stdout) << 10 < 120 << 20
