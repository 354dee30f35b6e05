"""The waiter for a task: its results' reader or its future. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

from typing import Any

from thalweg.diffusion.failure import Failure
from thalweg.diffusion.futures import TaskFuture
from thalweg.diffusion.results import Sink, TaskResult


class Waiter:
    """Where a task's result goes, and its name in the journal."""

    __slots__ = ("sink", "index", "arguments", "has_outputs", "keywords", "name", "values")

    def __init__(self, sink: Sink | TaskFuture[Any], index: int, arguments: Any, has_outputs: bool) -> None:
        self.sink = sink
        self.index = index
        self.arguments = arguments
        self.has_outputs = has_outputs
        self.keywords: dict[str, Any] = {}
        self.name: bytes | None = None
        self.values: tuple[bytes, ...] = ()

    def resolve(self, attempts: int, pickled: bytes | None, failure: Failure | None) -> None:
        result = TaskResult(self.index, self.arguments, attempts, pickled, failure)
        if isinstance(self.sink, Sink):
            self.sink.put(result)
        elif not self.sink.cancelled():
            try:
                self._deliver(self.sink, result)
            except Exception:
                # Cancelled just now.
                if not self.sink.cancelled():
                    raise

    def _deliver(self, future: TaskFuture[Any], result: TaskResult) -> None:
        error = result.error
        if error is None:
            try:
                value = result.value
            except Exception as failed:
                error = failed
            else:
                future.set_result(value)
                return
        future.set_exception(error)

    def abandon(self, error: BaseException) -> None:
        if isinstance(self.sink, Sink):
            self.sink.abandon(error)
        elif not self.sink.done():
            self.sink.set_exception(error)
