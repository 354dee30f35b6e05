"""The result of `submit`: a future that can be waited for in threads and in coroutines, cancelled, and be an argument.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Callable, TypeVar

from thalweg.diffusion.calls import Reference, Value
from thalweg.diffusion.pickling import dumps
from thalweg.error_code import misuse

T = TypeVar("T")


class TaskFuture(concurrent.futures.Future[T], Reference):
    """The result of one task, when it is there.

    As an argument of another task it stands for its result: that task waits for it. `running()` is always False: a task can
    be cancelled until it has ended.

    Examples
    --------
    >>> future = d.submit(pow, 2, 10)
    >>> d.submit(pow, future, 2).result()
    1048576
    """

    def __init__(self, owner: Any, cancel: Callable[[TaskFuture[T]], None]) -> None:
        super().__init__()
        # The run is not collected as long as a caller may wait for it.
        self._owner = owner
        self._withdraw = cancel
        self._value: Value | None = None
        self._process = os.getpid()

    def result(self, timeout: float | None = None) -> T:
        """Returns the task's result; raises its exception, and `TimeoutError` after so many seconds.

        Examples
        --------
        >>> d.submit(pow, 2, 10).result()
        1024
        """
        self._check_process()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the task's exception, None if it returned; `TimeoutError` after so many seconds.

        Examples
        --------
        >>> d.submit(int, "x").exception()
        ValueError("invalid literal for int() with base 10: 'x'")
        """
        self._check_process()
        return super().exception(timeout)

    def _check_process(self) -> None:
        """In a fork nothing comes."""
        if os.getpid() != self._process and not self.done():
            raise misuse(
                RuntimeError,
                f"this future belongs to process {self._process}, of which this one is a fork, and will not be done here; "
                "wait for it there",
            )

    def cancel(self) -> bool:
        """Withdraws the task, unless it has ended: one that waits will not run, and nothing comes of one that runs.

        Examples
        --------
        >>> import time
        >>> future = d.submit(time.sleep, 5)
        >>> future.cancel()
        True
        """
        if self.cancelled():
            return True
        if not super().cancel():
            return False
        self.set_running_or_notify_cancel()
        self._withdraw(self)
        return True

    def value(self) -> Value:
        """Its result as an argument; raises what the task raised."""
        if self._value is None:
            self._value = Value.of(dumps(self.result()))
        return self._value

    def __reduce__(self) -> Any:
        raise misuse(TypeError, "a future cannot be captured by a task's function; give it as an argument")

    def __await__(self) -> Generator[Any, None, T]:
        self._check_process()
        return asyncio.wrap_future(self).__await__()


class Scattered(Reference):
    """A value that tasks of this run get as the same object in each slot, and must not change."""

    is_shared = True

    def __init__(self, value: Value, digest: bytes) -> None:
        self._value, self._digest = value, digest

    def value(self) -> Value:
        return self._value

    def digest(self) -> bytes:
        return self._digest


def as_completed(futures: Iterable[TaskFuture[T]], timeout: float | None = None) -> Iterator[TaskFuture[T]]:
    """Futures as they end.

    Parameters
    ----------
    futures:
        Of `submit`.
    timeout:
        Seconds after which `TimeoutError` is raised.

    Examples
    --------
    >>> print(sum(future.result() for future in as_completed([d.submit(pow, 2, n) for n in range(10)])))
    1023
    """
    awaited = list(futures)
    for future in awaited:
        future._check_process()
    yield from concurrent.futures.as_completed(awaited, timeout)  # type: ignore[misc]
