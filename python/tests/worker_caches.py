"""A source of small files and caches of it, for tests of workers' caches. SPDX-License-Identifier: Apache-2.0"""

import random
from pathlib import Path

import pytest
from stores import Source

from thalweg.diffusion.cache.item import Item
from thalweg.diffusion.cache.worker_cache import WorkerCache

SIZE = 1000


def content_of(name, size=SIZE):
    return random.Random(str(name)).randbytes(size)


@pytest.fixture
def source(tmp_path):
    source = Source(tmp_path / "source")
    for number in range(12):
        source.write(f"{number}.bin", content_of(number))
    return source


def cache_of(source, tmp_path, limit=10 * SIZE, token="run 1", **options):
    return WorkerCache(tmp_path / "cache", limit, token=token, storage_options=source.options, **options)


@pytest.fixture
def cache(source, tmp_path):
    cache = cache_of(source, tmp_path)
    yield cache
    cache.close()


def item_of(source, number):
    return Item(source.url(f"{number}.bin"))


def read_pinned(cache, item):
    row = cache.pin(item)
    if row is None:
        return None
    try:
        return Path(row.path).read_bytes()
    finally:
        cache.unpin(row)


def brought(cache, item, keep=True):
    """The bytes that a task reads of it."""
    arrival = cache.bring(item, "store", keep=keep, pin=True)
    try:
        return Path(arrival.path).read_bytes()
    finally:
        cache.release(arrival)


def files_of(cache):
    return [path for path in Path(cache.folder, "items").rglob("*") if path.is_file()]


def partial_files_of(cache):
    return list(Path(cache.folder, "partial").glob("*"))
