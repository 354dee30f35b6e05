"""The fsspec layer `thalwegcache`: any file system's files, read through a `BlockCache`.

    fsspec.open("thalwegcache::s3://bucket/x", thalwegcache={"folder": "/local/cache", "limit": "20 GB"})

What is kept are blocks of what was read, under the key that the file system gives for the content (`ukey`): a changed
file has another key, and is fetched again. Everything that writes goes to the file system itself.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fsspec
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from thalweg.disk_cache.block_cache import BlockCache
from thalweg.error_code import Coded
from thalweg.read_ahead import ReadAhead

BLOCK_BYTES = 4 << 20

# Asked for at once when neighbouring blocks are missing.
_MAX_BLOCKS = 8
# How often a file that changes while it is fetched is read again.
_ATTEMPTS = 5
_THREADS = 8


class CachedFileSystem(ChainedFileSystem):  # type: ignore[misc]
    """A file system whose files are read through a cache on this machine.

    Parameters
    ----------
    folder : str or os.PathLike
        Where the cache is.
    limit : int or str
        The most it holds, in bytes or as in `20 GB`; the same in all processes that share the folder.
    block_bytes : int
        What is fetched and kept at a time; the same in all processes that share the folder.
    fs : AbstractFileSystem, optional
        The file system.
    target_protocol, target_options : optional
        The file system's protocol and options, instead of `fs`. Chained URLs name them.

    Examples
    --------
    >>> cached = fsspec.filesystem("thalwegcache", fs=fs, folder="/local/cache", limit="20 GB")
    >>> cached.cat_file("run1/x.dat", 0, 4096)
    >>> fsspec.open("thalwegcache::s3://bucket/x", thalwegcache={"folder": "/local/cache"}).open().read()
    """

    protocol = "thalwegcache"
    _strip_tokenize_options = ("fo",)

    def __init__(
        self,
        folder: str | os.PathLike[str],
        limit: int | str = "10 GB",
        block_bytes: int = BLOCK_BYTES,
        fs: AbstractFileSystem | None = None,
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        fo: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.fs = fs if fs is not None else fsspec.filesystem(target_protocol, **(target_options or {}))
        self.cache = BlockCache(folder, limit)
        self.block_bytes = block_bytes
        # Names are the file system's own.
        self._strip_protocol = self.fs._strip_protocol
        self._parent = self.fs._parent

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        if mode != "rb":
            return self.fs.open(path, mode, **kwargs)
        return CachedFile(self, path, block_size=kwargs.pop("block_size", None) or self.block_bytes)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        path = self._strip_protocol(path)
        for _ in range(_ATTEMPTS):
            try:
                content = _Content(self, path)
                begin, stop, _step = slice(start, end).indices(content.size)
                return content.read(begin, max(begin, stop))
            except FileChangedError as changed:
                error = changed
        raise error

    def cat_ranges(
        self, paths: list[str], starts: Any, ends: Any, max_gap: int | None = None, on_error: str = "return", **_: Any
    ) -> list[Any]:
        starts = starts if isinstance(starts, Iterable) else [starts] * len(paths)
        ends = ends if isinstance(ends, Iterable) else [ends] * len(paths)

        def one(requested: tuple[str, int | None, int | None]) -> Any:
            try:
                return self.cat_file(*requested)
            except Exception as error:
                if on_error == "raise":
                    raise
                return error

        with ThreadPoolExecutor(_THREADS) as threads:
            return list(threads.map(one, zip(paths, starts, ends)))

    # As it is there.

    @property
    def fsid(self) -> str:
        return str(self.fs.fsid)

    def info(self, path: str, **kwargs: Any) -> Any:
        return self.fs.info(path, **kwargs)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        return self.fs.ls(path, detail=detail, **kwargs)

    def find(self, path: str, *args: Any, **kwargs: Any) -> Any:
        return self.fs.find(path, *args, **kwargs)

    def exists(self, path: str, **kwargs: Any) -> bool:
        return bool(self.fs.exists(path, **kwargs))

    def isdir(self, path: str) -> bool:
        return bool(self.fs.isdir(path))

    def isfile(self, path: str) -> bool:
        return bool(self.fs.isfile(path))

    def ukey(self, path: str) -> str:
        return str(self.fs.ukey(path))

    def checksum(self, path: str) -> Any:
        return self.fs.checksum(path)

    def created(self, path: str) -> Any:
        return self.fs.created(path)

    def modified(self, path: str) -> Any:
        return self.fs.modified(path)

    def invalidate_cache(self, path: str | None = None) -> None:
        self.fs.invalidate_cache(path)

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        self.fs.pipe_file(path, value, mode=mode, **kwargs)

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        self.fs.mkdir(path, create_parents=create_parents, **kwargs)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.fs.makedirs(path, exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self.fs.rmdir(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        self.fs.rm(path, recursive=recursive, maxdepth=maxdepth)

    def rm_file(self, path: str) -> None:
        self.fs.rm_file(path)

    def _rm(self, path: str) -> None:
        self.fs.rm_file(path)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copies a file, by the file system itself."""
        self.fs.cp_file(path1, path2, **kwargs)

    def mv(self, path1: Any, path2: Any, **kwargs: Any) -> None:
        self.fs.mv(path1, path2, **kwargs)


class FileChangedError(Coded, OSError):
    """The content of a file changed while it was fetched."""

    code = "TW-320"


class _Content:
    """One content of a file: its size, its key, and its blocks from the cache or the file system."""

    def __init__(self, fs: CachedFileSystem, path: str) -> None:
        self.fs, self.path = fs, path
        info = fs.fs.info(path)
        # A version that can be asked for stays what it is; other file systems are asked again after each fetch.
        self.version: dict[str, Any] = {"version": info["version"]} if "ukey" in info else {}
        self.size = int(info["size"])
        self.key = info["ukey"] if "ukey" in info else fs.ukey(path)
        self._block_key = f"{fs.block_bytes} {self.key}"
        if not self.version and int(fs.fs.size(path)) != self.size:
            raise FileChangedError(f"{path}: changed while its size was read")

    def read(self, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        return b"".join(self._pieces(range(start, end)))

    def _pieces(self, requested: range) -> Iterable[bytes]:
        length = self.fs.block_bytes
        missing: list[int] = []
        for number in range(requested.start // length, (requested.stop - 1) // length + 1):
            kept = self._kept(number, requested)
            if kept is None:
                missing.append(number)
            if missing and (kept is not None or len(missing) == _MAX_BLOCKS):
                yield from self._fetched(missing[0], missing[-1], requested)
                missing = []
            if kept is not None:
                yield kept
        if missing:
            yield from self._fetched(missing[0], missing[-1], requested)

    def _inside(self, number: int, requested: range) -> range:
        """The part of a block of a request, counted from the block's start."""
        begin, length = number * self.fs.block_bytes, self.fs.block_bytes
        return range(max(requested.start - begin, 0), min(requested.stop - begin, length))

    def _kept(self, number: int, requested: range) -> bytes | None:
        part = self._inside(number, requested)
        kept = self.fs.cache.get(self._block_key, number, part.start, part.stop)
        return kept if kept is not None and len(kept) == len(part) else None

    def _fetched(self, first: int, last: int, requested: range) -> list[bytes]:
        length = self.fs.block_bytes
        content = self.fs.fs.cat_file(self.path, first * length, min((last + 1) * length, self.size), **self.version)
        # Only what was surely fetched of this content is kept under its key.
        self._check()
        blocks = [content[at : at + length] for at in range(0, len(content), length)]
        for number, block in enumerate(blocks, first):
            try:
                self.fs.cache.put(self._block_key, number, block)
            except OSError:
                # The disk is full, or the folder cannot be made: it is read all the same.
                break
        parts = [self._inside(number, requested) for number in range(first, last + 1)]
        return [block[part.start : part.stop] for block, part in zip(blocks, parts)]

    def _check(self) -> None:
        now = self.fs.fs.info(self.path, **self.version)["ukey"] if self.version else self.fs.ukey(self.path)
        if now != self.key:
            raise FileChangedError(f"{self.path}: changed while it was read")


class CachedFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read. When its content changes, reading fails rather than mix two contents."""

    def __init__(self, fs: CachedFileSystem, path: str, block_size: int) -> None:
        self._content = _Content(fs, path)
        super().__init__(fs, path, "rb", block_size=block_size, size=self._content.size, cache_type=ReadAhead.name)

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._content.read(start, min(end, self.size))
