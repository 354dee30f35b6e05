"""Stands for files in a task's arguments: those that come, and those it writes.

A `File` or `Output` may stand anywhere in arguments, in objects of any kind that can be pickled. On the worker it is a
`LocalPath`: a string, and a path to what was fetched or is to be written.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import fsspec
from fsspec.core import has_magic

from thalweg import url as store_url
from thalweg.diffusion.cache.item import Item
from thalweg.error_code import misuse

# Where users find what the standard library defines elsewhere.
_PUBLIC_MODULES = {"genericpath": "os.path", "posixpath": "os.path", "_operator": "operator"}

# What a local path is of: a whole `File`, a range of one, or an `Output`.
Kind = Literal["file", "range", "output"]

# Where what follows `://` is a path.
_WITHOUT_HOST = ("file", "local", "memory")


@dataclass(frozen=True)
class File:
    """An input of a task: a file, a range of one, or a folder with all below it (as a Zarr store is).

    It may stand anywhere in a task's arguments. The function gets the path of a copy on its own machine: of a file or
    folder under its own ending. A task whose input another task writes (that was submitted before) waits for it; so do
    a folder for what tasks write in it, and a file for the folder it lies in. Tasks that are submitted later and write
    it wait for those that read it.

    Parameters
    ----------
    url : str or os.PathLike
        What fsspec opens, or a local path.
    start, end : int, optional
        The range of bytes of a file, as in a slice; all by default.

    Examples
    --------
    >>> with open("numbers.txt", "w") as file:
    ...     _ = file.write("0123456789")
    >>> with Diffusion(workers=2) as d:
    ...     print(d.submit(os.path.getsize, File("numbers.txt")).result())
    ...     print(d.submit(os.path.getsize, File("numbers.txt", 2, 5)).result())
    10
    3
    """

    url: str
    start: int = 0
    end: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", absolute(self.url))
        if self.start < 0 or (self.end is not None and self.end < self.start):
            raise misuse(ValueError, f"{self.url}: there are no bytes {self.start} to {self.end}")

    @property
    def item(self) -> Item:
        return Item(self.url, self.start, self.end)

    @classmethod
    def glob(cls, pattern: str | os.PathLike[str], storage_options: dict[str, Any] | None = None) -> list[File]:
        """Returns the files and folders whose names fit a pattern, sorted by name; an empty list if none does.

        Parameters
        ----------
        pattern : str or os.PathLike
            A URL or local path with `*`, `?`, `[…]` or `**`, as fsspec's `glob` takes it.
        storage_options : dict, optional
            fsspec's, as those of `Diffusion`.

        Examples
        --------
        >>> for name in "ab":
        ...     with open(f"{name}.txt", "w") as file:
        ...         _ = file.write(name)
        >>> with Diffusion(workers=2) as d:
        ...     print([r.value for r in d.map(os.path.getsize, File.glob("?.txt")).in_order()])
        [1, 1]
        """
        url = absolute(pattern)
        first, separator, rest = url.partition("::")
        fs, path = fsspec.core.url_to_fs(url, **(storage_options or {}))
        if separator and not has_magic(first):
            # The pattern is of what lies behind the first file system, which names it as that does.
            fs, path = fsspec.core.url_to_fs(rest, **(storage_options or {}))
            return [cls(f"{first}::{fs.unstrip_protocol(name)}") for name in sorted(fs.glob(path))]
        return [cls(fs.unstrip_protocol(name) + separator + rest) for name in sorted(fs.glob(path))]


@dataclass(frozen=True)
class Output:
    """A file or folder that a task writes. It appears at its URL when the task has ended well, whole or not at all.

    The function gets the path to write to: a file, or a folder that it makes there. Tasks that are submitted later and
    have it as their `File` or `Output` wait for it.

    A file replaces an older one. A folder replaces one that this run wrote, or an earlier start with the same run
    folder; where another one is that is not empty, or a file, the task fails with `FileExistsError`.

    Parameters
    ----------
    url : str or os.PathLike
        Where fsspec can write, or a local path. No root, and not the current directory or one above it.
    replace : bool
        A folder replaces whatever is there, with all that is in it.

    Examples
    --------
    >>> def write(text, path):
    ...     with open(path, "w") as file:
    ...         file.write(text)
    >>> with Diffusion(workers=2) as d:
    ...     written = d.submit(write, "so far so good", Output("out/a.txt"))
    ...     size = d.submit(os.path.getsize, File("out/a.txt"))
    ...     print(size.result())
    14
    """

    url: str
    replace: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", absolute(self.url))
        _check_output(self.url)


class LocalPath(str):
    """The path a task gets for a `File` or an `Output`."""

    __slots__ = ("url", "kind")
    url: str
    kind: Kind

    def __new__(cls, path: str, url: str = "", kind: Kind = "file") -> LocalPath:
        made = super().__new__(cls, path)
        made.url, made.kind = url, kind
        return made

    def __reduce__(self) -> Any:
        return LocalPath, (str(self), self.url, self.kind)


def absolute(url: str | os.PathLike[str]) -> str:
    """A URL as it is, a path from the root: the worker has another working directory."""
    if not isinstance(url, (str, os.PathLike)) and not getattr(url, "protocol", ""):
        raise misuse(TypeError, f"{url!r}: a file is named by a URL or a path")
    # Of a path of universal_pathlib's only its text has the protocol.
    written = str(url) if getattr(url, "protocol", "") else os.fspath(url)
    if not written:
        raise misuse(ValueError, "the URL or path is empty")
    if "://" in written or "::" in written:
        written = written.removeprefix("file://") if written.startswith("file:///") else written
        # One name for a folder, however it is written; to a web server it may be another page.
        if "http" in written.partition("://")[0]:
            return written
        plain = written.rstrip("/")
        return f"{plain}//" if plain.endswith(":") else plain or "/"
    return os.path.abspath(os.path.expanduser(written))


def _check_output(url: str) -> None:
    """A folder that appears there would replace all that a store or the user's own work has."""
    if "://" in url or "::" in url:
        if _is_root(url.rpartition("::")[2]):
            raise misuse(
                ValueError, f"{url}: is the root of a file system or store; an output needs a name of its own in it"
            )
        return
    if not os.path.isdir(url):
        return
    place, here = os.path.realpath(url), os.path.realpath(os.curdir)
    if os.path.commonpath([place, here]) == place:
        what = "the current directory" if place == here else "above the current directory"
        raise misuse(ValueError, f"{url}: is {what}; an output needs a name of its own")


def _is_root(url: str) -> bool:
    protocol, _, rest = url.partition("://")
    if protocol == "thalweg":
        return not store_url.split(url)[1]
    # Of most the first part is a host or bucket.
    return "/" not in rest.strip("/") if protocol not in _WITHOUT_HOST else not rest.strip("/")


def label(function: Callable[..., Any]) -> str:
    """A function's name in reports and journals."""
    written = getattr(function, "label", None)
    if isinstance(written, str):
        return written
    named: Any = function
    for inner in ("func", "__wrapped__"):
        named = getattr(named, inner, named)
    # Of an object that can be called, its class: it has no name, and its repr is another one in each process.
    named = named if hasattr(named, "__qualname__") else type(named)
    module = getattr(named, "__module__", "")
    return f"{_PUBLIC_MODULES.get(module, module)}.{named.__qualname__}"


def base_name(url: str) -> str:
    """The last part of a URL: many programs choose the format by its ending."""
    return Path(url.rstrip("/").split("::")[0]).name or "output"
