"""A folder of copies that any number of processes of one user share: never more bytes than its limit.

Copies are files and folders below `items`, listed in `index.sqlite`. Arriving items lie in `partial` until their room is
reserved and their digests known. Used copies are pinned, and stay until they are released or the process ends. Each
copy has a path of its own: a newer copy of the same key does not take an older one from under who uses it.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from thalweg.disk_cache.index import CacheIndex, Row, stamp_of
from thalweg.disk_cache.limit import parse_bytes
from thalweg.disk_cache.locks import Locks
from thalweg.disk_cache.partial_file import Digest, Partial, new_partial, sweep
from thalweg.disk_cache.pins import Pins
from thalweg.disk_cache.private_folder import make_private, refuse_link
from thalweg.error_code import Coded, coded

_FULL = (errno.ENOSPC, errno.EDQUOT)
_INDEX, _FETCH_LOCKS, _PIN_LOCKS = "index.sqlite", "fetches.lock", "pins.lock"

_Result = TypeVar("_Result")


class CacheDiskFull(Coded, OSError):
    """The disk of the cache's folder has no room for what is to come, with nothing there that could go."""

    code = "TW-303"


class Outdated(Exception):
    """The item was evicted while it came: it may be older than what is in the store by now."""


class DiskCache:
    """Copies by key, in `folder`, of `limit` bytes (`20 GB`) at most.

    Parameters
    ----------
    run:
        Names the run this process works for; copies that arrive are marked as checked and allowed in it.
    reports_losses:
        Whether a caller asks `index.lost()` for what was evicted.
    """

    def __init__(
        self, folder: str | os.PathLike[str], limit: int | str, run: str = "", *, reports_losses: bool = False
    ) -> None:
        self.folder = os.path.abspath(folder)
        make_private(self.folder)
        _refuse_what_is_no_cache(self.folder)
        self._partial_folder = os.path.join(self.folder, "partial")
        sweep(self._partial_folder)
        # Held by the one that brings a key.
        self.fetches = Locks(os.path.join(self.folder, _FETCH_LOCKS))
        self._pin_locks = Locks(os.path.join(self.folder, _PIN_LOCKS))
        path = os.path.join(self.folder, _INDEX)
        self.index = CacheIndex(path, parse_bytes(limit), run, self._pin_locks, self.fetches, reports_losses)
        self._reset_pins()
        _open_caches.add(self)

    # Pins.

    def pin(self, key: str, is_valid: Callable[[Row], bool]) -> Row | None:
        """Returns a valid copy, which stays until it is unpinned; None when there is none."""
        if self._evicting:
            self.finish_evicting()
        begun = self._evictions
        found = self.index.find(key)
        if found is None:
            return None
        self._pins.add(found.path)
        # Only a copy that is listed now stays: before, it could still be evicted.
        row = self.index.find(key)
        if row is not None and row.path == found.path and is_valid(row):
            self.index.note(key)
            with self._mutex:
                if begun == self._evictions:
                    self._in_use[key] = row
            return row
        self.unpin(found)
        return None

    def pin_again(self, key: str) -> Row | None:
        """Pins a copy that this process has pinned already, without asking the index; None where only that knows."""
        row = self._in_use.get(key)
        if row is None or not self._pins.add_again(row.path):
            return None
        if row.stamp and stamp_of(row.path) == row.stamp:
            return row
        self.unpin(row)
        return None

    def unpin(self, row: Row) -> None:
        """Releases a pin. The last one of a copy that is to be evicted evicts it."""
        if self._pins.remove(row.path):
            if self._in_use.get(row.key, row).path == row.path:
                self._in_use.pop(row.key, None)
            self.index.note(row.key)
            self.index.released(row)

    def is_in_use(self, row: Row) -> bool:
        """Whether a copy that this process has pinned is the one that others get, too."""
        in_use = self._in_use.get(row.key)
        return in_use is not None and in_use.path == row.path

    def begin_evicting(self, keys: list[str]) -> None:
        """From now on no copy of these is given out, nor is one that is on its way: it raises `Outdated` when it is to be
        listed. A copy in use stays for those who have it. Does not wait; `finish_evicting` removes them."""
        with self._mutex:
            self._evictions += 1
            self._evicting.extend(keys)
            for key in keys:
                self._in_use.pop(key, None)
                self._arriving.discard(key)

    def finish_evicting(self) -> None:
        with self._eviction:
            keys = list(self._evicting)
            if keys:
                self.index.evict(keys)
            # Not before they are gone: until then, who looks for one waits here.
            del self._evicting[: len(keys)]

    # Arrivals.

    @contextmanager
    def arriving(self, key: str, ending: str, is_folder: bool = False) -> Iterator[Partial]:
        """Yields a new file or folder for `commit`. An exception removes it and gives back the room reserved for it."""
        make_private(self.folder)
        partial = new_partial(self._partial_folder, ending, is_folder)
        try:
            yield partial
        except BaseException:
            partial.discard()
            self.index.cancel(key)
            raise

    @contextmanager
    def bringing(self, key: str) -> Iterator[None]:
        """Alone, until what is brought is listed or not; others of the key wait for it."""
        with self.fetches.hold(key):
            with self._mutex:
                self._arriving.add(key)
            try:
                yield
            finally:
                self._arriving.discard(key)

    def check_current(self, key: str) -> None:
        """Raises `Outdated` where the key was evicted since it is being brought."""
        if key not in self._arriving:
            raise Outdated

    def commit(self, key: str, partial: Partial, digest: Digest, version: str | None, ending: str) -> Row | None:
        """Lists what has arrived, pinned. None: the room reserved for it was taken away, and it stays partial."""
        path = self.index.new_path(key, ending)
        self._pins.add(path)
        row = self.index.commit(key, path, partial, digest, version)
        if row is None:
            self._pins.remove(path)
            return None
        with self._mutex:
            is_current = key in self._arriving
            if is_current:
                self._in_use[key] = row
        if not is_current:
            self.index.evict([key])
            self.unpin(row)
            raise Outdated
        return row

    def freeing_when_full(self, act: Callable[[], _Result]) -> _Result:
        """Acts. On a disk that has less room than the limit says, half of the unused copies go, then all of them, and it acts
        again. Raises `CacheDiskFull` when that does not help."""
        for share in (2, 1):
            try:
                return act()
            except OSError as error:
                if error.errno not in _FULL:
                    raise
            self.index.free(self.index.held_bytes() // share)
        try:
            return act()
        except OSError as error:
            if error.errno not in _FULL:
                raise
            why = "no room on the disk of this cache folder, also without all unused copies; make room, or name another folder"
            raise CacheDiskFull(error.errno, why, self.folder) from error

    # Processes.

    def close(self) -> None:
        """Releases all pins."""
        self._pins.clear()

    def _reset_pins(self) -> None:
        self._pins = Pins(self._pin_locks)
        self._mutex = threading.Lock()
        # Rows of what is pinned, as they were when it was checked, and are to be given out.
        self._in_use: dict[str, Row] = {}
        # Keys that are being brought, and were not evicted since; and those that are to be evicted.
        self._arriving: set[str] = set()
        self._evicting: list[str] = []
        self._eviction = threading.Lock()
        self._evictions = 0

    def reset_after_fork(self) -> None:
        """The pins are the parent's."""
        self._pins.leave_to_parent()
        self._reset_pins()


def _refuse_what_is_no_cache(folder: str) -> None:
    """A cache removes what its index does not list: not in a folder that something else has filled."""
    here = {entry.name for entry in os.scandir(folder)}
    if here & {"items", "partial"} and not here & {_INDEX, _FETCH_LOCKS, _PIN_LOCKS}:
        raise coded(
            FileExistsError(f"{folder} has a folder 'items' or 'partial' and is no cache; name another folder for it"),
            "TW-319",
        )
    for name in ("items", "partial"):
        refuse_link(os.path.join(folder, name))


_open_caches: weakref.WeakSet[DiskCache] = weakref.WeakSet()


def _reset_after_fork() -> None:
    for cache in list(_open_caches):
        cache.reset_after_fork()


os.register_at_fork(after_in_child=_reset_after_fork)
