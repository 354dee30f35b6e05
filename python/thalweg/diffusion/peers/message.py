"""Messages between peers after the handshake.

A request is the length of the key (u16) and the key. A reply is a status (one byte), the item's bytes (u64), its digest (16
bytes), the length of its version (u16), the version, and the content, of a folder as `cache.tree` has it. Numbers are
big-endian. `NOT_HERE` ends the reply, and `BUSY` the connection. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

from thalweg.diffusion.peers.handshake import receive
from thalweg.disk_cache.partial_file import DIGEST_BYTES, Digest

HERE, NOT_HERE, BUSY, FOLDER_HERE = b"\1", b"\0", b"\2", b"\3"

_KEY_BYTES = struct.Struct(">H")
_REPLY = struct.Struct(f">Q{DIGEST_BYTES}sH")
_MAX_KEY_BYTES = (1 << 16) - 1


class PeerBusy(ConnectionError):
    """The peer serves as many as it can: ask again later."""


class Reply(NamedTuple):
    bytes: int
    digest: Digest
    version: str | None
    is_folder: bool = False


def send_request(connection: socket.socket, key: str) -> None:
    written = key.encode(errors="surrogateescape")
    if len(written) > _MAX_KEY_BYTES:
        raise ValueError(f"{key[:80]}…: keys of more than {_MAX_KEY_BYTES} bytes are not asked for")
    connection.sendall(_KEY_BYTES.pack(len(written)) + written)


def receive_request(connection: socket.socket) -> str | None:
    """None when the other side has hung up between two requests."""
    first = connection.recv(1)
    if not first:
        return None
    (key_bytes,) = _KEY_BYTES.unpack(first + receive(connection, _KEY_BYTES.size - 1))
    return receive(connection, key_bytes).decode(errors="surrogateescape")


def send_reply(connection: socket.socket, reply: Reply | None) -> None:
    if reply is None:
        connection.sendall(NOT_HERE)
        return
    version = (reply.version or "").encode()
    status = FOLDER_HERE if reply.is_folder else HERE
    connection.sendall(status + _REPLY.pack(reply.bytes, reply.digest, len(version)) + version)


def send_busy(connection: socket.socket) -> None:
    connection.sendall(BUSY)


def receive_reply(connection: socket.socket) -> Reply | None:
    """None when the item is not there."""
    status = receive(connection, 1)
    if status == NOT_HERE:
        return None
    if status == BUSY:
        raise PeerBusy("it serves as many as it can")
    if status not in (HERE, FOLDER_HERE):
        raise ConnectionError(f"the peer answered {status!r}, which no peer says")
    size, digest, version_bytes = _REPLY.unpack(receive(connection, _REPLY.size))
    version = receive(connection, version_bytes).decode() or None
    return Reply(size, digest, version, status == FOLDER_HERE)
