"""The list of what a disk cache holds, shared by processes; and the files it lists.

A row without a digest is room reserved for what is on its way. `verified` names the run in which a copy was last
compared with its digest and its version in the store, `allowed` the run in which peers may have it, `stamp` what the
disk said of the file then: when any of these is another one now, the copy is checked again, or is none. Pins are locks
on the paths of copies. A retired copy, which only its users may still read, has a key that is never asked for.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Iterable, Iterator
from typing import Any, Callable, NamedTuple, TypeVar

from thalweg.disk_cache.locks import Lock, Locks
from thalweg.disk_cache.partial_file import Digest, Partial
from thalweg.disk_cache.shared_list import SharedList
from thalweg.disk_cache.tree import remove, tree_stamp
from thalweg.error_code import coded

_SCRIPT = """
CREATE TABLE IF NOT EXISTS items (
    key TEXT PRIMARY KEY, path TEXT, bytes INTEGER, digest BLOB, version TEXT, stamp TEXT,
    verified TEXT, allowed TEXT, evicting INTEGER DEFAULT 0, used_ns INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS items_by_use ON items (used_ns);
CREATE TABLE IF NOT EXISTS lost (key TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS held (bytes INTEGER);
INSERT INTO held SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM held);
CREATE TRIGGER IF NOT EXISTS comes AFTER INSERT ON items BEGIN UPDATE held SET bytes = bytes + new.bytes; END;
CREATE TRIGGER IF NOT EXISTS goes AFTER DELETE ON items BEGIN UPDATE held SET bytes = bytes - old.bytes; END;
"""
_COLUMNS = "key, path, bytes, digest, version, stamp, verified, allowed, evicting"

# Candidates examined together when room is made.
_VICTIMS = 64
# Uses are written down together: with the next change, after so many, or after so long.
_NOTED_USES = 256
_NOTED_NS = 1_000_000_000

_Result = TypeVar("_Result")


class Row(NamedTuple):
    key: str
    path: str
    bytes: int
    digest: Digest | None
    version: str | None
    stamp: str
    verified: str
    allowed: str
    evicting: int


class CacheIndex:
    """`run` names the run that this process works for."""

    def __init__(
        self, path: str, limit_bytes: int, run: str, pins: Locks, fetches: Locks, reports_losses: bool
    ) -> None:
        self.folder, self.limit_bytes, self.run = os.path.dirname(path), limit_bytes, run
        self._pins, self._fetches, self._reports_losses = pins, fetches, reports_losses
        self._list = SharedList(path, _SCRIPT)
        self._uses: dict[str, int] = {}
        self._noted_ns = 0
        try:
            self._sweep()
        except sqlite3.OperationalError as error:
            raise coded(OSError(f"{path}: {error}"), "TW-307") from error
        except sqlite3.DatabaseError:
            # The list is damaged: without it, nothing there is of use.
            self._list.recreate()
            self._sweep()

    def find(self, key: str) -> Row | None:
        """A copy that is listed, whatever has become of its file."""
        found = self._ask(f"SELECT {_COLUMNS} FROM items WHERE key = ? AND digest IS NOT NULL", (key,))
        return Row(*found[0]) if found else None

    def all(self) -> list[Row]:
        return [
            Row(*one) for one in self._ask(f"SELECT {_COLUMNS} FROM items WHERE digest IS NOT NULL AND NOT evicting")
        ]

    def held_bytes(self) -> int:
        """With what is on its way."""
        found = self._ask("SELECT bytes FROM held")
        return int(found[0][0]) if found else 0

    def note(self, key: str) -> None:
        """A use, which puts off its eviction."""
        now = time.time_ns()
        self._uses[key] = now
        if len(self._uses) >= _NOTED_USES or now - self._noted_ns > _NOTED_NS:
            self._try_to(self._write_uses)

    def reserve(self, key: str, count: int) -> bool:
        """Makes room for what is on its way; the caller holds its fetch lock. False: there is none, as all is pinned or
        it is larger than the limit."""

        def change(sql: sqlite3.Connection) -> bool:
            self._write_uses(sql)
            self._retire(sql, _row(sql, key))
            if not self._make_room(sql, count):
                return False
            row = (key, self.new_path(key, ""), count, time.time_ns(), self.run)
            sql.execute("INSERT INTO items (key, path, bytes, used_ns, allowed) VALUES (?, ?, ?, ?, ?)", row)
            sql.execute("DELETE FROM lost WHERE key = ?", (key,))
            return True

        return bool(self._try_to(change))

    def commit(self, key: str, path: str, partial_file: Partial, digest: Digest, version: str | None) -> Row | None:
        """Lists what was on its way under a `new_path`. None: its room was taken away meanwhile, and it stays partial."""

        def change(sql: sqlite3.Connection) -> Row | None:
            if _row(sql, key) is None:
                return None
            partial_file.rename_to(path)
            row = (path, digest, version, stamp_of(path), self.run, key)
            sql.execute(
                "UPDATE items SET path = ?, digest = ?, version = ?, stamp = ?, verified = ? WHERE key = ?", row
            )
            return _row(sql, key)

        return self._try_to(change)

    def cancel(self, key: str) -> None:
        """Gives back the room of what does not come."""

        def change(sql: sqlite3.Connection) -> None:
            row = _row(sql, key)
            if row is not None and row.digest is None:
                self._remove(sql, row, report_loss=False)

        self._try_to(change)

    def mark_verified(self, row: Row, stamp: str) -> None:
        """Notes that this very copy was checked."""
        values = (stamp, self.run, row.key, row.digest)
        self._try_to(
            lambda sql: sql.execute("UPDATE items SET stamp = ?, verified = ? WHERE key = ? AND digest = ?", values)
        )

    def discard(self, row: Row) -> None:
        """Removes a bad copy, unless it was fetched again meanwhile."""

        def change(sql: sqlite3.Connection) -> None:
            now = _row(sql, row.key)
            if now is not None and now[:6] == row[:6]:
                self._remove(sql, now, report_loss=True)

        self._try_to(change)

    def evict(self, keys: Iterable[str]) -> None:
        """Removes copies; those in use go when they are released, and are not found meanwhile."""
        evicted = list(keys)

        def change(sql: sqlite3.Connection) -> None:
            for key in evicted:
                row = _row(sql, key)
                if row is not None and row.digest is not None:
                    self._retire(sql, row)

        self._try_to(change)

    def released(self, row: Row) -> None:
        """A copy has lost its last pin in this process: it goes now, if it was to go."""
        retired = self.find(_retired(row.path))
        if retired is not None:
            self.evict([retired.key])

    def allow(self, keys: Iterable[str], run: str) -> None:
        rows = [(run, key) for key in keys]
        self._try_to(lambda sql: sql.executemany("UPDATE items SET allowed = ? WHERE key = ?", rows))

    def lost(self) -> list[str]:
        if not self._ask("SELECT 1 FROM lost LIMIT 1"):
            return []

        def change(sql: sqlite3.Connection) -> list[str]:
            keys = [key for (key,) in sql.execute("SELECT key FROM lost")]
            sql.execute("DELETE FROM lost")
            return keys

        return self._try_to(change) or []

    def free(self, count: int) -> None:
        """Removes so many bytes of what is not used, as the disk is full."""
        self._try_to(lambda sql: self._evict_lru(sql, count))

    def _ask(self, question: str, values: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
        """A list that cannot be read holds nothing."""
        try:
            return self._list.rows(question, values)
        except (sqlite3.Error, OSError):
            self._list.drop_connection()
            return []

    def _try_to(self, change: Callable[[sqlite3.Connection], _Result]) -> _Result | None:
        """A list that cannot be written, as the disk is full or the folder goes, says nothing instead."""
        try:
            with self._list.transaction() as sql:
                return change(sql)
        except (sqlite3.Error, OSError):
            self._list.drop_connection()
            return None

    def _make_room(self, sql: sqlite3.Connection, count: int) -> bool:
        if count > self.limit_bytes:
            return False
        excess = self._excess(sql, count)
        if excess > 0:
            self._remove_dead(sql)
            excess = self._excess(sql, count)
        return excess <= 0 or self._evict_lru(sql, excess)

    def _excess(self, sql: sqlite3.Connection, count: int) -> int:
        held = int(sql.execute("SELECT bytes FROM held").fetchone()[0])
        return held + count - self.limit_bytes

    def _evict_lru(self, sql: sqlite3.Connection, count: int) -> bool:
        for row in self._longest_unused(sql):
            if count <= 0:
                break
            if self._remove_if_free(sql, row, report_loss=not row.evicting):
                count -= row.bytes
        return count <= 0

    def _longest_unused(self, sql: sqlite3.Connection) -> Iterator[Row]:
        after = (-1, "")
        while True:
            found = sql.execute(
                f"SELECT {_COLUMNS}, used_ns FROM items WHERE digest IS NOT NULL AND (used_ns, key) > (?, ?)"
                f" ORDER BY used_ns, key LIMIT {_VICTIMS}",
                after,
            ).fetchall()
            if not found:
                return
            for *columns, used_ns in found:
                yield Row(*columns)
                after = (used_ns, columns[0])

    def _retire(self, sql: sqlite3.Connection, row: Row | None) -> None:
        if row is not None and not self._remove_if_free(sql, row, report_loss=False):
            sql.execute("UPDATE items SET key = ?, evicting = 1 WHERE key = ?", (_retired(row.path), row.key))

    def _remove_if_free(self, sql: sqlite3.Connection, row: Row, report_loss: bool) -> bool:
        lock: Lock | None = self._pins.hold_if_free(row.path)
        if lock is None:
            return False
        with lock:
            self._remove(sql, row, report_loss)
        return True

    def _remove(self, sql: sqlite3.Connection, row: Row | None, report_loss: bool) -> None:
        if row is None:
            return
        sql.execute("DELETE FROM items WHERE key = ?", (row.key,))
        if report_loss and self._reports_losses:
            sql.execute("INSERT OR IGNORE INTO lost VALUES (?)", (row.key,))
        remove(row.path)

    def _remove_dead(self, sql: sqlite3.Connection) -> None:
        """Frees room reserved for fetches whose process died."""
        for columns in sql.execute(f"SELECT {_COLUMNS} FROM items WHERE digest IS NULL").fetchall():
            lock = self._fetches.hold_if_free(columns[0])
            if lock is not None:
                with lock:
                    self._remove(sql, Row(*columns), report_loss=False)

    def _remove_evicted(self, sql: sqlite3.Connection) -> None:
        for columns in sql.execute(f"SELECT {_COLUMNS} FROM items WHERE evicting").fetchall():
            self._remove_if_free(sql, Row(*columns), report_loss=False)

    def _write_uses(self, sql: sqlite3.Connection) -> None:
        # Without a lock, which a fork could leave closed: a use that falls in between is lost, and no harm done.
        uses, self._uses = self._uses, {}
        self._noted_ns = time.time_ns()
        sql.executemany("UPDATE items SET used_ns = ? WHERE key = ?", [(at, key) for key, at in list(uses.items())])

    def _sweep(self) -> None:
        """Sweeps what dead processes left: reserved room, unlisted files, and bytes above the present limit."""
        with self._list.transaction() as sql:
            self._remove_dead(sql)
            self._remove_evicted(sql)
            listed = {path for (path,) in sql.execute("SELECT path FROM items")}
            for path in _entries(os.path.join(self.folder, "items")):
                if path not in listed:
                    remove(path)
            self._make_room(sql, 0)

    def new_path(self, key: str, ending: str) -> str:
        """Returns where a copy is to lie: no two have the same path. `ending` ends its name."""
        name = hashlib.blake2b(key.encode(errors="surrogateescape"), digest_size=20).hexdigest()
        return os.path.join(self.folder, "items", name[:2], f"{name}-{secrets.token_hex(4)}-{ending}")


def _row(sql: sqlite3.Connection, key: str) -> Row | None:
    found = sql.execute(f"SELECT {_COLUMNS} FROM items WHERE key = ?", (key,)).fetchone()
    return None if found is None else Row(*found)


def _retired(path: str) -> str:
    return f"retired {path}"


def stamp_of(path: str) -> str:
    """A stamp that shows that a file was not touched; "" when there is none."""
    try:
        seen = os.stat(path)
        if stat.S_ISDIR(seen.st_mode):
            return tree_stamp(path)
    except OSError:
        return ""
    return f"{seen.st_size} {seen.st_mtime_ns} {seen.st_ino}"


def _entries(folder: str) -> Iterator[str]:
    """The paths of copies, which lie in folders by the first letters of their names."""
    try:
        found = os.scandir(folder)
    except FileNotFoundError:
        return
    # Behind a link is nothing of ours.
    shards = [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
    for shard in shards:
        for name in os.listdir(shard):
            yield os.path.join(shard, name)
