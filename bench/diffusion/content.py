"""The content of the store: bytes that follow from the address alone, so that nothing is kept and everything can be checked.

An address ends in `<run>/<bytes>/<name>`. A file begins with the hash of that and goes on with one random block, again and
again from a place that the hash chooses: no two files are alike, and none costs time to make.
SPDX-License-Identifier: Apache-2.0
"""

import functools
import hashlib
import random

BLOCK_BYTES = 8_000_000
HASH_BYTES = 32


def address(base, run, size, name):
    return f"{base}/{run}/{size}/{name}"


def parts(path):
    """(run, bytes, name) of an address or of its path; ValueError where it is none."""
    run, size, name = path.rsplit("/", 3)[-3:]
    return run.lstrip("/"), int(size), name


def pieces(path, start, end):
    """The bytes [start, end) of the file, as views."""
    begin, turned = _outline(path)
    if start < HASH_BYTES:
        yield begin[start:end]
    if end > HASH_BYTES:
        first = max(start, HASH_BYTES)
        yield from _turned(turned + first - HASH_BYTES, end - first)


def check(path, found):
    """Raises ValueError where `found` is not the whole file."""
    _, size, _ = parts(path)
    begin, turned = _outline(path)
    whole = len(found) == size and found[:HASH_BYTES] == begin[:size]
    if not whole or not _follows(memoryview(found)[HASH_BYTES:], turned):
        raise ValueError(f"{path}: {len(found)} bytes, which are not those of the store")


@functools.cache
def block():
    return random.Random(1).randbytes(BLOCK_BYTES)


def _turned(place, length):
    """So many bytes of the endless block from `place` on, as views."""
    while length > 0:
        start = place % BLOCK_BYTES
        count = min(length, BLOCK_BYTES - start)
        yield memoryview(block())[start : start + count]
        place, length = place + count, length - count


def _follows(found, turned):
    at = 0
    for expected in _turned(turned, len(found)):
        if not block().startswith(found[at : at + len(expected)], (turned + at) % BLOCK_BYTES):
            return False
        at += len(expected)
    return True


def _outline(path):
    run, size, name = parts(path)
    begin = hashlib.sha256(f"{run}/{size}/{name}".encode()).digest()
    return begin, int.from_bytes(begin[:8], "big") % BLOCK_BYTES
