"""Results as they come. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import asyncio
import collections
import pickle
import threading
from collections.abc import Iterator
from typing import Any, Callable

from thalweg.diffusion.after_collection import when_collected
from thalweg.diffusion.failure import Failure
from thalweg.diffusion.report.describe import describe_value
from thalweg.diffusion.report.markup import shortened
from thalweg.error_code import misuse

# How often a wait looks whether there is anybody left to wait for.
_POLL_S = 1.0
# A `repr` unpickles no larger values.
_MAX_SHOWN_BYTES = 64 << 10
_MAX_ERROR_TEXT = 200


class TaskResult:
    """The outcome of one task of a map.

    Attributes
    ----------
    index : int
        Its place among the arguments.
    arguments : object
        The element it was called with; of several iterables a tuple.
    attempts : int
        How often it was begun; 0 when an earlier start of the run has done it.
    value : object
        What the function returned. Raises what the function raised.
    error : BaseException or None
        What the function raised, with the worker's traceback as its cause.

    Examples
    --------
    >>> with Diffusion(workers=2) as d:
    ...     for r in d.map(int, ["1", "two"]).in_order():
    ...         print(r.index, r.arguments, r.attempts, r.error or r.value)
    0 1 1 1
    1 two 1 invalid literal for int() with base 10: 'two'
    """

    __slots__ = ("index", "arguments", "attempts", "_pickled", "_failure")

    def __init__(
        self, index: int, arguments: Any, attempts: int, pickled: bytes | None, failure: Failure | None
    ) -> None:
        self.index = index
        self.arguments = arguments
        self.attempts = attempts
        self._pickled = pickled
        self._failure = failure

    @property
    def error(self) -> BaseException | None:
        """The task's exception, if it raised one."""
        return None if self._failure is None else self._failure.exception()

    @property
    def value(self) -> Any:
        """Returns the function's result; raises its exception."""
        if self._failure is not None:
            raise self._failure.exception()
        return pickle.loads(self._pickled or b"")

    def __repr__(self) -> str:
        return f"TaskResult(index={self.index}, arguments={describe_value(self.arguments)}, {self._outcome()})"

    def _outcome(self) -> str:
        if self._failure is not None:
            return "error=" + shortened(" ".join(self._failure.line.split()), _MAX_ERROR_TEXT)
        pickled = self._pickled or b""
        if len(pickled) > _MAX_SHOWN_BYTES:
            return f"value=… {len(pickled)} bytes"
        try:
            return "value=" + describe_value(self.value)
        except Exception as error:
            return f"value=… cannot be unpickled here ({type(error).__name__})"


class Sink:
    """Where the tasks of one map put their results, whether anybody reads them or not."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._came: collections.deque[TaskResult] = collections.deque()
        self._lost: BaseException | None = None
        self._error: BaseException | None = None
        self.submitted = self.ended = self.taken = 0
        # All arguments were read.
        self.is_complete = False
        self._is_read = self._is_unwanted = False

    def count(self) -> None:
        with self._changed:
            self.submitted += 1

    def put(self, result: TaskResult) -> None:
        with self._changed:
            self.ended += 1
            if not self._is_unwanted:
                self._came.append(result)
            self._changed.notify_all()

    def withdraw(self) -> None:
        """One that was counted will not come."""
        with self._changed:
            self.submitted -= 1
            self._changed.notify_all()

    def abandon(self, error: BaseException) -> None:
        """Nothing more will come."""
        with self._changed:
            self._lost = error
            self._changed.notify_all()

    def complete(self, error: BaseException | None = None) -> None:
        """`error` is what the iterator of the arguments raised; it comes after all results."""
        with self._changed:
            self.is_complete, self._error = True, error
            self._changed.notify_all()

    def leave(self) -> bool:
        """Marks the results as abandoned. Returns whether reading had begun: results never read are run for their effects."""
        with self._changed:
            self._is_unwanted = True
            self._came.clear()
            self._changed.notify_all()
            return self._is_read

    def take_error(self) -> BaseException | None:
        with self._changed:
            error, self._error = self._error, None
            return error

    @property
    def is_left_unread(self) -> bool:
        """Whether reading has begun, and results wait."""
        return self._is_read and len(self._came) > 0

    @property
    def left(self) -> int:
        """Tasks that have not ended."""
        return self.submitted - self.ended

    def await_room(self, most: int, is_waited_for: Callable[[], bool]) -> bool:
        """Returns when less than `most` tasks have not ended and, if a reader reads, as few results are unread; unless
        a caller waits for the end. False when the reader has gone before the end: no more tasks are wanted."""
        with self._changed:
            while True:
                if self._lost is not None or (self._is_read and self._is_unwanted):
                    return False
                is_ahead = self._is_read and self.submitted - self.taken >= most and not is_waited_for()
                if self.left < most and not is_ahead:
                    return True
                self._changed.wait(_POLL_S)

    def next(self, check: Callable[[], None]) -> TaskResult | None:
        """None after the last."""
        while True:
            with self._changed:
                self._is_read = True
                if self._came:
                    self.taken += 1
                    self._changed.notify_all()
                    return self._came.popleft()
                if self._lost is not None:
                    raise self._lost
                if self.is_complete and self.taken == self.submitted:
                    break
                self._changed.notify_all()
                if self._changed.wait(_POLL_S):
                    continue
            check()
        error = self.take_error()
        if error is not None:
            raise error
        return None


class Results(Iterator[TaskResult]):
    """The results of one map, as they come.

    `len()` counts them, where the arguments have a length. An exception of the arguments' iterator comes after the
    results of those before.

    Examples
    --------
    >>> results = d.map(pow, [1, 2, 3], [2, 2, 2])
    >>> [r.value for r in results.in_order()]
    [1, 4, 9]
    """

    def __init__(
        self,
        owner: Any,
        sink: Sink,
        check: Callable[[], None],
        cancel: Callable[[Sink], None],
        leave: Callable[[Sink], None],
        length: int | None,
    ) -> None:
        self._owner = owner
        self._sink, self._check, self._cancel = sink, check, cancel
        self._length = length
        when_collected(self, leave, sink)

    def __repr__(self) -> str:
        of = "an iterator" if self._length is None else str(self._length)
        return f"<Results of {of}: {self._sink.submitted} tasks submitted, {self._sink.ended} ended>"

    def __len__(self) -> int:
        if self._length is None:
            raise misuse(TypeError, "these are results of an iterator, whose length is unknown")
        return self._length

    def __length_hint__(self) -> int:
        return self._length or 0

    def __next__(self) -> TaskResult:
        result = self._sink.next(self._check)
        if result is None:
            raise StopIteration
        return result

    def __aiter__(self) -> Results:
        return self

    async def __anext__(self) -> TaskResult:
        result = await asyncio.get_running_loop().run_in_executor(None, self._sink.next, self._check)
        if result is None:
            raise StopAsyncIteration
        return result

    def in_order(self) -> Iterator[TaskResult]:
        """The results in the order of the arguments.

        Examples
        --------
        >>> [r.value for r in d.map(pow, range(3), range(3)).in_order()]
        [1, 1, 4]
        """
        early: dict[int, TaskResult] = {}
        following = 0
        for result in self:
            early[result.index] = result
            while following in early:
                yield early.pop(following)
                following += 1
        # After some that were cancelled.
        for index in sorted(early):
            yield early[index]

    def cancel(self) -> None:
        """Withdraws the tasks that have not ended, and reads no more arguments.

        Examples
        --------
        >>> results = d.map(pow, range(1000), range(1000))
        >>> results.cancel()
        """
        self._cancel(self._sink)
