"""Reads an iterator of arguments in the background. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from thalweg.diffusion.results import Sink

if TYPE_CHECKING:
    from thalweg.diffusion.run import Calls, Run

# Tasks of an iterator, submitted before the first of them has ended.
_LOOK_AHEAD = 10_000
# With less to do than this, tasks of an iterator do not wait for others to go out with; and never longer than that.
_FEW = 100
_GATHER_S = 0.005


class Feeder:
    """Some way ahead of the tasks that end."""

    def __init__(self, run: Run, calls: Calls, numbered: Iterator[tuple[int, tuple[Any, ...], Any]]) -> None:
        assert isinstance(calls.sink, Sink)
        self.sink = calls.sink
        self._run, self._calls, self._numbered = run, calls, numbered
        self._mutex = threading.Lock()
        self._chunk: list[tuple[int, tuple[Any, ...], Any]] = []
        self._since = 0.0
        self._is_over = False

    def run(self) -> None:
        error: BaseException | None = None
        try:
            while self.sink.await_room(_LOOK_AHEAD, self._run.is_waited_for) and not self._is_over:
                one = next(self._numbered, None)
                if one is None:
                    break
                self._take(one)
            self._flush()
        except BaseException as raised:
            error = raised
            self.flush_quietly()
        if self._is_over:
            # No caller needs the outcome.
            error = None
        else:
            self.sink.complete(error)
        self._run.fed(self, error is not None)

    def stop(self, error: BaseException | None) -> None:
        """Does not wait for the iterator. A reader gets `error` in the end."""
        self._is_over = True
        with self._mutex:
            self._chunk = []
        self.sink.complete(error)

    def is_due(self) -> bool:
        """The iterator may take long for the next: what it gave is not to wait for that when workers are idle."""
        return bool(self._chunk) and self.sink.left < _FEW and not self._mutex.locked()

    def _take(self, one: tuple[int, tuple[Any, ...], Any]) -> None:
        now = time.monotonic()
        with self._mutex:
            if not self._chunk:
                self._since = now
            if not self._is_over:
                self._chunk.append(one)
            is_due = self.sink.left < _FEW or len(self._chunk) >= _FEW or now - self._since > _GATHER_S
        if is_due:
            self._flush()

    def _flush(self) -> None:
        with self._mutex:
            chunk, self._chunk = self._chunk, []
            if chunk:
                self._run.submit_chunk(self._calls, chunk)

    def flush_quietly(self) -> None:
        try:
            self._flush()
        except Exception:
            # The run has ended, and says so to who reads.
            pass
