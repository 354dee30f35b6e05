"""Blocks of files, which `thalwegcache` keeps in a disk cache.

Each process compares a block with its digest before it uses any of it, and again when its file has changed since.
Whatever dies, or is deleted or damaged, costs time and no more: a block whose file is not what is listed is no hit.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any, NamedTuple

from thalweg.disk_cache.disk_cache import DiskCache
from thalweg.disk_cache.partial_file import DIGEST_BYTES
from thalweg.disk_cache.private_folder import private_base

# A file that was changed this recently may be changed again without showing a later time.
_SETTLED_NS = 50_000_000
# Blocks that a process remembers as checked; then it forgets them all.
_MAX_CHECKED = 1 << 16


class _Checked(NamedTuple):
    """A block whose digest was right, and the identity of its file, unlike that of others at the path and its own before a change."""

    path: str
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class BlockCache:
    """Blocks of files by key and number. A key stands for one content for ever.

    Parameters
    ----------
    folder : str or os.PathLike
        Where the blocks are; any number of processes share it.
    limit : int or str
        The most it holds, in bytes or as in `20 GB`.

    Examples
    --------
    >>> cache = BlockCache("/local/cache", "20 GB")
    >>> cache.put("key", 0, b"content")
    True
    >>> cache.get("key", 0, 0, 3)
    b'con'
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int | str) -> None:
        self.disk = DiskCache(private_base(folder), limit)
        self._checked: dict[str, _Checked] = {}

    def get(self, key: str, block: int, start: int = 0, end: int | None = None) -> bytes | None:
        """Returns a block, or a range of it; None when it is not here."""
        name = _name(key, block)
        checked = self._checked.get(name)
        content = None if checked is None else _read(checked, start, end)
        if content is None:
            content = self._check(name)
            content = None if content is None else content[start:end]
        if content is not None:
            self.disk.index.note(name)
        return content

    def put(self, key: str, block: int, content: bytes) -> bool:
        """Keeps a block, for which older ones make room. Returns whether it is kept: not where there is no room, nor where
        another process is just keeping it, which may stand still meanwhile."""
        name = _name(key, block)
        lock = self.disk.fetches.hold_if_free(name)
        if lock is None:
            return False
        with lock:
            return self.disk.freeing_when_full(lambda: self._put(name, content))

    def _check(self, name: str) -> bytes | None:
        """The whole block, compared with its digest; remembered, unless its file is so new that a change would not show."""
        self._checked.pop(name, None)
        row = self.disk.index.find(name)
        if row is None:
            return None
        try:
            file = os.open(row.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.disk.index.discard(row)
            return None
        try:
            checked = _identity(row.path, file)
            content = os.pread(file, checked.size, 0)
        finally:
            os.close(file)
        if _digest(content) != row.digest:
            self.disk.index.discard(row)
            return None
        if time.time_ns() - checked.changed_ns > _SETTLED_NS:
            if len(self._checked) >= _MAX_CHECKED:
                self._checked.clear()
            self._checked[name] = checked
        return content

    def _put(self, name: str, content: bytes) -> bool:
        if not self.disk.index.reserve(name, len(content)):
            return False
        with self.disk.arriving(name, "") as partial_file:
            partial_file.write(content)
            path = self.disk.index.new_path(name, "")
            if self.disk.index.commit(name, path, partial_file, _digest(content), None) is None:
                partial_file.discard()
                return False
        return True

    def held_bytes(self) -> int:
        """Returns the bytes of all blocks."""
        return self.disk.index.held_bytes()

    def __reduce__(self) -> Any:
        return BlockCache, (self.disk.folder, self.disk.index.limit_bytes)


def _read(checked: _Checked, start: int, end: int | None) -> bytes | None:
    """A range of the block; None when its file is another one now."""
    try:
        file = os.open(checked.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _identity(checked.path, file) != checked:
            return None
        return os.pread(file, max(0, (checked.size if end is None else end) - start), start)
    finally:
        os.close(file)


def _identity(path: str, file: int) -> _Checked:
    found = os.fstat(file)
    return _Checked(path, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _name(key: str, block: int) -> str:
    return hashlib.blake2b(f"{block} {key}".encode(errors="surrogateescape"), digest_size=20).hexdigest()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
