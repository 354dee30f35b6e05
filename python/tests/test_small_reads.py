"""Small reads read and hash little. SPDX-License-Identifier: Apache-2.0"""

import os
import random

import pytest
from fsspec.implementations.local import LocalFileSystem

from thalweg.cached import CachedFileSystem
from thalweg.disk_cache import block_cache
from thalweg.read_ahead import ReadAhead

BLOCK = 100_000


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(random.Random(1).randbytes(10 * BLOCK))
    return path


@pytest.fixture
def cached(tmp_path, file, monkeypatch):
    """A warm cache, as a process finds it some time later."""
    monkeypatch.setattr(block_cache, "_SETTLED_NS", 0)
    cached = CachedFileSystem(tmp_path / "cache", "100 MB", BLOCK, fs=LocalFileSystem(), skip_instance_cache=True)
    cached.cat_file(str(file))
    return cached


@pytest.fixture
def digested(monkeypatch):
    """The lengths of what is hashed from now on."""
    lengths, digest = [], block_cache._digest

    def counted(content):
        lengths.append(len(content))
        return digest(content)

    monkeypatch.setattr(block_cache, "_digest", counted)
    return lengths


def test_a_process_checks_each_cached_block_once(cached, file, digested):
    content, dice = file.read_bytes(), random.Random(2)
    with cached.open(str(file)) as reading:
        for _ in range(300):
            start = dice.randrange(len(content))
            reading.seek(start)
            assert reading.read(4096) == content[start : start + 4096]
            assert cached.cat_file(str(file), start, start + 10) == content[start : start + 10]
    assert len(digested) <= 10


def test_a_block_that_changes_is_checked_again(cached, file, digested):
    content = file.read_bytes()
    assert cached.cat_file(str(file)) == content and cached.cat_file(str(file)) == content
    assert len(digested) == 10
    for path in (
        block
        for folder in os.scandir(os.path.join(cached.cache.disk.folder, "items"))
        if folder.is_dir()
        for block in os.scandir(folder)
    ):
        with open(path, "r+b") as block:
            block.write(b"damaged")
    assert cached.cat_file(str(file)) == content


class Source:
    """Counts what is fetched of it."""

    def __init__(self, size):
        self.content, self.fetched = random.Random(3).randbytes(size), []

    def fetch(self, start, end):
        self.fetched.append(end - start)
        return self.content[start:end]


def test_a_file_read_here_and_there_is_not_read_ahead():
    source, dice = Source(10_000_000), random.Random(4)
    ahead = ReadAhead(5 << 20, source.fetch, len(source.content))
    for _ in range(100):
        start = dice.randrange(len(source.content))
        assert ahead._fetch(start, start + 4096) == source.content[start : start + 4096]
    assert max(source.fetched) <= 64 << 10


def test_a_file_read_from_start_to_end_is_read_ahead_more_and_more():
    source = Source(30_000_000)
    ahead = ReadAhead(5 << 20, source.fetch, len(source.content))
    read = b"".join(ahead._fetch(start, start + 1000) for start in range(0, len(source.content), 1000))
    assert read == source.content and sum(source.fetched) < 1.01 * len(read)
    assert max(source.fetched) == 5 << 20 and len(source.fetched) < 20


@pytest.mark.parametrize("length", [300_000, 1 << 20, 4 << 20, 7 << 20])
def test_no_byte_of_a_file_read_from_start_to_end_is_fetched_twice(length):
    source = Source(60_000_000)
    ahead = ReadAhead(5 << 20, source.fetch, len(source.content))
    read = b"".join(ahead._fetch(start, start + length) for start in range(0, len(source.content), length))
    assert read == source.content and sum(source.fetched) == len(read)


@pytest.mark.parametrize("seed", range(20))
def test_ranges_are_right_however_they_follow_each_other(seed):
    dice, source = random.Random(seed), Source(300_000)
    ahead, start = ReadAhead(dice.choice([1000, 70_000, 5 << 20]), source.fetch, len(source.content)), 0
    for _ in range(200):
        start = dice.choice([start, dice.randrange(310_000)])
        end = start + dice.choice([0, 1, 100, 5000, 100_000])
        assert ahead._fetch(start, end) == source.content[start:end]
        start = end
