"""Results as they come. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import pickle
import queue
from collections.abc import Iterator
from typing import Any, Callable

from thalweg.diffusion.failure import Failure

# How often a wait looks whether there is anybody left to wait for.
_LOOK_S = 1.0


class TaskResult:
    """What came of one task of a map: `index` is its place there; `value` is what it returned, or raises."""

    __slots__ = ("index", "arguments", "attempts", "_pickled", "_failure")

    def __init__(
        self, index: int, arguments: Any, attempts: int, pickled: bytes | None, failure: Failure | None
    ) -> None:
        self.index = index
        self.arguments = arguments
        # 0 when it was done by an earlier start of the run.
        self.attempts = attempts
        self._pickled = pickled
        self._failure = failure

    @property
    def error(self) -> BaseException | None:
        return None if self._failure is None else self._failure.exception()

    @property
    def value(self) -> Any:
        if self._failure is not None:
            raise self._failure.exception()
        return pickle.loads(self._pickled or b"")

    def __repr__(self) -> str:
        came = self._failure.line if self._failure is not None else "done"
        return f"TaskResult({self.index}, {came})"


class Results(Iterator[TaskResult]):
    """The results of one map, in the order in which they come; or, `ordered`, in that of the arguments.

    `feed` submits more, when it is given, and gives whether there is any.
    """

    def __init__(self, check: Callable[[], None], ordered: bool, feed: Callable[[Results], bool] | None) -> None:
        self._check = check
        self._ordered = ordered
        self._feed = feed
        self._came: queue.SimpleQueue[TaskResult | BaseException] = queue.SimpleQueue()
        self._early: dict[int, TaskResult] = {}
        self._next = 0
        # Submitted, and handed out.
        self.submitted = 0
        self._taken = 0

    def put(self, result: TaskResult | BaseException) -> None:
        self._came.put(result)

    @property
    def outstanding(self) -> int:
        return self.submitted - self._taken

    def __next__(self) -> TaskResult:
        if self._feed is not None and not self._feed(self):
            self._feed = None
        if self.outstanding == 0:
            raise StopIteration
        result = self._in_order() if self._ordered else self._wait()
        self._taken += 1
        return result

    def _in_order(self) -> TaskResult:
        while self._next not in self._early:
            result = self._wait()
            self._early[result.index] = result
        self._next += 1
        return self._early.pop(self._next - 1)

    def _wait(self) -> TaskResult:
        while True:
            try:
                came = self._came.get(timeout=_LOOK_S)
            except queue.Empty:
                self._check()
                continue
            if isinstance(came, BaseException):
                # For whoever asks again.
                self._came.put(came)
                raise came
            return came
