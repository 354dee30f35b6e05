"""The stores this process has open: one for each address and its credentials, shared by all its threads and file systems.

A store belongs to the process that opened it. After a fork the child opens its own; what it inherited is never touched
again, nor ended with it. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import atexit
import errno
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from thalweg._thalweg import Store

_lock = threading.Lock()
_stores: dict[Location, Store] = {}
_inherited: list[dict[Location, Store]] = []


class Location(NamedTuple):
    """Where a store is, and the files with the secret of its node and the authorities of the node's certificate; without
    them it is as the environment says."""

    address: str
    secret_file: str | None = None
    tls_ca: str | None = None


def store_of(location: Location) -> Store:
    """The open store there; opens it the first time."""
    with _lock:
        store = _stores.get(location)
        if store is None:
            if not _stores:
                _close_with_workers()
            store = _stores[location] = Store(os.fsencode(location.address), location.secret_file, location.tls_ca)
        return store


@contextmanager
def using(location: Location) -> Iterator[Store]:
    """The open store for one deed; what is looked up during it stays readable until its end. One that is of no use any
    more is opened anew the next time: its node is gone, or was replaced while it held what was written (`ESTALE`), or
    its lease ran out while the machine slept (`ESTALE`)."""
    store = store_of(location)
    hold = store.hold()
    try:
        yield store
    except OSError as error:
        if isinstance(error, ConnectionError) or error.errno == errno.ESTALE:
            with _lock:
                if _stores.get(location) is store:
                    del _stores[location]
        raise
    finally:
        del hold


def close_all() -> None:
    """Ends this process's sessions, leaving nothing for others to tidy. Stores are opened again when they are used."""
    with _lock:
        stores = list(_stores.values())
        _stores.clear()
    for store in stores:
        try:
            store.close()
        except OSError:
            # The lease runs out by itself, and collection tidies up.
            pass


def _close_with_workers() -> None:
    # Workers of multiprocessing end without running atexit; this is theirs.
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, close_all, exitpriority=0)


def _begin_child() -> None:
    global _lock, _stores
    _inherited.append(_stores)
    _lock, _stores = threading.Lock(), {}


atexit.register(close_all)
os.register_at_fork(after_in_child=_begin_child)
