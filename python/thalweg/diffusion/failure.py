"""How a task's failure travels: the exception, and the worker's traceback as text.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass

import cloudpickle


class TaskTimeout(TimeoutError):
    """The task took longer than `timeout_s`; its process was ended."""


class WorkerLost(RuntimeError):
    """The processes that ran the task died, again and again."""


class InputFailed(RuntimeError):
    """The task that was to write an input of this one failed."""


class WorkerTraceback(Exception):
    """The cause of an exception: where on the worker it was raised."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\non the worker:\n{self.text}"


@dataclass(frozen=True)
class Failure:
    """`line` says it in one line; `died` means that the process did, not the task's own doing as far as we know."""

    line: str
    trace: str
    pickled: bytes | None
    died: bool = False

    @classmethod
    def of(cls, error: BaseException, died: bool = False) -> Failure:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        line = traceback.format_exception_only(type(error), error)[-1].strip()
        return cls(line, trace, _pickled(error), died)

    def exception(self) -> BaseException:
        error = _unpickled(self.pickled)
        if error is None:
            error = RuntimeError(self.line)
        error.__cause__ = WorkerTraceback(self.trace)
        return error


def _pickled(error: BaseException) -> bytes | None:
    """Nothing for an exception that cannot be made again: some take other arguments than they keep."""
    try:
        written = bytes(cloudpickle.dumps(error))
        pickle.loads(written)
    except Exception:
        return None
    return written


def _unpickled(written: bytes | None) -> BaseException | None:
    try:
        error = pickle.loads(written) if written is not None else None
    except Exception:
        return None
    return error if isinstance(error, BaseException) else None
