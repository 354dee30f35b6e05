"""Asks other workers for their copies, over connections that are kept for the next time.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from thalweg.diffusion.cache.item import Item
from thalweg.diffusion.peers.handshake import introduce
from thalweg.diffusion.peers.message import PeerBusy, Reply, receive_reply, send_request
from thalweg.disk_cache.partial_file import DIGEST_BYTES, Partial

_MAX_KEPT = 32
_CONNECT_S = 10
_PIECE_BYTES = 1 << 20


class PeerFailed(OSError):
    """A peer that is gone or busy, does not have the item, or sent what is not it: ask another, or the store. Of one that
    `is_busy` the copy is as good as it was."""

    def __init__(self, address: str, key: str, why: str, is_busy: bool = False) -> None:
        super().__init__(f"peer {address}: {key}: {why}")
        self.address, self.key, self.why, self.is_busy = address, key, why, is_busy

    def __reduce__(self) -> tuple[type[PeerFailed], tuple[str, str, str, bool]]:
        return PeerFailed, (self.address, self.key, self.why, self.is_busy)


class PeerOffer:
    """A transfer that a peer has begun to send."""

    def __init__(self, peer: str, key: str, connection: socket.socket, reply: Reply) -> None:
        self.peer, self.key = peer, key
        self.bytes, self.version, self.is_folder = reply.bytes, reply.version, reply.is_folder
        self.left_bytes = reply.bytes
        self._digest, self._connection = reply.digest, connection

    def fill(self, partial_file: Partial) -> bytes:
        """Raises unless the content is what its digest says, which it returns."""
        digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
        buffer = memoryview(bytearray(min(_PIECE_BYTES, self.left_bytes)))
        while self.left_bytes:
            piece = buffer[: self._next(buffer[: min(self.left_bytes, len(buffer))])]
            self.left_bytes -= len(piece)
            digest.update(piece)
            partial_file.write(piece)
        if digest.digest() != self._digest:
            raise PeerFailed(self.peer, self.key, "what it sent has another digest")
        return self._digest

    def _next(self, buffer: memoryview) -> int:
        try:
            count = self._connection.recv_into(buffer)
        except OSError as error:
            raise PeerFailed(self.peer, self.key, str(error)) from error
        if count == 0:
            raise PeerFailed(self.peer, self.key, f"the connection ended {self.left_bytes} bytes before the end")
        return count


class Peers:
    """`timeout_s`: how long a peer may send nothing."""

    def __init__(self, token: str, timeout_s: float = 60, tls: ssl.SSLContext | None = None) -> None:
        self._token, self._timeout_s, self._tls = token, timeout_s, tls
        self.reset()

    def reset(self) -> None:
        """Also in a forked child, where the connections are the parent's."""
        self._kept: list[tuple[str, socket.socket]] = []
        self._mutex = threading.Lock()

    @contextmanager
    def ask(self, peer: str, item: Item, digest: bytes | None) -> Iterator[PeerOffer]:
        """The bytes that the peer sends, to be received whole before the end."""
        connection, reply = self._begin(peer, item.key)
        if reply is None:
            self._keep(peer, connection)
            raise PeerFailed(peer, item.key, "it does not have it")
        offer = PeerOffer(peer, item.key, connection, reply)
        try:
            if digest is not None and digest != reply.digest:
                raise PeerFailed(peer, item.key, "its copy has another digest")
            yield offer
        finally:
            if offer.left_bytes:
                connection.close()
            else:
                self._keep(peer, connection)

    def _begin(self, peer: str, key: str) -> tuple[socket.socket, Reply | None]:
        kept = self._take(peer)
        if kept is not None:
            try:
                return kept, self._exchange(kept, key)
            except socket.timeout as error:
                kept.close()
                raise PeerFailed(peer, key, "it says nothing") from error
            except OSError:
                # The peer hung up long ago, or is another one at the same address.
                kept.close()
        connection = self._connect(peer, key)
        try:
            return connection, self._exchange(connection, key)
        except OSError as error:
            connection.close()
            raise PeerFailed(peer, key, str(error), isinstance(error, PeerBusy)) from error

    def _exchange(self, connection: socket.socket, key: str) -> Reply | None:
        connection.settimeout(self._timeout_s)
        send_request(connection, key)
        return receive_reply(connection)

    def _connect(self, peer: str, key: str) -> socket.socket:
        host, _, port = peer.rpartition(":")
        try:
            connection = socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S)
        except (OSError, ValueError) as error:
            raise PeerFailed(peer, key, str(error)) from error
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_hostname=host.strip("[]"))
            introduce(connection, self._token)
        except OSError as error:
            connection.close()
            raise PeerFailed(peer, key, str(error)) from error
        return connection

    def _take(self, peer: str) -> socket.socket | None:
        with self._mutex:
            for place, (address, connection) in enumerate(self._kept):
                if address == peer:
                    del self._kept[place]
                    return connection
        return None

    def _keep(self, peer: str, connection: socket.socket) -> None:
        with self._mutex:
            self._kept.append((peer, connection))
            spare = self._kept[:-_MAX_KEPT]
            del self._kept[:-_MAX_KEPT]
        for _, one in spare:
            one.close()

    def close(self) -> None:
        with self._mutex:
            kept, self._kept = self._kept, []
        for _, connection in kept:
            connection.close()
