"""A worker's cache that several processes and threads share. SPDX-License-Identifier: Apache-2.0"""

import concurrent.futures
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stores import Source
from worker_caches import (  # noqa: F401 (fixtures)
    SIZE,
    brought,
    cache_of,
    content_of,
    files_of,
    item_of,
    partial_files_of,
    read_pinned,
    source,
)

from thalweg.diffusion.cache.item import Item


def work_at_random(folder, seed, limit, count):
    """A process of a worker: brings and reads, and sees nothing wrong."""
    dice, source = random.Random(seed), Source(Path(folder) / "source")
    cache = cache_of(source, Path(folder), limit)
    for _ in range(count):
        number = dice.randrange(12)
        assert brought(cache, item_of(source, number), keep=dice.random() < 0.9) == content_of(number)
        assert read_pinned(cache, item_of(source, number)) in (None, content_of(number))
        if dice.random() < 0.1:
            cache.evict([item_of(source, dice.randrange(12)).key])
    return True


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_many_processes_share_a_small_one(source, tmp_path, method):
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(4, context) as processes:
        done = [processes.submit(work_at_random, tmp_path, seed, 5 * SIZE, 100) for seed in range(4)]
        assert all(one.result() for one in done)
    cache = cache_of(source, tmp_path, 5 * SIZE)
    assert sum(path.stat().st_size for path in files_of(cache)) == cache.held_bytes() <= 5 * SIZE
    assert not partial_files_of(cache)


def bring_all(folder, seed):
    source = Source(Path(folder) / "source")
    cache = cache_of(source, Path(folder), 12 * SIZE)
    numbers = random.Random(seed).sample(range(12), 12)
    return all(brought(cache, item_of(source, number)) == content_of(number) for number in numbers)


def test_processes_and_threads_that_want_the_same_share_one_fetch(source, tmp_path):
    with concurrent.futures.ProcessPoolExecutor(4, multiprocessing.get_context("fork")) as processes:
        assert all(processes.map(bring_all, [tmp_path] * 8, range(8)))
    assert len(source.fetches()) == 12
    cache = cache_of(source, tmp_path / "threads", 12 * SIZE)
    source.switch("gate")
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        done = [threads.submit(brought, cache, item_of(source, 1), True) for _ in range(8)]
        while len(source.fetches()) < 13:
            time.sleep(0.01)
        source.switch("gate", on=False)
        assert [one.result() for one in done] == [content_of(1)] * 8
    assert len(source.fetches()) == 13


BRING_ONE = """
import sys
sys.path.insert(0, sys.argv[3])
from pathlib import Path
from test_worker_cache import *
source = Source(Path(sys.argv[1]) / "source")
cache = cache_of(source, Path(sys.argv[1]), int(sys.argv[2]))
held = cache.bring(item_of(source, 2), "store", keep=True, pin=True)
print("pinned", flush=True)
sys.stdin.readline()
brought(cache, item_of(source, 1))
"""


@pytest.mark.parametrize("later", ["on", "restart"])
def test_a_process_killed_midway_leaves_neither_room_nor_files_nor_pins(source, tmp_path, later):
    cache = cache_of(source, tmp_path, 2 * SIZE)
    command = [sys.executable, "-c", BRING_ONE, tmp_path, str(2 * SIZE), Path(__file__).parent]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "pinned\n"
    source.switch("gate")
    child.stdin.write("\n")
    child.stdin.flush()
    while cache.held_bytes() < 2 * SIZE and child.poll() is None:
        time.sleep(0.01)
    arrival = cache.bring(Item(source.url("3.bin"), 0, SIZE), "store", keep=True)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdin.close()
    child.stdout.close()
    source.switch("gate", on=False)
    assert not arrival.kept, "all was pinned or on its way"
    cache.release(arrival)
    if later == "restart":
        cache = cache_of(source, tmp_path, 2 * SIZE)
        assert not partial_files_of(cache) and cache.held_bytes() == SIZE
    for number in (3, 4):
        assert brought(cache, item_of(source, number)) == content_of(number)
    assert {held.item for held in cache.contents()} == {item_of(source, 3), item_of(source, 4)}
    assert len(files_of(cache)) == 2
    assert brought(cache, item_of(source, 1)) == content_of(1)


def test_a_forked_child_lets_go_of_nothing_of_its_parents(source, tmp_path):
    cache = cache_of(source, tmp_path, 2 * SIZE, serve="127.0.0.1")
    item = item_of(source, 1)
    held = cache.bring(item, "store", keep=True, pin=True)
    temporary = cache.bring(item_of(source, 2), "store", keep=False)
    child = os.fork()
    if child == 0:
        cache.release(held)
        cache.evict([item.key])
        good = brought(cache, item_of(source, 3)) == content_of(3) and cache.address == ""
        cache.close()
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert Path(held.path).read_bytes() == content_of(1) and Path(temporary.path).read_bytes() == content_of(2)
    cache.release(held)
    cache.release(temporary)
    assert [one.item for one in cache.contents()] == [item_of(source, 3)], "the child evicted it"
    cache.close()
