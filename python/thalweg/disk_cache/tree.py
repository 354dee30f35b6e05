"""A folder as one sequence of bytes, so that it is cached, checked and sent to peers as a file is.

The sequence is the length of a manifest (four bytes, big-endian), the manifest (JSON: pairs of a file's path below the
folder and its size, sorted by path), and the files' contents in that order. Folders without a file in them are not
part of it. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from thalweg.error_code import coded

if TYPE_CHECKING:
    from typing_extensions import Self

_LENGTH = struct.Struct(">I")
_PIECE_BYTES = 1 << 20


class TreeFile(NamedTuple):
    """A file by its path below the folder."""

    path: str
    bytes: int


def files_of(folder: str) -> list[TreeFile]:
    """Returns the files below a folder, sorted."""
    found = []
    for parent, _, names in os.walk(folder, onerror=_raise):
        for name in names:
            path = os.path.join(parent, name)
            found.append(TreeFile(os.path.relpath(path, folder), os.stat(path).st_size))
    return sorted(found)


def _raise(error: OSError) -> None:
    raise error


def _header(files: Iterable[TreeFile]) -> bytes:
    manifest = json.dumps(list(files), separators=(",", ":")).encode()
    return _LENGTH.pack(len(manifest)) + manifest


def tree_bytes(files: list[TreeFile]) -> int:
    """Returns the length of the sequence."""
    return len(_header(files)) + sum(file.bytes for file in files)


def size_of(path: str) -> int:
    """Returns the bytes of a file, or of a folder as a sequence."""
    return tree_bytes(files_of(path)) if os.path.isdir(path) else os.path.getsize(path)


def check_path(path: str) -> str:
    """Returns the path of a file below its folder; ValueError if it leads elsewhere."""
    if os.path.isabs(path) or any(part in ("", ".", "..") for part in path.split("/")):
        raise coded(ValueError(f"{path!r} is not the path of a file below its folder"), "TW-201")
    return path


class TreeReader:
    """Reads the sequence of a folder. Raises OSError when a file is not as long any more as it was."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        files = files_of(folder)
        self.bytes = tree_bytes(files)
        self._header = _header(files)
        self._files = iter(files)
        self._file: BinaryIO | None = None
        self._left = 0

    def read(self, count: int) -> bytes:
        """Returns at most `count` bytes, and none at the end."""
        if self._header:
            piece, self._header = self._header[:count], self._header[count:]
            return piece
        while self._left == 0:
            self.close()
            following = next(self._files, None)
            if following is None:
                return b""
            self._file = open(os.path.join(self._folder, following.path), "rb", buffering=0)  # noqa: SIM115
            self._left = following.bytes
        assert self._file is not None
        piece = self._file.read(min(count, self._left))
        if not piece:
            raise coded(OSError(f"{self._folder}: a file became shorter while it was read"), "TW-320")
        self._left -= len(piece)
        return piece

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class TreeWriter:
    """Makes a folder of its sequence, which comes in pieces."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._head = bytearray()
        self._files: list[TreeFile] | None = None
        self._file: BinaryIO | None = None
        self._left = 0

    def write(self, piece: bytes | memoryview) -> None:
        rest = memoryview(piece)
        if self._files is None:
            rest = self._take_header(rest)
        while rest:
            if self._file is None:
                raise coded(ValueError(f"{self._folder}: more came than the manifest says"), "TW-506")
            count = min(self._left, len(rest))
            self._file.write(rest[:count])
            rest = rest[count:]
            self._left -= count
            if self._left == 0:
                self._next()

    def _take_header(self, rest: memoryview) -> memoryview:
        self._head += rest
        if len(self._head) < _LENGTH.size:
            return memoryview(b"")
        end = _LENGTH.size + _LENGTH.unpack_from(self._head)[0]
        if len(self._head) < end:
            return memoryview(b"")
        manifest = json.loads(self._head[_LENGTH.size : end])
        self._files = [TreeFile(check_path(path), int(count)) for path, count in reversed(manifest)]
        rest = memoryview(bytes(self._head[end:]))
        self._head.clear()
        self._next()
        return rest

    def _next(self) -> None:
        """Opens the next file that has any content, and makes the empty ones before it."""
        self.close()
        while self._files:
            following = self._files.pop()
            path = os.path.join(self._folder, following.path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            file = open(path, "wb")  # noqa: SIM115
            if following.bytes:
                self._file, self._left = file, following.bytes
                return
            file.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def tree_digest(folder: str, digest_bytes: int) -> bytes:
    """Returns the BLAKE2b of the sequence."""
    digest = hashlib.blake2b(digest_size=digest_bytes)
    with TreeReader(folder) as reader:
        while piece := reader.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.digest()


def tree_stamp(folder: str) -> str:
    """Returns what the disk says of all files below a folder; it differs when any was touched, added or removed."""
    stamp = hashlib.blake2b(digest_size=16)
    for file in files_of(folder):
        seen = os.stat(os.path.join(folder, file.path))
        stamp.update(f"{file.path}\0{seen.st_size} {seen.st_mtime_ns} {seen.st_ino}\0".encode(errors="surrogateescape"))
    return f"tree {stamp.hexdigest()}"


def link_tree(source: str, target: str) -> None:
    """Makes the files of one folder files of another: by links, or copies on another disk."""
    for file in files_of(source):
        path = os.path.join(target, file.path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.link(os.path.join(source, file.path), path)
        except OSError:
            shutil.copyfile(os.path.join(source, file.path), path)


def remove(path: str) -> None:
    """Removes a file or a folder, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except (IsADirectoryError, PermissionError):
        # Some systems answer EPERM for folders.
        if not os.path.isdir(path):
            raise
        shutil.rmtree(path, ignore_errors=True)
