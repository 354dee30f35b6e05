"""The journal of a run: which tasks are done, with their results, so that a run that is started again skips them.

An append-only file in the run folder. A record is its length and CRC-32 (little-endian, four bytes each), the task's
name of 20 bytes (the digest of its call, and which of equal calls it is), the length of its evidence (four bytes), the
evidence as JSON, and its pickled result. Of several records of one name the last counts. An output folder that the run
writes has a record of its own before, whose name is the digest of its URL, without evidence and result. Bytes after the
last whole record are cut off: their writer died. Records are in the operating system's hands when a result is handed out; a power loss may cost the last seconds.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator

from thalweg.diffusion.evidence import Evidence
from thalweg.error_code import Coded, coded
from thalweg.store_error import store_error

_MAGIC = b"thalweg-run-2\n"
_HEAD = struct.Struct("<II")
_LENGTH = struct.Struct("<I")
_NAME_BYTES = 20
# In the place of which of equal calls it is.
_FOLDER = b"\xff\xff\xff\xff"


class RunFolderBusy(Coded, RuntimeError):
    """Another run has this folder."""

    code = "TW-859"


# Journals that this process has open.
_held: set[str] = set()


class Journal:
    """Held by one process at a time."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = os.path.join(folder, "journal")
        try:
            os.makedirs(folder, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            why = f"cannot be a run's folder: {error.strerror}"
            raise store_error(error.errno or errno.EIO, os.fspath(folder), why, "TW-859") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            is_ours = os.path.realpath(self.path) in _held
            who = "a Diffusion of this process runs there; close() it" if is_ours else "another process runs there"
            raise RunFolderBusy(f"{folder}: {who}") from None
        _held.add(os.path.realpath(self.path))
        # Where each result of earlier starts lies; results themselves stay on the disk. No call asks for those of this
        # start: of equal calls each has a name of its own.
        self._places: dict[bytes, tuple[int, int]] = {}
        try:
            os.ftruncate(self._file, self._read())
        except BaseException:
            self.close()
            raise

    @property
    def has_any(self) -> bool:
        """Whether an earlier start has left anything."""
        return bool(self._places)

    def find(self, name: bytes) -> tuple[Evidence, bytes] | None:
        """The record of an earlier start: the evidence and the result."""
        place = self._places.get(name)
        if place is None:
            return None
        body = os.pread(self._file, place[1], place[0])
        (length,) = _LENGTH.unpack_from(body)
        inputs, outputs = json.loads(body[_LENGTH.size : _LENGTH.size + length])
        evidence = Evidence([tuple(one) for one in inputs], [tuple(one) for one in outputs])
        return evidence, body[_LENGTH.size + length :]

    def has_folder(self, url: str) -> bool:
        """Whether the run wrote an output folder there, or began to, in an earlier start."""
        return _folder_name(url) in self._places

    def write_folders(self, urls: Iterable[str]) -> None:
        self.write((_folder_name(url), Evidence([], []), b"") for url in urls)

    def write(self, done: Iterable[tuple[bytes, Evidence, bytes]]) -> None:
        """Names, evidence and results; all in one write."""
        written = bytearray()
        for name, evidence, result in done:
            said = json.dumps(evidence, separators=(",", ":")).encode()
            body = name + _LENGTH.pack(len(said)) + said + result
            written += _HEAD.pack(len(body), zlib.crc32(body)) + body
        rest = memoryview(written)
        while rest:
            rest = rest[os.write(self._file, rest) :]

    def close(self) -> None:
        if self._file >= 0:
            # Children that were forked meanwhile have the lock too: closing ours would not end it.
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = -1
            _held.discard(os.path.realpath(self.path))

    def _read(self) -> int:
        """Gives where the last whole record ends."""
        if os.fstat(self._file).st_size == 0:
            os.write(self._file, _MAGIC)
        if os.pread(self._file, len(_MAGIC), 0) != _MAGIC:
            raise coded(
                ValueError(f"{self.path}: not the journal of a run of this version; give another run_folder"), "TW-859"
            )
        end = len(_MAGIC)
        for start, body in self._records(end):
            end = start + len(body)
            self._places[body[:_NAME_BYTES]] = (start + _NAME_BYTES, len(body) - _NAME_BYTES)
        return end

    def _records(self, at: int) -> Iterator[tuple[int, bytes]]:
        while True:
            head = os.pread(self._file, _HEAD.size, at)
            if len(head) < _HEAD.size:
                return
            length, check = _HEAD.unpack(head)
            body = os.pread(self._file, length, at + _HEAD.size)
            if len(body) < length or length < _NAME_BYTES + _LENGTH.size or zlib.crc32(body) != check:
                return
            yield at + _HEAD.size, body
            at += _HEAD.size + length


def _folder_name(url: str) -> bytes:
    return hashlib.blake2b(url.encode(), digest_size=_NAME_BYTES - len(_FOLDER)).digest() + _FOLDER
