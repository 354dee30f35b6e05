"""A worker's cache: the copies of inputs that its tasks find on this machine.

One folder for all threads and processes of a worker, of never more bytes than its limit, that survives restarts. What
is fetched goes straight to the disk, its digest is taken there, and a copy is given out only while the disk says that
it was not touched since; otherwise, and at its first use in a run, it is compared with its digest and with its version
in the store. Whatever dies, fills up, or is deleted or damaged, costs another fetch and no more.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import os
import ssl
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NamedTuple

from thalweg.diffusion.cache.item import Item
from thalweg.diffusion.peers.client import PeerFailed, PeerOffer, Peers
from thalweg.diffusion.peers.message import Reply
from thalweg.diffusion.peers.server import PeerServer, Served, open_served
from thalweg.diffusion.stores.origin import Origin, StoreOffer, ending_of
from thalweg.disk_cache.disk_cache import DiskCache, Outdated
from thalweg.disk_cache.index import Row, stamp_of
from thalweg.disk_cache.partial_file import Digest, Partial, digest_of

__all__ = ["Arrival", "Held", "Item", "PeerFailed", "WorkerCache"]


class Tls(NamedTuple):
    """For the side that serves, and the one that asks."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class Held(NamedTuple):
    item: Item
    bytes: int
    digest: Digest
    version: str | None = None


class Arrival(NamedTuple):
    """An item that is here, at `path`. `source` is "local", "peer" or "store". `kept` ones stay until they are evicted,
    others until they are released; `held` ones are to be released."""

    path: str
    bytes: int
    digest: Digest
    source: str
    seconds: float
    item: Item
    kept: bool
    held: bool
    version: str | None = None
    row: Row | None = None


class _Temporary:
    """A copy that is not kept, while it is used."""

    def __init__(self, partial: Partial, digest: bytes, version: str | None) -> None:
        self.partial, self.digest, self.version, self.users = partial, digest, version, 1

    def arrival(self, item: Item, source: str) -> Arrival:
        path, size = self.partial.path, self.partial.size()
        return Arrival(path, size, self.digest, source, 0, item, False, True, self.version)


class _Order(NamedTuple):
    """An item to fetch, and how."""

    item: Item
    source: str
    keep: bool
    digest: Digest | None
    hold: bool


class WorkerCache:
    """The copies in `folder`, of `limit` bytes (`20 GB`) at most.

    Parameters
    ----------
    token:
        The run's, the same on all its workers; by it peers know each other, and copies the run they serve.
    serve:
        `host` or `host:port` of this worker where peers may ask; nowhere by default.
    peer_bytes_per_s:
        What all peers together take from here at most.
    storage_options:
        fsspec's, for the store.
    tls:
        With which peers speak to each other, if they are to.
    stall_timeout_s:
        A call to the store fails when nothing is heard of it for so long; as long as fsspec's own timeout by default.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        limit: int | str,
        *,
        token: str = "",
        serve: str | None = None,
        peer_bytes_per_s: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        stall_timeout_s: float | None = None,
        tls: Tls | None = None,
    ) -> None:
        self._run = _run_of(token)
        self._origin = Origin(storage_options, stall_timeout_s)
        self._disk = DiskCache(folder, limit, self._run, reports_losses=True)
        self._index = self._disk.index
        self.folder = self._disk.folder
        self._peers = Peers(token, tls=None if tls is None else tls.client)
        self._reset_process_state()
        self._server: PeerServer | None = None
        if serve is not None:
            server_tls = None if tls is None else tls.server
            self._server = PeerServer(serve, token, self._open_for_peer, peer_bytes_per_s, server_tls)
        _caches.add(self)

    @property
    def address(self) -> str:
        """`host:port` where peers are served, "" when they are not."""
        return self._server.address if self._server is not None else ""

    def held_bytes(self) -> int:
        """The bytes of copies and of room reserved for fetches."""
        return self._index.held_bytes()

    def contents(self) -> list[Held]:
        """The copies: also of earlier runs, then not yet checked."""
        return [Held(Item.of_key(row.key), row.bytes, row.digest or b"") for row in self._index.all()]

    def lost(self) -> list[str]:
        """The copies evicted without an order, by any process of the worker, since the last call."""
        return self._index.lost()

    def allow(self, keys: Iterable[str]) -> None:
        """Lets peers fetch them. Copies that come in this run are served anyway."""
        self._index.allow(keys, self._run)

    def evict(self, keys: list[str]) -> None:
        """Removes them; a pinned copy goes when it is released, and no other task gets it."""
        self.begin_evicting(keys)
        self.finish_evicting()

    def begin_evicting(self, keys: list[str]) -> None:
        """No content that came before is given out from now on, also none that is on its way. Does not wait."""
        self._disk.begin_evicting(keys)
        with self._mutex:
            for key in keys:
                self._shareable.pop(key, None)

    def finish_evicting(self) -> None:
        self._disk.finish_evicting()

    # Copies that are here

    def pin(self, item: Item) -> Row | None:
        """A copy, which stays until it is unpinned as often; None when there is none."""
        return self._disk.pin(item.key, lambda row: self._is_valid(row, item))

    def pin_again(self, item: Item) -> Row | None:
        """Pins, as `pin` does, a copy that this process has pinned already, without asking the list; None where only
        that knows."""
        return self._disk.pin_again(item.key)

    def unpin(self, row: Row) -> None:
        self._disk.unpin(row)

    def _is_valid(self, row: Row, item: Item) -> bool:
        stamp = stamp_of(row.path)
        if stamp and stamp == row.stamp and row.verified == self._run:
            return True
        try:
            good = stamp != "" and digest_of(row.path) == row.digest and self._is_current(row, item)
        except FileNotFoundError:
            good = False
        except OSError:
            # The disk or the store does not answer: that says nothing of the copy, which is no hit for now.
            return False
        if good:
            self._index.mark_verified(row, stamp)
        else:
            self._index.discard(row)
        return good

    def _is_current(self, row: Row, item: Item) -> bool:
        if row.verified == self._run:
            # Within a run a file is taken as constant.
            return True
        return row.version is not None and self._origin.stat(item.url).version == row.version

    # Bringing

    def bring(
        self,
        item: Item,
        source: str,
        *,
        keep: bool,
        digest: Digest | None = None,
        pin: bool = False,
    ) -> Arrival:
        """Makes the item be here, from `source`: "store", or a peer's address. Others that want it at the same time wait for
        the same fetch.

        `keep` puts it in the cache, if there is room; with `pin` it stays until it is released. A copy that is not kept is
        there until it is released. A peer's copy must have `digest`. Raises `PeerFailed`, and the store's own errors.
        """
        begun = time.monotonic()
        order = _Order(item, source, keep, digest, pin or not keep)
        arrival = self._at_hand(order)
        if arrival is None:
            arrival = self._brought(order)
        return arrival._replace(seconds=time.monotonic() - begun)

    def is_current(self, arrival: Arrival) -> bool:
        """Whether what is held was not evicted since."""
        if arrival.row is not None:
            return self._disk.is_in_use(arrival.row)
        with self._mutex:
            shareable = self._shareable.get(arrival.item.key)
            return shareable is not None and shareable is self._temporaries.get(arrival.path)

    def release(self, arrival: Arrival) -> None:
        """The path is not used any more."""
        if not arrival.held:
            return
        if arrival.row is not None:
            self.unpin(arrival.row)
            return
        with self._mutex:
            temporary = self._temporaries.get(arrival.path)
            if temporary is None:
                # Closed meanwhile.
                return
            temporary.users -= 1
            if temporary.users == 0:
                del self._temporaries[arrival.path]
                if self._shareable.get(arrival.item.key) is temporary:
                    del self._shareable[arrival.item.key]
                temporary.partial.discard()

    def _at_hand(self, order: _Order) -> Arrival | None:
        row = self.pin(order.item)
        if row is None:
            return None
        return self._kept(row, order, "local")

    def _kept(self, row: Row, order: _Order, source: str) -> Arrival:
        """Of a row that is pinned."""
        if not order.hold:
            self.unpin(row)
        return Arrival(
            row.path, row.bytes, row.digest or b"", source, 0, order.item, True, order.hold, row.version, row
        )

    def _not_kept(self, item: Item) -> Arrival | None:
        """A copy that is not kept, but used just now by another thread."""
        with self._mutex:
            temporary = self._shareable.get(item.key)
            if temporary is None:
                return None
            temporary.users += 1
            return temporary.arrival(item, "local")

    def _brought(self, order: _Order) -> Arrival:
        """Fetches an item again that was evicted while it came."""
        while True:
            try:
                with self._disk.bringing(order.item.key):
                    return (
                        self._at_hand(order)
                        or self._not_kept(order.item)
                        or self._disk.freeing_when_full(lambda: self._fetch(order))
                    )
            except Outdated:
                pass

    def _fetch(self, order: _Order) -> Arrival:
        item, source = order.item, "store" if order.source == "store" else "peer"
        ending = ending_of(item.url)
        with self._offer(order) as offer, self._disk.arriving(item.key, ending, offer.is_folder) as partial:
            keep = order.keep and (offer.bytes is None or self._index.reserve(item.key, offer.bytes))
            digest = offer.fill(partial)
            keep = keep and (offer.bytes is not None or self._index.reserve(item.key, partial.size()))
            row = self._disk.commit(item.key, partial, digest, offer.version, ending) if keep else None
            if row is None:
                with self._mutex:
                    self._disk.check_current(item.key)
                    temporary = _Temporary(partial, digest, offer.version)
                    self._temporaries[partial.path] = self._shareable[item.key] = temporary
                return temporary.arrival(item, source)
        return self._kept(row, order, source)

    def _offer(self, order: _Order) -> AbstractContextManager[StoreOffer | PeerOffer]:
        if order.source == "store":
            return nullcontext(self._origin.offer(order.item))
        return self._peers.ask(order.source, order.item, order.digest)

    def adopt(self, item: Item, path: str | os.PathLike[str]) -> Held | None:
        """Keeps a file or folder that a task wrote as the copy of `item`, by a link where it can be; None without room for it.
        Its version is what the store has under its URL by now; without any, it serves this run only."""
        ending = ending_of(item.url)
        is_folder = os.path.isdir(path)
        with self._disk.bringing(item.key), self._disk.arriving(item.key, ending, is_folder) as partial:
            partial.take_over(os.fspath(path))
            size, digest = partial.size(), partial.digest()
            row = None
            if self._index.reserve(item.key, size):
                with suppress(Outdated):
                    row = self._disk.commit(item.key, partial, digest, self.version(item), ending)
            if row is None:
                partial.discard()
                return None
            self.unpin(row)
            return Held(item, size, digest, row.version)

    def version(self, item: Item) -> str | None:
        """The version that the store has under its URL now; None when it does not say."""
        try:
            return self._origin.stat(item.url).version
        except OSError:
            return None

    # Peers, and processes

    def _open_for_peer(self, key: str) -> Served | None:
        row = self._index.find(key)
        if row is None or row.digest is None or row.allowed != self._run or not self._is_valid(row, Item.of_key(key)):
            return None
        return open_served(row.path, Reply(row.bytes, row.digest, row.version))

    def close(self) -> None:
        """Stops serving peers, and releases all pins. The folder stays for the next run."""
        if self._server is not None:
            self._server.close()
        self._peers.close()
        self._disk.close()
        with self._mutex:
            temporaries = list(self._temporaries.values())
            self._temporaries.clear()
            self._shareable.clear()
        for temporary in temporaries:
            temporary.partial.discard()

    def _reset_process_state(self) -> None:
        self._mutex = threading.Lock()
        # By path; and by key those that others may have, too.
        self._temporaries: dict[str, _Temporary] = {}
        self._shareable: dict[str, _Temporary] = {}

    def _reset_after_fork(self) -> None:
        """Leaves pins and server to the parent."""
        self._reset_process_state()
        self._peers.reset()
        if self._server is not None:
            self._server.leave_to_parent()
            self._server = None


_caches: weakref.WeakSet[WorkerCache] = weakref.WeakSet()


def _reset_after_fork() -> None:
    for cache in list(_caches):
        cache._reset_after_fork()


os.register_at_fork(after_in_child=_reset_after_fork)


def _run_of(token: str) -> str:
    """Identifies the run without its token. A machine that was started again may have lost what was not on its disk
    yet: then it is another one."""
    if not token:
        return os.urandom(16).hex()
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            started = file.read()
    except OSError:
        started = ""
    return hashlib.blake2b(f"{token} {started}".encode(), digest_size=16).hexdigest()
