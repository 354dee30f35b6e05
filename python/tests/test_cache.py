"""The cache: bounded, shared, checked, and worth having. SPDX-License-Identifier: Apache-2.0"""

import concurrent.futures
import multiprocessing
import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from thalweg.cached import CachedFileSystem, FileChangedError
from thalweg.disk_cache.block_cache import BlockCache
from thalweg.disk_cache.limit import parse_bytes
from thalweg.disk_cache.partial_file import PartialFile

BLOCK = 1000


class CountingFileSystem(LocalFileSystem):
    """Says how many bytes were fetched from it."""

    cachable = False
    fetched = 0

    def cat_file(self, path, start=None, end=None, **kwargs):
        content = super().cat_file(path, start, end, **kwargs)
        self.fetched += len(content)
        return content


@pytest.fixture
def source():
    return CountingFileSystem()


@pytest.fixture
def cached(source, tmp_path):
    return CachedFileSystem(tmp_path / "cache", "100 kB", BLOCK, fs=source, skip_instance_cache=True)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(random.Random(1).randbytes(50_500))
    return path


def files_of(cached):
    return blocks_below(cached.cache.disk.folder)


def blocks_below(folder):
    return list(Path(folder).glob("items/??/*"))


def test_limits_are_written_as_people_do():
    assert parse_bytes("20 GB") == 20 * 10**9 and parse_bytes("1.5MiB") == 3 << 19 and parse_bytes(7) == 7
    with pytest.raises(ValueError):
        parse_bytes("much")


def test_what_was_read_is_not_fetched_again(source, cached, file):
    content = file.read_bytes()
    assert cached.cat_file(str(file), 1500, 3500) == content[1500:3500]
    assert source.fetched == 3 * BLOCK
    assert cached.cat_file(str(file), 1000, 4000) == content[1000:4000]
    assert source.fetched == 3 * BLOCK
    with cached.open(str(file)) as reading:
        reading.seek(2000)
        assert reading.read() == content[2000:]
    assert source.fetched == 49_500
    assert cached.cat_ranges([str(file)] * 2, [0, 50_000], [10, None]) == [content[:10], content[50_000:]]
    assert source.fetched == 50_500


def test_it_survives_restarts(source, cached, file):
    cached.cat_file(str(file))
    again = CachedFileSystem(cached.cache.disk.folder, "100 kB", BLOCK, fs=source, skip_instance_cache=True)
    assert again.cat_file(str(file)) == file.read_bytes()
    assert source.fetched == 50_500


def test_a_changed_file_is_fetched_anew(source, cached, file):
    cached.cat_file(str(file))
    file.write_bytes(b"other")
    assert cached.cat_file(str(file)) == b"other"


def test_a_file_that_changes_while_it_is_fetched_is_never_mixed(source, cached, file, monkeypatch):
    reading = cached.open(str(file), block_size=BLOCK)
    assert len(reading.read(10)) == 10
    file.write_bytes(b"x" * 50_500)
    reading.seek(40_000)
    with pytest.raises(FileChangedError):
        reading.read(10)
    assert cached.cat_file(str(file)) == b"x" * 50_500


def test_the_longest_unused_goes_first_and_the_limit_holds(tmp_path):
    cache = BlockCache(tmp_path, 10 * BLOCK)
    for number in range(10):
        cache.put("k", number, bytes([number]) * BLOCK)
    assert cache.get("k", 0) and cache.get("k", 2)
    for number in range(10, 15):
        cache.put("k", number, bytes([number]) * BLOCK)
        assert cache.held_bytes() == 10 * BLOCK
    held = [number for number in range(15) if cache.get("k", number)]
    assert held == [0, 2, 7, 8, 9, 10, 11, 12, 13, 14]
    assert sum(path.stat().st_size for path in blocks_below(tmp_path)) == 10 * BLOCK
    cache.put("k", 99, bytes(11 * BLOCK))
    assert cache.get("k", 99) is None and cache.get("k", 14)


def test_damaged_and_deleted_blocks_are_fetched_again(source, cached, file):
    content = file.read_bytes()
    cached.cat_file(str(file))
    damaged, deleted, cut, *_ = sorted(files_of(cached))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    deleted.unlink()
    cut.write_bytes(b"")
    before = source.fetched
    assert cached.cat_file(str(file)) == content
    assert before < source.fetched <= before + 3 * BLOCK
    assert cached.cat_file(str(file)) == content and source.fetched <= before + 3 * BLOCK


def test_a_damaged_list_and_a_deleted_folder_cost_time_only(source, cached, file):
    content = file.read_bytes()
    cached.cat_file(str(file))
    folder = Path(cached.cache.disk.folder)
    for path in folder.glob("index.sqlite*"):
        path.write_bytes(b"no list" * 1000)
    again = CachedFileSystem(folder, "100 kB", BLOCK, fs=source, skip_instance_cache=True)
    assert again.cat_file(str(file)) == content
    subprocess.run(["rm", "-r", folder], check=True)
    assert again.cat_file(str(file)) == content
    assert again.cat_file(str(file)) == content


def test_without_room_it_is_read_all_the_same(source, cached, file, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PartialFile, "write", full)
    assert cached.cat_file(str(file)) == file.read_bytes()


def read_at_random(folder, path, seed):
    """Through a cache that has room for a fifth."""
    cached = CachedFileSystem(folder, 10 * BLOCK, BLOCK, fs=LocalFileSystem(), skip_instance_cache=True)
    dice, content = random.Random(seed), Path(path).read_bytes()
    for _ in range(150):
        start = dice.randrange(len(content))
        end = start + dice.randrange(5000)
        assert cached.cat_file(path, start, end) == content[start:end]
        # When no other process is about to replace a block.
        with cached.cache.disk.index._list.transaction():
            assert sum(found.stat().st_size for found in blocks_below(folder)) <= 10 * BLOCK
    return True


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_many_processes_share_a_small_one(tmp_path, file, method):
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(4, context) as processes:
        done = [processes.submit(read_at_random, tmp_path / "shared", str(file), seed) for seed in range(4)]
        assert all(one.result() for one in done)
    assert BlockCache(tmp_path / "shared", 10 * BLOCK).held_bytes() <= 10 * BLOCK


def test_many_threads_and_a_fork_share_one(cached, file):
    content = file.read_bytes()
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        ranges = [(at, at + 3000) for at in range(0, 50_000, 250)]
        read = threads.map(lambda one: cached.cat_file(str(file), *one), ranges)
        assert list(read) == [content[start:end] for start, end in ranges]
    child = os.fork()
    if child == 0:
        os._exit(0 if cached.cat_file(str(file)) == content else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert cached.cat_file(str(file)) == content


def test_who_stands_still_while_it_keeps_a_block_keeps_nobody_from_reading(tmp_path, source, file):
    def read(seconds):
        cache = CachedFileSystem(tmp_path / "cache", "100 kB", BLOCK, fs=source, skip_instance_cache=True)
        keep = cache.cache._put
        cache.cache._put = lambda *block: time.sleep(seconds) or keep(*block)
        return cache.cat_file(str(file), 0, 10)

    stopped = multiprocessing.get_context("fork").Process(target=read, args=[30])
    stopped.start()
    try:
        time.sleep(0.5)
        begun = time.monotonic()
        assert read(0) == file.read_bytes()[:10]
        assert time.monotonic() - begun < 10
    finally:
        stopped.kill()
        stopped.join()


def test_files_left_by_the_dead_are_swept(tmp_path):
    BlockCache(tmp_path, 10 * BLOCK).put("k", 1, b"1")
    unlisted, partial = tmp_path / "items" / "ab" / "abcdef", tmp_path / "partial" / "x"
    unlisted.parent.mkdir(exist_ok=True)
    unlisted.write_bytes(bytes(5000))
    partial.write_bytes(bytes(5000))
    cache = BlockCache(tmp_path, 10 * BLOCK)
    assert cache.get("k", 1) == b"1"
    assert not unlisted.exists() and not partial.exists()


def test_files_of_the_user_in_the_cache_folder_stay(tmp_path):
    """A folder that was named by mistake, with subfolders."""
    mine = tmp_path / "data" / "mine"
    mine.parent.mkdir()
    mine.write_text("kept")
    BlockCache(tmp_path, 10 * BLOCK).put("k", 1, b"1")
    assert mine.read_text() == "kept"


def test_a_cache_folder_is_its_users_alone(tmp_path):
    BlockCache(tmp_path / "new", BLOCK)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_evictions_leave_nothing_behind_in_the_index(tmp_path):
    cache = BlockCache(tmp_path, 10 * BLOCK)
    for number in range(50):
        cache.put("k", number, bytes(BLOCK))
    assert cache.disk.index.lost() == [] and len(cache.disk.index.all()) == 10


def test_stores_are_read_through_it_by_chained_urls(fs, folder, tmp_path):
    content = random.Random(2).randbytes(3_000_000)
    fs.pipe_file(f"{folder}/x", content)
    options = {"folder": str(tmp_path / "cache"), "limit": "10 MB"}
    place = "thalwegcache::" + fs.unstrip_protocol(f"{folder}/x")
    with fsspec.open(place, thalwegcache=options) as file:
        # An open file stays the version it was.
        assert file.read(10) == content[:10]
        fs.pipe_file(f"{folder}/x", b"new")
        assert file.read() == content[10:]
    assert fsspec.open(place, thalwegcache=options).open().read() == b"new"
    cached = fsspec.filesystem("thalwegcache", fs=fs, **options)
    fs.cp_file(f"{folder}/x", f"{folder}/y")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(fs), "cat_file", None)
        assert cached.cat_file(f"{folder}/y") == b"new", "equal contents are one"
    cached.pipe_file(f"{folder}/z", b"through")
    assert fs.cat_file(f"{folder}/z") == b"through" and cached.ls(folder, detail=False) == fs.ls(folder, detail=False)


def test_a_child_that_is_forked_while_other_threads_fill_the_cache_waits_for_none_of_them(tmp_path):
    for number in range(50):
        (tmp_path / f"{number}").write_bytes(os.urandom(BLOCK))
    is_over = threading.Event()

    def read():
        fs = CachedFileSystem(fs=LocalFileSystem(), folder=str(tmp_path / "cache"), limit=20 * BLOCK)
        return all(len(fs.cat_file(str(tmp_path / f"{number}"))) == BLOCK for number in range(50))

    def read_on():
        while not is_over.is_set():
            read()

    threads = [threading.Thread(target=read_on, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                os._exit(0 if read() else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
