"""An SQLite file that any number of threads and processes of this machine write to, one at a time.

What it lists is never the only copy of anything: a list that is damaged, or deleted while in use, is made again.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from thalweg.disk_cache import fork_gate
from thalweg.disk_cache.private_folder import make_private

# How long a process waits for the list's lock.
_LOCK_TIMEOUT_S = 60


class _Kept(NamedTuple):
    inode: int
    connection: fork_gate.Connection


class SharedList:
    """The list at `path`, with the tables that `script` makes when they are missing."""

    def __init__(self, path: str, script: str) -> None:
        self.path = path
        self._script = script
        self._local = threading.local()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction, of which there is one at a time over all processes."""
        with fork_gate.in_use():
            sql = self._sql()
            sql.execute("BEGIN IMMEDIATE")
            try:
                yield sql
            except BaseException:
                sql.execute("ROLLBACK")
                raise
            sql.execute("COMMIT")

    def rows(self, question: str, values: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with fork_gate.in_use():
            return self._sql().execute(question, values).fetchall()

    def _sql(self) -> fork_gate.Connection:
        """This thread's connection in this process, to the file that has the path now."""
        kept: _Kept | None = getattr(self._local, "kept", None)
        if kept is not None and kept.inode == _inode(self.path) and fork_gate.is_open(kept.connection):
            return kept.connection
        return self._open()

    def drop_connection(self) -> None:
        kept: _Kept | None = getattr(self._local, "kept", None)
        self._local.kept = None
        if kept is not None:
            fork_gate.discard(kept.connection)

    def recreate(self) -> None:
        self.drop_connection()
        for suffix in ("", "-wal", "-shm"):
            try:
                os.unlink(self.path + suffix)
            except FileNotFoundError:
                pass

    def _open(self) -> fork_gate.Connection:
        self.drop_connection()
        make_private(os.path.dirname(self.path))
        connection = sqlite3.connect(
            self.path,
            timeout=_LOCK_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            factory=fork_gate.Connection,
        )
        fork_gate.opened(connection)
        _prepare(connection, self._script)
        self._local.kept = _Kept(_inode(self.path), connection)
        return connection


def _prepare(connection: sqlite3.Connection, script: str) -> None:
    begun = time.monotonic()
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError:
            # SQLite does not wait by itself when two make the log at once.
            if time.monotonic() - begun > _LOCK_TIMEOUT_S:
                raise
            time.sleep(0.02)
    # A list that a power loss takes back costs a few copies, not a wrong byte.
    connection.execute("PRAGMA synchronous = OFF")
    connection.executescript(script)


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return -1
