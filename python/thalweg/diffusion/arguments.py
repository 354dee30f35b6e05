"""What a task is called with: files that come, files it writes, and everything else, pickled.

A `File` or `Output` may stand anywhere in arguments, in lists, tuples and dictionaries too. On the worker it is a
`LocalPath`: a string, and a path to what was fetched or is to be written.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle

from thalweg.diffusion.item import Item

# Most of what arguments are made of; to ask of each whether it is a mapping takes longer than to pickle it.
_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})


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


def files_in(value: Any) -> list[File | Output]:
    """The files in a value."""
    found: list[File | Output] = []
    _gather(value, found)
    return found


def _gather(value: Any, found: list[File | Output]) -> None:
    if type(value) in _PLAIN:
        return
    if isinstance(value, (File, Output)):
        found.append(value)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _gather(part, found)
    elif isinstance(value, Mapping):
        for part in value.values():
            _gather(part, found)


def replaced(value: Any, replacement: Callable[[File | Output], Any]) -> Any:
    """The same value with something else for its files."""
    if isinstance(value, (File, Output)):
        return replacement(value)
    if isinstance(value, tuple):
        parts = [replaced(part, replacement) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [replaced(part, replacement) for part in value]
    if isinstance(value, dict):
        return {name: replaced(part, replacement) for name, part in value.items()}
    return value


@dataclass(frozen=True)
class Call:
    """A task's arguments as they travel."""

    payload: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @classmethod
    def of(cls, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Call:
        inputs, outputs = [], []
        for file in files_in((arguments, keywords)):
            if isinstance(file, File):
                inputs.append(file.item.key)
            else:
                outputs.append(file.url)
        if len(set(outputs)) < len(outputs):
            raise ValueError(f"a task writes each of its outputs once: {outputs}")
        return cls(pickled((arguments, keywords)), tuple(dict.fromkeys(inputs)), tuple(outputs))

    def name(self, function: str) -> bytes:
        """Equal for equal calls, also in another process."""
        return hashlib.blake2b(function.encode() + b"\0" + self.payload, digest_size=16).digest()


def unpacked(payload: bytes, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> tuple[Any, dict[str, Any]]:
    """Arguments and keywords, with the paths that are given by item and by URL."""

    def path_of(file: File | Output) -> LocalPath:
        if isinstance(file, File):
            return LocalPath(inputs[file.item.key], file.url)
        return LocalPath(outputs[file.url], file.url)

    arguments, keywords = replaced(pickle.loads(payload), path_of)
    return arguments, keywords


def pickled(value: Any) -> bytes:
    """Without references to what came before, as far as that goes: they would tell equal values apart."""
    written = io.BytesIO()
    pickler = pickle.Pickler(written, protocol=5)
    pickler.fast = True
    try:
        pickler.dump(value)
    except Exception:
        # What pickle cannot write, or contains itself.
        return bytes(cloudpickle.dumps(value, protocol=5))
    return written.getvalue()


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
