"""Serves a cache's copies to the other workers of its run: a thread a connection, at a rate they share.

Who has not shown yet that it belongs to the run takes no peer's place, and is dropped after two seconds.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import threading
import time
from io import FileIO
from typing import Callable, NamedTuple

from thalweg.diffusion.peers.handshake import admit
from thalweg.diffusion.peers.message import Reply, receive_request, send_busy, send_reply
from thalweg.diffusion.peers.throttle import Throttle
from thalweg.disk_cache.tree import TreeReader
from thalweg.error_code import coded, misuse
from thalweg.store_error import store_error

_MAX_CONNECTIONS = 128
# That have not shown the token yet; the oldest goes for one more.
_MAX_STRANGERS = 128
_INTRODUCTION_TIMEOUT_S = 2.0
# Between two requests; then, until the other side takes some bytes.
_IDLE_TIMEOUT_S = 300
_SEND_TIMEOUT_S = 60
# Between two tries to accept a connection when no descriptor is left.
_POLL_S = 0.05
_SLICE_BYTES = 1 << 20


class Served(NamedTuple):
    """A copy that is open for a peer."""

    file: FileIO | TreeReader
    reply: Reply


class PeerServer:
    """Listens on `host` or `host:port`. `open_copy` gives what this run's peers may have, or None."""

    def __init__(
        self,
        listen: str,
        token: str,
        open_copy: Callable[[str], Served | None],
        bytes_per_s: int | None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if not token:
            raise misuse(ValueError, "a cache serves peers only with a token, which they must hold")
        self._token, self._open_copy, self._throttle = token, open_copy, Throttle(bytes_per_s)
        self._tls = tls
        self._mutex = threading.Lock()
        self._connections: set[socket.socket] = set()
        # In the order they came.
        self._strangers: dict[socket.socket, None] = {}
        self._closed = False
        self._socket = _listen(listen)
        host, port = self._socket.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        threading.Thread(target=self._accept, name="thalweg-peers", daemon=True).start()

    def close(self) -> None:
        self._closed = True
        _hang_up(self._socket)
        self._socket.close()
        with self._mutex:
            connections = [*self._connections, *self._strangers]
        for connection in connections:
            _hang_up(connection)

    def leave_to_parent(self) -> None:
        """In a forked child: the port and the connections are the parent's."""
        for connection in [self._socket, *self._connections, *self._strangers]:
            connection.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                accepted, _ = self._socket.accept()
            except OSError:
                # Closed; or no descriptor is left for now.
                time.sleep(_POLL_S)
                continue
            try:
                connection = self._wrapped(accepted)
            except (OSError, ValueError):
                accepted.close()
                continue
            with self._mutex:
                self._strangers[connection] = None
                oldest = next(iter(self._strangers)) if len(self._strangers) > _MAX_STRANGERS else None
                if oldest is not None:
                    # Now, not when its thread comes to it: the next one is to go for the next.
                    del self._strangers[oldest]
            if oldest is not None:
                _hang_up(oldest)
            threading.Thread(target=self._attend, args=(connection,), name="thalweg-peer", daemon=True).start()

    def _wrapped(self, connection: socket.socket) -> socket.socket:
        """What is kept, and hung up, from now on; does not wait for the other side."""
        if self._tls is None:
            return connection
        return self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)

    def _attend(self, connection: socket.socket) -> None:
        try:
            self._admit(connection)
            self._converse(connection, self._enter(connection))
        except (OSError, ValueError):
            # A client that asks badly, or is gone, finds the connection closed.
            pass
        finally:
            with self._mutex:
                self._strangers.pop(connection, None)
                self._connections.discard(connection)
            connection.close()

    def _admit(self, connection: socket.socket) -> None:
        """Returns when the other side has shown that it holds the token, in time."""
        deadline = time.monotonic() + _INTRODUCTION_TIMEOUT_S
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(_INTRODUCTION_TIMEOUT_S)
        if isinstance(connection, ssl.SSLSocket):
            connection.do_handshake()
        admit(connection, self._token, deadline)

    def _enter(self, connection: socket.socket) -> bool:
        """Whether there is room for one more."""
        with self._mutex:
            self._strangers.pop(connection, None)
            if len(self._connections) >= _MAX_CONNECTIONS:
                return False
            self._connections.add(connection)
            return True

    def _converse(self, connection: socket.socket, has_room: bool) -> None:
        while not self._closed:
            connection.settimeout(_IDLE_TIMEOUT_S)
            key = receive_request(connection)
            if key is None:
                return
            connection.settimeout(_SEND_TIMEOUT_S)
            if not has_room:
                return send_busy(connection)
            self._answer(connection, key)

    def _answer(self, connection: socket.socket, key: str) -> None:
        served = self._open_copy(key)
        if served is None:
            return send_reply(connection, None)
        with served.file:
            send_reply(connection, served.reply)
            self._send(connection, served)

    def _send(self, connection: socket.socket, served: Served) -> None:
        slice_bytes = self._throttle.slice_bytes(_SLICE_BYTES)
        for start in range(0, served.reply.bytes, slice_bytes):
            count = min(slice_bytes, served.reply.bytes - start)
            self._throttle.take(count)
            if self._closed or not _send_piece(connection, served.file, start, count):
                raise coded(ConnectionError("the copy became shorter while it was sent"), "TW-320")


def _listen(address: str) -> socket.socket:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        host, port = address, "0"
    try:
        return socket.create_server(
            (host.strip("[]"), int(port)),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=_MAX_CONNECTIONS,
        )
    except OSError as error:
        raise store_error(
            error.errno or errno.EIO, address, f"cannot serve peers: {error.strerror or error}", "TW-510"
        ) from error


def _hang_up(connection: socket.socket) -> None:
    """Wakes the thread that uses it, which closes it."""
    try:
        # Of one over TLS, too, without a word of TLS.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:
        pass


def _send_piece(connection: socket.socket, file: FileIO | TreeReader, start: int, count: int) -> bool:
    if isinstance(file, FileIO):
        return connection.sendfile(file, start, count) == count
    while count:
        piece = file.read(count)
        if not piece:
            return False
        connection.sendall(piece)
        count -= len(piece)
    return True


def open_served(path: str, reply: Reply) -> Served | None:
    """None when the file is not of this size: it was touched meanwhile."""
    try:
        if os.path.isdir(path):
            reader = TreeReader(path)
            return Served(reader, reply._replace(is_folder=True)) if reader.bytes == reply.bytes else None
        file = open(path, "rb", buffering=0)  # noqa: SIM115
    except OSError:
        return None
    if os.fstat(file.fileno()).st_size != reply.bytes:
        file.close()
        return None
    return Served(file, reply)
