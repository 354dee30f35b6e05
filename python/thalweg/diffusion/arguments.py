"""What stands for files in a task's arguments: those that come, and those it writes.

A `File` or `Output` may stand anywhere in arguments, in objects of any kind that can be pickled. On the worker it is a
`LocalPath`: a string, and a path to what was fetched or is to be written.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thalweg.diffusion.cache.item import Item


@dataclass(frozen=True)
class File:
    """An input: a URL that fsspec opens, or a local path; of it bytes `start` to `end`, or all."""

    url: str
    start: int = 0
    end: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", absolute(self.url))
        if self.start < 0 or (self.end is not None and self.end < self.start):
            raise ValueError(f"{self.url}: there are no bytes {self.start} to {self.end}")

    @property
    def item(self) -> Item:
        return Item(self.url, self.start, self.end)


@dataclass(frozen=True)
class Output:
    """A file the task writes. It appears at its URL when the task has ended well, whole or not at all."""

    url: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", absolute(self.url))


class LocalPath(str):
    """What a task gets for a `File` or an `Output`."""

    __slots__ = ("url",)
    url: str

    def __new__(cls, path: str, url: str = "") -> LocalPath:
        made = super().__new__(cls, path)
        made.url = url
        return made

    def __fspath__(self) -> str:
        return str(self)

    def __reduce__(self) -> Any:
        return LocalPath, (str(self), self.url)


def absolute(url: str | os.PathLike[str]) -> str:
    """A URL as it is, a path from the root: the worker has another working directory."""
    written = os.fspath(url)
    if "://" in written or "::" in written:
        return written.removeprefix("file://") if written.startswith("file:///") else written
    return os.path.abspath(os.path.expanduser(written))


def label(function: Callable[..., Any]) -> str:
    """A function's name in reports and journals."""
    written = getattr(function, "label", None)
    if isinstance(written, str):
        return written
    named = getattr(function, "func", function)
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', repr(named))}"


def base_name(url: str) -> str:
    """The last part of a URL: its ending tells many programs what to write."""
    return Path(url.rstrip("/").split("::")[0]).name or "output"
