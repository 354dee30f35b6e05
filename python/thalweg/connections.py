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
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from thalweg._thalweg import Store
from thalweg.store_error import store_error
from thalweg.url import SCHEME

# Time that nodes get to end this process's sessions when it exits: one that is gone would be tried for 15 s.
_EXIT_TIMEOUT_S = 1.0

# Garbage is collected anywhere, also in the midst of what follows, and stores files that were never closed: so locks are
# reentrant, and stores that are open are looked up without any.
_lock = threading.RLock()
_opening: dict[Location, threading.RLock] = {}
_stores: dict[Location, _Known] = {}
_inherited: list[dict[Location, _Known]] = []
_before_closing: list[Callable[[], None]] = []


class Location(NamedTuple):
    """Where a store is, and the files with the secret of its node and the authorities of the node's certificate; without
    them it is as the environment says."""

    address: str
    secret_file: str | None = None
    tls_ca: str | None = None


class _Settings(NamedTuple):
    """The file with a store's settings, which is written once."""

    device: int
    inode: int
    modified_ns: int


class _Known(NamedTuple):
    store: Store
    settings: _Settings | None
    is_read_only: bool


def store_of(location: Location) -> Store:
    """Returns the open store there; opens it the first time, and again when another store lies there now."""
    known = _current(location)
    if known is not None:
        return known.store
    with _opening.setdefault(location, threading.RLock()):
        # Another thread may have opened it meanwhile.
        known = _current(location)
        return _open(location) if known is None else known.store


def _current(location: Location) -> _Known | None:
    known = _stores.get(location)
    if known is None:
        return None
    found = _settings_of(location)
    return known if found is None or known.settings == found else None


def _open(location: Location) -> Store:
    found = _settings_of(location)
    if not _stores:
        _close_with_workers()
    # Before the directory's next store is opened, so that nothing of the removed one is in its way.
    _stores.pop(location, None)
    # As the store finds out for itself when it is opened.
    is_node = location.address.startswith(SCHEME)
    is_read_only = not is_node and os.path.exists(location.address) and not os.access(location.address, os.W_OK)
    store = Store(os.fsencode(location.address), location.secret_file, location.tls_ca)
    _stores[location] = _Known(store, found, is_read_only)
    return store


def check_writable(location: Location, path: str) -> None:
    """Raises if the open store was opened for reading, since this process may not write to its directory."""
    known = _stores.get(location)
    if known is not None and known.is_read_only:
        raise store_error(errno.EROFS, path, f"the store in {location.address} can only be read here")


def _settings_of(location: Location) -> _Settings | None:
    """Returns an identity of the store in a directory, unlike that of another made there later, if that is known."""
    if location.address.startswith(SCHEME):
        return None
    try:
        found = os.stat(os.path.join(location.address, "store.toml"))
    except (FileNotFoundError, NotADirectoryError):
        return _Settings(-1, -1, -1)
    except OSError:
        # Says nothing of the store that was opened.
        return None
    return _Settings(found.st_dev, found.st_ino, found.st_mtime_ns)


@contextmanager
def using(location: Location) -> Iterator[Store]:
    """Gives the open store for one operation; what is looked up during it stays readable until its end. A store that is of
    no use any more is opened again the next time: its node is gone, or was replaced while it held what was written (`ESTALE`), or
    its lease ran out while the machine slept (`ESTALE`)."""
    store = store_of(location)
    hold = store.hold()
    try:
        yield store
    except OSError as error:
        if isinstance(error, ConnectionError) or error.errno == errno.ESTALE:
            with _lock:
                known = _stores.get(location)
                if known is not None and known.store is store:
                    del _stores[location]
        raise
    finally:
        del hold


def close_all(timeout_s: float | None = None) -> None:
    """Ends this process's sessions, leaving nothing for others to tidy. Stores are opened again when they are used. Nodes
    together get `timeout_s`."""
    with _lock:
        stores = list(_stores.items())
        _stores.clear()
    give_up = None if timeout_s is None else time.monotonic() + timeout_s
    for location, known in stores:
        try:
            if give_up is None or not location.address.startswith(SCHEME):
                known.store.close()
            else:
                known.store.close(max(0.0, give_up - time.monotonic()))
        except OSError:
            # The lease runs out by itself, and collection tidies up.
            pass


def _close_with_workers() -> None:
    # Workers of multiprocessing end without running atexit; this is theirs.
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _close_at_exit, exitpriority=0)


def before_closing(call: Callable[[], None]) -> None:
    """Has a function called when the program ends, while stores are open."""
    _before_closing.append(call)


def _close_at_exit() -> None:
    for call in _before_closing:
        call()
    close_all(_EXIT_TIMEOUT_S)


def _begin_child() -> None:
    global _lock, _opening, _stores
    _inherited.append(_stores)
    _lock, _opening, _stores = threading.RLock(), {}, {}


atexit.register(_close_at_exit)
os.register_at_fork(after_in_child=_begin_child)
