"""The fsspec file system `thalweg`.

Synchronous, and safe to use from many threads and after forks; asynchronous users (zarr) get it through fsspec's own
`AsyncFileSystemWrapper`. Nothing is cached between calls but decoded blocks, which never change: what others commit is
seen at once. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.utils import stringify_path

from thalweg import url
from thalweg._thalweg import Draft, Entry, Store, check_mode, provide
from thalweg.by_url import by_url
from thalweg.connections import Location, check_writable, using
from thalweg.directory_tree import DirectoryTree
from thalweg.entries import byte_range, entry_at, file_at, read_many
from thalweg.error_code import coded, misuse
from thalweg.file import ScratchFile, ThalwegFile, WrittenFile, WrittenText
from thalweg.store_error import store_error
from thalweg.transaction import ThalwegTransaction
from thalweg.upload import ScratchUpload, StreamUpload, Upload, WriteMode, owner

AnyUpload = TypeVar("AnyUpload", bound=Upload)


class ThalwegFileSystem(DirectoryTree):
    """The fsspec file system of a Thalweg store.

    Parameters
    ----------
    store : str or os.PathLike, optional
        A directory or `thalweg://HOST:PORT`. URLs name it as well: `thalweg://HOST:PORT/path`,
        `thalweg:///directory/of/the/store!/path`. Without either it is `$THALWEG_STORE`.
    secret_file : str or os.PathLike, optional
        The file with the secret of the store's node. Default: `$THALWEG_SECRET_FILE`.
    tls_ca : str or os.PathLike, optional
        The file with the certificate authorities (PEM) for the node, which is spoken to by TLS then. Default:
        `$THALWEG_TLS_CA`.
    encoding_mode : str, optional
        How the blocks of files written here are encoded: "performance", "balanced", "archival" or "energy". Default: as the
        store's settings say.
    recompute : bool, optional
        Whether reading a file whose data was dropped runs the recipes that make it again, as this user, in a directory of their
        own; what they make is kept until the program ends, and the store stays as it is. Default: reading it raises an
        `OSError` that says what it would take.

    Examples
    --------
    >>> import fsspec, thalweg
    >>> thalweg.create("/scratch/st")
    >>> fs = fsspec.filesystem("thalweg", store="/scratch/st")
    >>> fs.pipe({"run1/a": b"one", "run1/b": b"two"})
    >>> fs.cat_file("run1/a")
    b'one'
    """

    protocol = "thalweg"
    root_marker = ""
    transaction_type = ThalwegTransaction

    def __init__(
        self,
        store: str | os.PathLike[str] | None = None,
        secret_file: str | os.PathLike[str] | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
        encoding_mode: str | None = None,
        recompute: bool = False,
        **storage_options: Any,
    ) -> None:
        super().__init__(
            store=store,
            secret_file=secret_file,
            tls_ca=tls_ca,
            encoding_mode=encoding_mode,
            recompute=recompute,
            **storage_options,
        )
        if encoding_mode is not None:
            check_mode(encoding_mode)
        self.encoding_mode = encoding_mode
        self.recompute = recompute
        self._named = url.address(store) if store else None
        self._secret_file, self._tls_ca = _absolute(secret_file), _absolute(tls_ca)
        self._strip_protocol = self._strip_own  # type: ignore[method-assign]

    @property
    def address(self) -> str:
        """Returns the address of the store: the one given, or what `$THALWEG_STORE` says now."""
        return self._named or url.address(None)

    @property
    def location(self) -> Location:
        """Returns where the store is, with its credentials."""
        return Location(self.address, self._secret_file, self._tls_ca)

    # Names of files

    def of_url(self, path: Any) -> ThalwegFileSystem:
        """Returns the file system of the store that a URL names, if this one was made without a store; otherwise itself."""
        if self._named is None and not self._intrans and isinstance(path, (str, os.PathLike)):
            named, _ = url.split(stringify_path(path))
            if named is not None:
                return type(self)(
                    store=named,
                    secret_file=self._secret_file,
                    tls_ca=self._tls_ca,
                    encoding_mode=self.encoding_mode,
                    recompute=self.recompute,
                )
        return self

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return url.split(stringify_path(path))[1]

    def _strip_own(self, path: Any) -> Any:
        """Returns the paths of URLs, which name this store if they name one."""
        if isinstance(path, list):
            return [self._strip_own(one) for one in path]
        named, stripped = url.split(stringify_path(path))
        if named is not None and not url.is_same_store(named, self.address):
            raise coded(ValueError(f"{path}: names another store than this file system's, {self.address}"), "TW-102")
        return stripped

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        store, _ = url.split(path)
        return {} if store is None else {"store": store}

    def unstrip_protocol(self, name: str) -> str:
        """Returns the URL of a path, with its store.

        Examples
        --------
        >>> fs.unstrip_protocol("run1/x.dat")
        'thalweg:///scratch/st!/run1/x.dat'
        """
        return url.join(self.address, self._strip_protocol(name))

    @property
    def fsid(self) -> str:
        """Returns a name for this store."""
        return f"thalweg-{self.address}"

    # Reading

    @by_url
    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: dict[str, Any] | None = None,
        compression: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Opens a file.

        Parameters
        ----------
        path : str
            The file; glob characters in it are taken literally.
        mode : str
            As Python's `open` has it: `r`, `w`, `x` or `a`, with `b` for bytes and `+` for both directions. Without `b`
            the file is text, with the keywords `encoding`, `errors` and `newline`.
        block_size : int, optional
            The most that is read ahead (bytes; default 5 MiB).
        cache_options : dict, optional
            For the `cache_type` given, if one is.
        compression : str, optional
            A codec of fsspec (`gzip`, `zstd`, `xz`, ...), or `infer` for the one that the path's ending names.
        version : int, optional
            Reads this version instead of the newest one.

        Returns
        -------
        A file object. Written data are stored when the file is closed, or collected without having been closed; when its
        `with` block is left by an exception, nothing is.

        Examples
        --------
        >>> with fs.open("run1/notes.txt.gz", "w", compression="infer") as file:
        ...     file.write("so far so good")
        >>> fs.open("run1/notes.txt.gz", "r", compression="infer").read()
        'so far so good'
        """
        path = self._strip_protocol(path)
        compression = get_compression(path, compression)
        if "b" not in mode:
            text = {name: kwargs.pop(name) for name in ("encoding", "errors", "newline") if name in kwargs}
            file = self.open(path, mode.replace("t", "") + "b", block_size, cache_options, compression, **kwargs)
            try:
                return WrittenText(file, **text) if file.writable() else io.TextIOWrapper(file, **text)
            except BaseException:
                if file.writable():
                    file.discard()
                raise
        kwargs.setdefault("autocommit", not self._intrans)
        return self._open(path, mode, block_size, cache_options=cache_options, compression=compression, **kwargs)

    @by_url
    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        version: int | None = None,
        size: int | None = None,
        compression: str | None = None,
        **kwargs: Any,
    ) -> Any:
        mode = "".join(sorted(mode, key="rwxab+".find)).replace("+", "") + "+" * ("+" in mode)
        if mode not in {"rb", "wb", "xb", "ab", "rb+", "wb+", "xb+"}:
            raise misuse(ValueError, f"{path}: mode {mode!r} is none of rb, wb, xb, ab, r+b, w+b, x+b")
        if version is not None and mode != "rb":
            raise misuse(ValueError, f"{path}: older versions can only be read")
        if compression is not None and "+" in mode:
            raise misuse(ValueError, f"{path}: a compressed file is either read or written; mode {mode!r} is both")
        entry = self._entry_to_open(path, mode, version)
        if mode == "rb":
            assert entry is not None
            kwargs.update(block_size=block_size or "default", autocommit=autocommit, cache_options=cache_options)
            file = ThalwegFile(self, path, entry, **kwargs)
            return file if compression is None else compr[compression](file, mode="r")
        check_writable(self.location, path)
        write_mode: WriteMode = {"x": "create", "a": "append"}.get(mode[0], "replace")  # type: ignore[assignment]
        if "+" in mode:
            scratch = ScratchUpload(self, path, write_mode, entry, autocommit)
            return ScratchFile(self._joined(scratch), mode)
        stream = StreamUpload(self, path, write_mode, autocommit, compression)
        return WrittenFile(self._joined(stream), mode, 0 if entry is None else entry.size)

    def _joined(self, upload: AnyUpload) -> AnyUpload:
        """Returns an upload, which takes part in the transaction if there is one."""
        if not upload.autocommit and self._intrans:
            if upload.appends and any(one.path == upload.path and not one.discarded for one in self.transaction.files):
                upload.discard()
                why = "is written in this transaction already, and has no end to append to before that ends; write it in one go"
                raise store_error(errno.EBUSY, upload.path, why)
            self.transaction.files.append(upload)
        return upload

    def _entry_to_open(self, path: str, mode: str, version: int | None) -> Entry | None:
        """Returns what the file begins with; raises the errors that are known before anything is written."""
        with using(self.location) as store:
            if mode[0] == "r":
                return self._readable(store, file_at(store, path, version))
            entry = store.entry(os.fsencode(path))
        if entry is None:
            return None
        if mode[0] == "x":
            raise store_error(errno.EEXIST, path)
        if entry.kind == "directory":
            raise store_error(errno.EISDIR, path)
        return entry if mode[0] == "a" and entry.kind == "file" else None

    @by_url
    def cat_file(
        self,
        path: str,
        start: int | None = None,
        end: int | None = None,
        version: int | None = None,
        **kwargs: Any,
    ) -> bytes:
        """Returns the content of a file, or a range of it.

        Parameters
        ----------
        path : str
            The file; glob characters in it are taken literally.
        start, end : int, optional
            The range (bytes), as in a slice: negative numbers count from the end.
        version : int, optional
            A kept version, instead of the newest one.

        Examples
        --------
        >>> fs.cat_file("run1/a", 0, 2)
        b'on'
        """
        with using(self.location) as store:
            entry = self._readable(store, file_at(store, self._strip_protocol(path), version))
            return store.read(entry, *byte_range(entry, start, end))

    def _readable(self, store: Store, *entries: Entry) -> Entry:
        """Returns the first of these files, when those whose data was dropped have been made again, if that is asked for."""
        if self.recompute and any(entry.is_dropped for entry in entries):
            provide(store, [entry for entry in entries if entry.is_dropped], os.getcwd())
        return entries[0]

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """Returns ranges of files, several at once, on several threads.

        Parameters
        ----------
        paths : list of str
            The files.
        starts, ends : int or list of int
            The ranges (bytes), as in slices.
        max_gap : int, optional
            Changes nothing: neighbouring ranges share decoded blocks anyway.
        on_error : {"return", "raise"}
            Whether an exception stands in the result, or is raised.

        Examples
        --------
        >>> fs.cat_ranges(["run1/a", "run1/b"], 0, 2)
        [b'on', b'tw']
        """
        if not isinstance(paths, list):
            raise misuse(TypeError, "paths must be a list")
        starts = starts if isinstance(starts, Iterable) else [starts] * len(paths)
        ends = ends if isinstance(ends, Iterable) else [ends] * len(paths)
        ranges = list(zip(paths, starts, ends))
        if len(ranges) != len(paths):
            raise misuse(ValueError, "paths, starts and ends must be of one length")
        results: list[Any] = [None] * len(ranges)
        systems = [self.of_url(path) for path in paths]
        for system in {id(one): one for one in systems}.values():
            places = [place for place, one in enumerate(systems) if one is system]
            for place, result in zip(places, system._read_many([ranges[place] for place in places])):
                results[place] = result
        if on_error == "raise":
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        return results

    def _read_many(self, ranges: list[tuple[str, Any, Any]]) -> list[Any]:
        with using(self.location) as store:
            requests = [(self._strip_protocol(path), start, end) for path, start, end in ranges]
            return read_many(store, requests, lambda entries: self._readable(store, *entries))

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any) -> Any:
        """Returns the content of a file, or of many.

        Parameters
        ----------
        path : str or list of str
            A path, a pattern, or a list of them.
        recursive : bool
            Whether to read all below directories.
        on_error : {"raise", "return", "omit"}
            What becomes of files that cannot be read, where there are many.

        Returns
        -------
        bytes or dict
            A dict of contents by path, except for one path that is no pattern.

        Examples
        --------
        >>> fs.cat("run1/*")
        {'run1/a': b'one', 'run1/b': b'two'}
        """
        paths = self.expand_path(path, recursive=recursive)
        if len(paths) == 1 and isinstance(path, str) and paths[0] == self._strip_protocol(path):
            return self.cat_file(paths[0], **kwargs)
        if recursive:
            paths = [one for one in paths if not self.isdir(one)]
        contents = self.cat_ranges(paths, None, None, on_error="raise" if on_error == "raise" else "return")
        pairs = zip(paths, contents)
        return {p: content for p, content in pairs if on_error != "omit" or not isinstance(content, BaseException)}

    # Writing

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        """Writes a file.

        Parameters
        ----------
        path : str
            The file.
        value : bytes-like
            Its content.
        mode : {"overwrite", "create"}
            Whether a file that exists gets a new version, or `FileExistsError` is raised.

        Examples
        --------
        >>> fs.pipe_file("run1/a", b"one")
        """
        if self._intrans:
            with self.open(path, "xb" if mode == "create" else "wb") as file:
                file.write(value)
        else:
            self._pipe_all({self._strip_protocol(path): value}, "create" if mode == "create" else "replace")

    def pipe(self, path: str | Mapping[str, Any], value: Any = None, **kwargs: Any) -> None:
        """Writes files. Those of a mapping appear in one commit, all or none.

        Parameters
        ----------
        path : str or dict
            A file, or contents by path.
        value : bytes-like, optional
            The content of one file.

        Examples
        --------
        >>> fs.pipe({"run1/a": b"one", "run1/b": b"two"})
        """
        if isinstance(path, str) or self._intrans:
            super().pipe(path, value, **kwargs)
        else:
            write_mode: WriteMode = "create" if kwargs.get("mode") == "create" else "replace"
            self._pipe_all({self._strip_protocol(one): value for one, value in path.items()}, write_mode)

    def _pipe_all(self, values: Mapping[str, Any], write_mode: WriteMode) -> None:
        with using(self.location) as store:
            drafts = [
                (os.fsencode(path), owner(), write_mode, _draft(store, value, self.encoding_mode))
                for path, value in values.items()
            ]
            store.commit_drafts(drafts)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Makes an empty file, or changes the time of one.

        Parameters
        ----------
        path : str
            The file.
        truncate : bool
            Whether a file that exists becomes empty; otherwise it gets a new version of the same content.

        Examples
        --------
        >>> fs.touch("run1/done")
        """
        path = self._strip_protocol(path)
        if truncate or not self.exists(path):
            return self.pipe_file(path, b"")
        with using(self.location) as store:
            entry = file_at(store, path)
            store.commit_drafts([(entry.path, owner(entry.mode), "replace", store.draft_of(entry))])

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copies a file without reading it: the copy shares all content. Glob characters are taken literally.

        Examples
        --------
        >>> fs.cp_file("run1/a", "run1/c")
        """
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        with using(self.location) as store:
            entry = entry_at(store, path1)
            if entry.kind == "directory":
                return self.makedirs(path2, exist_ok=True)
            entry = file_at(store, path1)
            store.commit_drafts([(os.fsencode(path2), owner(entry.mode), "replace", store.draft_of(entry))])

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any) -> None:
        """Renames, in one commit; a directory is renamed with all below it.

        A file of the new name is replaced, as `os.rename` does.

        Parameters
        ----------
        path1 : str or list of str
            What to rename: a path, a pattern, or a list of them. Many are copied, without reading them, and removed.
        path2 : str
            The new name, or, where it is a directory or ends with a slash, where to put it.

        Examples
        --------
        >>> fs.mv("run1", "run2")
        """
        if not isinstance(path1, str) or maxdepth is not None or self.is_pattern(path1):
            return self._move_many(path1, path2, recursive, maxdepth, **kwargs)
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if source == target:
            return
        if str(path2).endswith("/") or self.isdir(target):
            target = f"{target}/{source.rsplit('/', 1)[-1]}".lstrip("/")
        with using(self.location) as store:
            store.rename(os.fsencode(source), os.fsencode(target))


def _draft(store: Store, value: Any, encoding_mode: str | None) -> Draft:
    writer = store.writer(encoding_mode)
    writer.write(value if isinstance(value, bytes) else bytes(memoryview(value)))
    return writer.finish()


def _absolute(path: str | os.PathLike[str] | None) -> str | None:
    return os.path.abspath(os.path.expanduser(path)) if path else None
