"""Runs finalizers of collected objects in a thread of its own.

Garbage is collected in any thread, in the midst of anything, and with any lock held: also with those that starting a thread
waits for. So a finalizer here takes no lock and starts nothing; it puts what is to be done into a queue, which a thread
reads that was there before. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

Act = Callable[[], Any]

# Time for all finalizers left when the program ends.
_EXIT_TIMEOUT_S = 10.0

# Its `put` may be called while it is being called.
_due: queue.SimpleQueue[Act] = queue.SimpleQueue()
_starting = threading.Lock()
_thread: threading.Thread | None = None
_at_exit: set[weakref.finalize] = set()  # type: ignore[type-arg]


def when_collected(owner: Any, act: Callable[..., Any], *arguments: Any, at_exit: bool = False) -> weakref.finalize:  # type: ignore[type-arg]
    """Calls a function, which must not refer to the owner, after that was collected; also when the program ends `at_exit`. Not
    in forked processes, which have nothing to end."""
    _start_thread()
    finalizer = weakref.finalize(owner, _note, os.getpid(), partial(act, *arguments))
    finalizer.atexit = False
    if at_exit:
        _at_exit.difference_update([other for other in list(_at_exit) if not other.alive])
        _at_exit.add(finalizer)
    return finalizer


def _note(process: int, act: Act) -> None:
    if process == os.getpid():
        _due.put(act)


def _start_thread() -> None:
    global _thread
    with _starting:
        if _thread is None:
            _thread = threading.Thread(target=_act, args=(_due,), name="thalweg-collected", daemon=True)
            _thread.start()


def _act(due: queue.SimpleQueue[Act]) -> None:
    """Each in a thread of its own, since none is to wait for another."""
    while True:
        act = due.get()
        try:
            threading.Thread(target=act, name="thalweg-end", daemon=True).start()
        except RuntimeError:
            # The interpreter ends, and starts no threads any more.
            act()


def _end() -> None:
    """In the thread, too: one that cannot end is left behind."""
    ended: queue.SimpleQueue[None] = queue.SimpleQueue()
    acts = [found[2][1] for found in (finalizer.detach() for finalizer in list(_at_exit)) if found is not None]
    for act in acts:
        _due.put(partial(_end_one, act, ended))
    give_up = time.monotonic() + _EXIT_TIMEOUT_S
    try:
        for _ in acts:
            ended.get(timeout=max(0.0, give_up - time.monotonic()))
    except queue.Empty:
        pass


def _end_one(act: Act, ended: queue.SimpleQueue[None]) -> None:
    try:
        act()
    finally:
        ended.put(None)


def _begin_child() -> None:
    global _due, _starting, _thread
    _due, _starting, _thread = queue.SimpleQueue(), threading.Lock(), None
    _at_exit.clear()


atexit.register(_end)
os.register_at_fork(after_in_child=_begin_child)
