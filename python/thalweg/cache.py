"""Blocks of files in a folder of this machine: never more bytes than its limit.

Any number of processes share one folder. What is there is listed in an SQLite file; a block is a file beside it, named
by its key. Each process compares a block with the digest that was taken when it came before it uses any of it, and again
when its file has changed since. The block that was used longest ago goes first. Whatever dies, or is deleted or damaged,
costs time and no more: a block whose file is not what is listed is no hit.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import tempfile
import time
from typing import Any, NamedTuple

from thalweg.shared_list import SharedList

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS.update({"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40})

_TABLES = """
CREATE TABLE IF NOT EXISTS blocks (name TEXT PRIMARY KEY, bytes INTEGER, digest BLOB, used_ns INTEGER) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS blocks_by_use ON blocks (used_ns);
"""

# Uses are written down together: with the next block that comes, after so many, or after so long.
_NOTED_USES = 256
_NOTED_NS = 1_000_000_000

# A file that was changed this recently may be changed again without showing a later time.
_SETTLED_NS = 50_000_000
# Blocks that a process remembers as checked; then it forgets them all.
_MAX_CHECKED = 1 << 16


def parse_bytes(written: int | str) -> int:
    """Returns the bytes in `20 GB`, `512MiB`, or a number of bytes."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", str(written))
    if found is None or found[2].upper() not in _UNITS:
        raise ValueError(f"{written!r} is not a number of bytes; write it as in '20 GB'")
    return int(float(found[1]) * _UNITS[found[2].upper()])


class _Identity(NamedTuple):
    """What tells a file from another at its path, and from itself before a change."""

    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class Cache:
    """Blocks of files by key and number. A key stands for one content for ever.

    Parameters
    ----------
    folder : str or os.PathLike
        Where the blocks are; any number of processes share it.
    limit : int or str
        The most it holds, in bytes or as in `20 GB`.

    Examples
    --------
    >>> cache = Cache("/local/cache", "20 GB")
    >>> cache.put("key", 0, b"content")
    >>> cache.get("key", 0, 0, 3)
    b'con'
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int | str) -> None:
        self.folder = os.path.abspath(folder)
        self.limit_bytes = parse_bytes(limit)
        self._list = SharedList(os.path.join(self.folder, "blocks.sqlite"), _TABLES)
        self._uses: dict[str, int] = {}
        self._checked: dict[str, _Identity] = {}
        self._noted_ns = 0
        try:
            self._sweep()
        except sqlite3.DatabaseError:
            # The list is damaged: without it, nothing there is of use.
            self._list.recreate()
            self._sweep()

    def get(self, key: str, block: int, start: int = 0, end: int | None = None) -> bytes | None:
        """Returns a block, or a range of it; None when it is not here."""
        try:
            return self._get(_name(key, block), start, end)
        except sqlite3.Error:
            self._list.drop_connection()
            return None

    def put(self, key: str, block: int, content: bytes) -> None:
        """Keeps a block, for which older ones make room. One larger than the limit is not kept."""
        if len(content) > self.limit_bytes:
            return
        try:
            with self._list.transaction() as sql:
                self._write_uses(sql)
                self._put(sql, _name(key, block), content)
        except sqlite3.Error as error:
            self._list.drop_connection()
            raise OSError(f"{self.folder}: {error}") from error

    def _get(self, name: str, start: int, end: int | None) -> bytes | None:
        try:
            file = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._checked.pop(name, None)
            return None
        try:
            identity = _identity(file)
            if self._checked.get(name) != identity and not self._check(name, file, identity):
                return None
            content = os.pread(file, max(0, (identity.size if end is None else end) - start), start)
        finally:
            os.close(file)
        self._note(name)
        return content

    def _check(self, name: str, file: int, identity: _Identity) -> bool:
        """Whether the file has what is listed; remembered, unless the file is so new that a change would not show."""
        row = self._list.sql().execute("SELECT digest FROM blocks WHERE name = ?", (name,)).fetchone()
        if row is None:
            return False
        if _digest(os.pread(file, identity.size, 0)) != row[0]:
            self._forget(name, row[0])
            return False
        if time.time_ns() - identity.changed_ns > _SETTLED_NS:
            if len(self._checked) >= _MAX_CHECKED:
                self._checked.clear()
            self._checked[name] = identity
        return True

    def _put(self, sql: sqlite3.Connection, name: str, content: bytes) -> None:
        self._make_room(sql, name, len(content))
        draft, draft_path = tempfile.mkstemp(prefix=".new-", dir=self.folder)
        try:
            with os.fdopen(draft, "wb") as file:
                file.write(content)
            os.makedirs(os.path.dirname(self._path(name)), exist_ok=True)
            os.replace(draft_path, self._path(name))
        finally:
            _unlink(draft_path)
        row = (name, len(content), _digest(content), time.time_ns())
        sql.execute("INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?)", row)

    def held_bytes(self) -> int:
        """Returns the bytes of all blocks."""
        return int(self._list.sql().execute("SELECT coalesce(sum(bytes), 0) FROM blocks").fetchone()[0])

    def _make_room(self, sql: sqlite3.Connection, name: str, count: int) -> None:
        sql.execute("DELETE FROM blocks WHERE name = ?", (name,))
        held = sql.execute("SELECT coalesce(sum(bytes), 0) FROM blocks").fetchone()[0]
        excess = held + count - self.limit_bytes
        for victim, victim_bytes in sql.execute("SELECT name, bytes FROM blocks ORDER BY used_ns").fetchall():
            if excess <= 0:
                break
            sql.execute("DELETE FROM blocks WHERE name = ?", (victim,))
            _unlink(self._path(victim))
            excess -= victim_bytes

    def _forget(self, name: str, digest: bytes) -> None:
        with self._list.transaction() as sql:
            # Unless another process has put it again.
            if sql.execute("DELETE FROM blocks WHERE name = ? AND digest = ?", (name, digest)).rowcount:
                _unlink(self._path(name))

    def _note(self, name: str) -> None:
        now = time.time_ns()
        self._uses[name] = now
        if len(self._uses) >= _NOTED_USES or now - self._noted_ns > _NOTED_NS:
            with self._list.transaction() as sql:
                self._write_uses(sql)

    def _write_uses(self, sql: sqlite3.Connection) -> None:
        # Without a lock, which a fork could leave closed: a use that falls in between is lost, and no harm done.
        uses, self._uses = self._uses, {}
        self._noted_ns = time.time_ns()
        sql.executemany("UPDATE blocks SET used_ns = ? WHERE name = ?", [(at, name) for name, at in list(uses.items())])

    def _sweep(self) -> None:
        """Removes files that are not listed: a process died between writing one and listing it."""
        with self._list.transaction() as sql:
            listed = {name for (name,) in sql.execute("SELECT name FROM blocks")}
            for folder, _, names in os.walk(self.folder):
                for name in names:
                    if (name.startswith(".new-") or folder != self.folder) and name not in listed:
                        _unlink(os.path.join(folder, name))

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name[:2], name)

    def __reduce__(self) -> Any:
        return Cache, (self.folder, self.limit_bytes)


def _content_of(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _identity(file: int) -> _Identity:
    found = os.fstat(file)
    return _Identity(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _name(key: str, block: int) -> str:
    return hashlib.blake2b(f"{block} {key}".encode(errors="surrogateescape"), digest_size=20).hexdigest()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
