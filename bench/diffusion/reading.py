"""How a rival's task gets a file: always with fsspec's http, with or without fsspec's cache of whole files.

SPDX-License-Identifier: Apache-2.0
"""

import functools
import os

import fsspec


def load(address):
    return from_store(address)[0]


def from_store(address):
    """One GET: fsspec's quickest way to a whole file."""
    return _http().cat_file(address), "store"


def from_filecache(folder, address):
    """A folder a process, which is a worker. It has no limit: fsspec knows none.

    `cat`, as `open` asks first with a GET of its own whether the file exists.
    """
    cache = _filecache(os.path.join(folder, str(os.getpid())))
    source = "local" if cache._check_file(address) else "store"
    return cache.cat(address), source


def from_joblib(folder, address):
    """joblib.Memory, which all processes of a machine share."""
    loaded = _memory(folder)
    source = "local" if loaded.check_call_in_cache(address) else "store"
    return loaded(address), source


@functools.lru_cache(maxsize=1)
def _memory(folder):
    import joblib

    return joblib.Memory(folder, verbose=0).cache(load)


@functools.cache
def _http():
    return fsspec.filesystem("http")


@functools.lru_cache(maxsize=1)
def _filecache(folder):
    os.makedirs(folder, exist_ok=True)
    return fsspec.filesystem("filecache", target_protocol="http", cache_storage=folder, skip_instance_cache=True)
