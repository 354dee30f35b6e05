"""Locks by name over all threads and processes of a machine, which end with their process.

A name is one byte of a file, locked by an open file description of its own (Linux's F_OFD_SETLK): so threads exclude
each other as processes do, nothing is left behind, and any number of names costs nothing.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import struct
import time
from types import TracebackType
from typing import TYPE_CHECKING

from thalweg.disk_cache.private_folder import make_private
from thalweg.error_code import Coded

if TYPE_CHECKING:
    from typing_extensions import Self

# For locks that are kept for moments: who waits longer waits for a process that stands still.
_TIMEOUT_S = 60.0
_PAUSE_S = 0.01
# struct flock of a 64-bit Linux: type, whence, start, length, process; padded as C does.
_FLOCK = "hh4xqqi4x"


class CacheLocked(Coded, TimeoutError):
    """Another process has held a lock of the cache for too long."""

    code = "TW-861"


class Lock:
    """One lock that is held. A forked child that releases it leaves its parent's alone."""

    def __init__(self, descriptor: int, place: int) -> None:
        self._descriptor, self._place, self._process = descriptor, place, os.getpid()

    def release(self) -> None:
        if self._descriptor < 0:
            return
        if self._process == os.getpid():
            # Children that were forked meanwhile have the description too: closing ours would not end it.
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _flock(fcntl.F_UNLCK, self._place))
        os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


class Locks:
    """The locks in the file at `path`, which is made when it is missing."""

    def __init__(self, path: str) -> None:
        self._path = path

    def hold(self, name: str) -> Lock:
        """Alone; waits for its turn, however long: only for what threads of this process hold."""
        return self._set(name, fcntl.F_WRLCK, fcntl.F_OFD_SETLKW)

    def hold_soon(self, name: str) -> Lock:
        """Alone. Raises TimeoutError where others hold it for longer than moments."""
        return self._set_soon(name, fcntl.F_WRLCK)

    def share(self, name: str) -> Lock:
        """With others that share it. Raises TimeoutError where another holds it alone for longer than moments."""
        return self._set_soon(name, fcntl.F_RDLCK)

    def hold_if_free(self, name: str) -> Lock | None:
        """Alone, or None at once."""
        return self._set_if_free(name, fcntl.F_WRLCK)

    def _set_soon(self, name: str, kind: int) -> Lock:
        end = time.monotonic() + _TIMEOUT_S
        while (lock := self._set_if_free(name, kind)) is None:
            if time.monotonic() > end:
                why = f"a process that stands still has held {name} for {_TIMEOUT_S:.0f} s; end it, or name another cache folder"
                raise CacheLocked(errno.ETIMEDOUT, why, self._path)
            time.sleep(_PAUSE_S)
        return lock

    def _set_if_free(self, name: str, kind: int) -> Lock | None:
        try:
            return self._set(name, kind, fcntl.F_OFD_SETLK)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise

    def _set(self, name: str, kind: int, command: int) -> Lock:
        place = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") >> 2
        descriptor = self._open()
        try:
            fcntl.fcntl(descriptor, command, _flock(kind, place))
        except BaseException:
            os.close(descriptor)
            raise
        return Lock(descriptor, place)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            make_private(os.path.dirname(self._path))
            return os.open(self._path, flags, 0o600)


def _flock(kind: int, place: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, place, 1, 0)
