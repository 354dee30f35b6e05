"""How two workers show each other that they hold the run's token, without sending it.

Each sends 32 random bytes, and answers with HMAC-SHA256 of both under the token. The rest is encrypted where the
cluster's messages are (TLS, around all of it); otherwise the digest, which comes by another way, shows whether it was
changed. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import time

_GREETING = b"thalweg-peer 1\n"
_NONCE_BYTES = 32
_PROOF_BYTES = 32


class Refused(OSError):
    """The other side does not hold the token, or is no peer."""


def receive(connection: socket.socket, count: int, deadline: float | None = None) -> bytes:
    """Exactly so many bytes, all of them until then."""
    received = bytearray()
    while len(received) < count:
        if deadline is not None:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
        piece = connection.recv(count - len(received))
        if not piece:
            raise ConnectionError(f"the connection ended after {len(received)} of {count} bytes")
        received += piece
    return bytes(received)


def introduce(connection: socket.socket, token: str) -> None:
    """The side that asks."""
    theirs = receive(connection, len(_GREETING) + _NONCE_BYTES)
    if not theirs.startswith(_GREETING):
        raise Refused("what answers is no peer of this version")
    ours = os.urandom(_NONCE_BYTES)
    nonces = theirs[len(_GREETING) :] + ours
    connection.sendall(ours + _proof(token, b"asks", nonces))
    if not hmac.compare_digest(receive(connection, _PROOF_BYTES), _proof(token, b"serves", nonces)):
        raise Refused("the peer does not hold this run's token")


def admit(connection: socket.socket, token: str, deadline: float | None = None) -> None:
    """The side that serves."""
    ours = os.urandom(_NONCE_BYTES)
    connection.sendall(_GREETING + ours)
    answer = receive(connection, _NONCE_BYTES + _PROOF_BYTES, deadline)
    nonces, proof = ours + answer[:_NONCE_BYTES], answer[_NONCE_BYTES:]
    if not hmac.compare_digest(proof, _proof(token, b"asks", nonces)):
        raise Refused("who asks does not hold this run's token")
    connection.sendall(_proof(token, b"serves", nonces))


def _proof(token: str, side: bytes, nonces: bytes) -> bytes:
    return hmac.new(token.encode(), side + nonces, hashlib.sha256).digest()
