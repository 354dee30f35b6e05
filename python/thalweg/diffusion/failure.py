"""How a task's failure travels: the exception, and the worker's traceback as text.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import io
import pickle
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle

from thalweg.error_code import Coded


class TaskTimeout(Coded, TimeoutError):
    """The task took longer than `timeout_s`; its process was ended."""

    code = "TW-851"


class WorkerLost(Coded, RuntimeError):
    """The processes that ran the task died, again and again."""

    code = "TW-852"


class CannotStart(Coded, RuntimeError):
    """A process for tasks did not start, or ended before it was ready for them."""

    code = "TW-853"


class InputFailed(Coded, RuntimeError):
    """The task that was to write an input of this one failed."""

    code = "TW-854"


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
    def of_fetch(cls, error: BaseException) -> Failure:
        """Of an input that did not come: where in this package that was found out is of no use to anybody."""
        line = traceback.format_exception_only(type(error), error)[-1].strip()
        return cls(line, f"{line}\n", _pickled(error.with_traceback(None)))

    @classmethod
    def of(cls, error: BaseException, died: bool = False) -> Failure:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        line = traceback.format_exception_only(type(error), error)[-1].strip()
        return cls(line, trace, _pickled(error), died)

    def named(self, names: Mapping[str, str]) -> Failure:
        """With a line in which files have their own names, not those of their copies on the worker."""
        line = self.line
        for path, name in names.items():
            line = line.replace(path, name)
        return replace(self, line=line)

    def exception(self) -> BaseException:
        error = _unpickled(self.pickled)
        if error is None:
            error = RuntimeError(self.line)
        error.__cause__ = WorkerTraceback(self.trace)
        return error


def _pickled(error: BaseException) -> bytes | None:
    """By its parts, for an exception that takes other arguments than it keeps; nothing for one with parts that cannot be
    pickled."""
    for pickler in (cloudpickle.Pickler, _ByParts):
        try:
            stream = io.BytesIO()
            pickler(stream).dump(error)
            written = stream.getvalue()
            if isinstance(pickle.loads(written), type(error)):
                return written
        except Exception:
            pass
    return None


class _ByParts(cloudpickle.Pickler):  # type: ignore[misc]
    """Exceptions, also those in a group, are made again without asking their classes for how."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, BaseException):
            return _made_again, (type(value), value.args, vars(value))
        return super().reducer_override(value)


def _made_again(kind: type[BaseException], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    vars(error).update(attributes)
    return error


def _unpickled(written: bytes | None) -> BaseException | None:
    try:
        error = pickle.loads(written) if written is not None else None
    except Exception:
        return None
    return error if isinstance(error, BaseException) else None
