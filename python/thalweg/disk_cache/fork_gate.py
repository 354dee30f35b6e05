"""Forks find no SQLite file in use: they wait for what is under way, and all connections are closed before.

SQLite keeps the locks of a process in lists of that process. A child inherits the lists and not the locks: it would wait for its
parent's transactions as for its own, and read without the locks that it believes it has. Closed lists are on no list.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# A fork waits so long for what is under way, and happens without then.
_FORK_TIMEOUT_S = 10.0


class Connection(sqlite3.Connection):
    """One that can be referred to weakly: it is closed with the thread that has it."""


class _Gate:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.users = 0
        self.is_forking = False
        self.connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        # Those that a fork did not wait for. A child never touches them: SQLite forbids even to close them there.
        self.left_open: list[Connection] = []
        self.local = threading.local()


_gate = _Gate()


@contextmanager
def in_use() -> Iterator[None]:
    """Keeps forks from happening meanwhile. May be nested."""
    gate = _gate
    depth = getattr(gate.local, "depth", 0)
    gate.local.depth = depth + 1
    if depth == 0:
        with gate.changed:
            gate.changed.wait_for(lambda: not gate.is_forking, _FORK_TIMEOUT_S)
            gate.users += 1
    try:
        yield
    finally:
        gate.local.depth = depth
        if depth == 0:
            with gate.changed:
                gate.users -= 1
                gate.changed.notify_all()


def opened(connection: Connection) -> None:
    """Has a connection, which any thread may close, closed before a fork."""
    _gate.connections.add(connection)


def discard(connection: Connection) -> None:
    """Closes a connection of this process."""
    if connection in _gate.connections:
        _gate.connections.discard(connection)
        with suppress(sqlite3.Error):
            connection.close()


def is_open(connection: Connection) -> bool:
    """Whether a connection is this process's, and was not closed for a fork."""
    return connection in _gate.connections


def _before_fork() -> None:
    gate = _gate
    with gate.changed:
        gate.is_forking = True
        if not getattr(gate.local, "depth", 0) and gate.changed.wait_for(lambda: gate.users == 0, _FORK_TIMEOUT_S):
            for connection in list(gate.connections):
                discard(connection)
        gate.left_open = list(gate.connections)


def _after_fork_in_parent() -> None:
    with _gate.changed:
        _gate.is_forking, _gate.left_open = False, []
        _gate.changed.notify_all()


def _begin_child() -> None:
    global _gate
    _inherited.append(_gate)
    _gate = _Gate()


_inherited: list[_Gate] = []
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_begin_child)
