"""What peers say to each other once they are introduced.

A request is the milliseconds it may take until the item is here (u32), the length of the key (u16) and the key; a reply
is a status (one byte), the item's bytes (u64), its digest (16 bytes), the length of its version (u16), the version, and
the content. Numbers are big-endian. A status other than `HERE` ends the reply, and `BUSY` the connection. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

from thalweg.diffusion.cache.partial_file import DIGEST_BYTES, Digest
from thalweg.diffusion.peers.handshake import receive

HERE, NOT_HERE, BUSY = b"\1", b"\0", b"\2"

_REQUEST = struct.Struct(">IH")
_REPLY = struct.Struct(f">Q{DIGEST_BYTES}sH")
_MAX_KEY_BYTES = (1 << 16) - 1
_MAX_WAIT_MS = (1 << 32) - 1


class PeerBusy(ConnectionError):
    """The peer serves as many as it can: ask again later."""


class Request(NamedTuple):
    key: str
    wait_s: float


class Reply(NamedTuple):
    bytes: int
    digest: Digest
    version: str | None


def send_request(connection: socket.socket, request: Request) -> None:
    key = request.key.encode(errors="surrogateescape")
    if len(key) > _MAX_KEY_BYTES:
        raise ValueError(f"{request.key[:80]}…: keys of more than {_MAX_KEY_BYTES} bytes are not asked for")
    connection.sendall(_REQUEST.pack(min(int(request.wait_s * 1000), _MAX_WAIT_MS), len(key)) + key)


def receive_request(connection: socket.socket) -> Request | None:
    """None when the other side has hung up between two requests."""
    first = connection.recv(1)
    if not first:
        return None
    wait_ms, key_bytes = _REQUEST.unpack(first + receive(connection, _REQUEST.size - 1))
    return Request(receive(connection, key_bytes).decode(errors="surrogateescape"), wait_ms / 1000)


def send_reply(connection: socket.socket, reply: Reply | None) -> None:
    if reply is None:
        connection.sendall(NOT_HERE)
        return
    version = (reply.version or "").encode()
    connection.sendall(HERE + _REPLY.pack(reply.bytes, reply.digest, len(version)) + version)


def send_busy(connection: socket.socket) -> None:
    connection.sendall(BUSY)


def receive_reply(connection: socket.socket) -> Reply | None:
    """None when the item is not there."""
    status = receive(connection, 1)
    if status == NOT_HERE:
        return None
    if status == BUSY:
        raise PeerBusy("it serves as many as it can")
    if status != HERE:
        raise ConnectionError(f"the peer answered {status!r}, which no peer says")
    size, digest, version_bytes = _REPLY.unpack(receive(connection, _REPLY.size))
    return Reply(size, digest, receive(connection, version_bytes).decode() or None)
