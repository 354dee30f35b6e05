"""The fsspec file system `thalweg`.

Synchronous, and safe to use from many threads and after forks; asynchronous users (zarr) get it through fsspec's own
`AsyncFileSystemWrapper`. Nothing is cached between calls but decoded blocks, which never change: what others commit is
seen at once. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from thalweg import url
from thalweg._thalweg import Draft, Entry, Store
from thalweg.connections import Location, using
from thalweg.file import Placing, ScratchFile, ThalwegFile, owner
from thalweg.transaction import ThalwegTransaction

Info = dict[str, Any]

_MAGIC = set("*?[")
# As many as Linux follows.
_MOST_LINKS = 40


class ThalwegFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Files of a Thalweg store.

    Parameters
    ----------
    store:
        A directory or `thalweg://HOST:PORT`. URLs name it as well: `thalweg://HOST:PORT/path`,
        `thalweg:///directory/of/the/store!/path`. Without either it is `$THALWEG_STORE`.
    secret_file:
        The file with the secret of the store's node. Default: `$THALWEG_SECRET_FILE`.
    tls_ca:
        The file with the authorities (PEM) that vouch for the node, with which TLS is spoken. Default: `$THALWEG_TLS_CA`.
    """

    protocol = "thalweg"
    root_marker = ""
    transaction_type = ThalwegTransaction

    def __init__(
        self,
        store: str | os.PathLike[str] | None = None,
        secret_file: str | os.PathLike[str] | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
        **storage_options: Any,
    ) -> None:
        super().__init__(store=store, secret_file=secret_file, tls_ca=tls_ca, **storage_options)
        self._named = url.address(store) if store else None
        self._secret_file, self._tls_ca = _absolute(secret_file), _absolute(tls_ca)

    @property
    def address(self) -> str:
        """Of the store: as named, or as `$THALWEG_STORE` says now; fsspec keeps instances for longer than that."""
        return self._named or url.address(None)

    @property
    def location(self) -> Location:
        """Of the store, with its credentials."""
        return Location(self.address, self._secret_file, self._tls_ca)

    # Names of files

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return url.split(stringify_path(path))[1]

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        store, _ = url.split(path)
        return {} if store is None else {"store": store}

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a path, with its store."""
        return url.join(self.address, self._strip_protocol(name))

    @property
    def fsid(self) -> str:
        return f"thalweg-{self.address}"

    # Looking

    def described(self, entry: Entry) -> Info:
        """An entry as fsspec shows it, with what the store knows besides."""
        info: Info = {
            "name": os.fsdecode(entry.path),
            "size": entry.size,
            "type": entry.kind,
            "mode": entry.mode,
            "uid": entry.uid,
            "gid": entry.gid,
            "nlink": entry.links,
            "mtime": entry.modified_ns / 1e9,
        }
        if entry.kind == "file":
            info["version"] = entry.version
            info["committed"] = (entry.committed_ns or 0) / 1e9
            info["ukey"] = _ukey(entry)
        elif entry.kind == "link":
            info["destination"] = os.fsdecode(entry.target)
            info["islink"] = True
        return info

    def info(self, path: str, version: int | None = None, **kwargs: Any) -> Info:
        with using(self.location) as store:
            return self.described(_entry(store, self._strip_protocol(path), version))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        path = self._strip_protocol(path)
        with using(self.location) as store:
            try:
                entries = store.list(os.fsencode(path), False)
            except NotADirectoryError:
                entries = [_entry(store, path)]
        return [self.described(entry) for entry in entries] if detail else [os.fsdecode(e.path) for e in entries]

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        path = self._strip_protocol(path)
        found: list[Entry] = []
        with using(self.location) as store:
            top = store.entry(os.fsencode(path))
            if top is not None and top.kind == "directory":
                found = store.list(os.fsencode(path), True)
            if top is not None and (top.kind != "directory" or (withdirs and path)):
                found.append(top)
        start = path.count("/") + 1 if path else 0
        kept = [
            entry
            for entry in found
            if (withdirs or entry.kind != "directory")
            and (maxdepth is None or entry.path.count(b"/") - start < maxdepth)
        ]
        infos = {os.fsdecode(entry.path): entry for entry in kept}
        names = sorted(infos)
        return {name: self.described(infos[name]) for name in names} if detail else names

    def exists(self, path: str, **kwargs: Any) -> bool:
        return self._kind(path) is not None

    def lexists(self, path: str, **kwargs: Any) -> bool:
        return self.exists(path)

    def isdir(self, path: str) -> bool:
        return self._kind(path) == "directory"

    def isfile(self, path: str) -> bool:
        return self._kind(path) == "file"

    def _kind(self, path: str) -> str | None:
        # Not by `info` and any exception, as fsspec has it: a node that is gone has not lost its files.
        with using(self.location) as store:
            entry = store.entry(os.fsencode(self._strip_protocol(path)))
        return None if entry is None else entry.kind

    def versions(self, path: str) -> list[Info]:
        """The kept versions of a file, oldest first; `open`, `cat_file` and `info` take their number as `version`."""
        with using(self.location) as store:
            return [self.described(entry) for entry in store.versions(os.fsencode(self._strip_protocol(path)))]

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["mtime"], timezone.utc)

    def created(self, path: str) -> datetime:
        """When the oldest kept version of a file was committed; of a directory, when it was made."""
        info = self.info(path)
        if info["type"] == "file":
            return datetime.fromtimestamp(self.versions(path)[0]["committed"], timezone.utc)
        return datetime.fromtimestamp(info["mtime"], timezone.utc)

    def ukey(self, path: str) -> str:
        """Stands for the content: never the same for two. `blake3-` and the digest where the store has it."""
        info = self.info(path)
        return str(info["ukey"]) if "ukey" in info else super().ukey(path)

    def checksum(self, path: str) -> int:
        return int(hashlib.sha256(self.ukey(path).encode()).hexdigest(), 16)

    # Reading

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        version: int | None = None,
        size: int | None = None,
        **kwargs: Any,
    ) -> Any:
        mode = "".join(sorted(mode, key="rwxab+".index)).replace("+", "") + "+" * ("+" in mode)
        if mode not in {"rb", "wb", "xb", "ab", "rb+", "wb+", "xb+"}:
            raise ValueError(f"{path}: mode {mode!r} is none of rb, wb, xb, ab, r+b, w+b, x+b")
        if version is not None and mode != "rb":
            raise ValueError(f"{path}: older versions can only be read")
        entry = self._entry_to_open(path, mode, version)
        placing: Placing = {"x": "create", "a": "append"}.get(mode[0], "replace")  # type: ignore[assignment]
        if "+" in mode:
            scratch = ScratchFile(self, path, placing, entry, autocommit)
            if not autocommit and mode[0] == "r":
                # `open` takes what is read for not being written.
                self.transaction.files.append(scratch)
            return scratch
        kwargs.update(block_size=block_size or "default", autocommit=autocommit, cache_options=cache_options)
        return ThalwegFile(self, path, mode, placing, entry, **kwargs)

    def _entry_to_open(self, path: str, mode: str, version: int | None) -> Entry | None:
        """What the file begins with; raises what can be told before anything is written."""
        with using(self.location) as store:
            if mode[0] == "r":
                return _file(store, path, version)
            entry = store.entry(os.fsencode(path))
        if entry is None:
            return None
        if mode[0] == "x":
            raise FileExistsError(errno.EEXIST, "is there already", path)
        if entry.kind == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return entry if mode[0] == "a" and entry.kind == "file" else None

    def cat_file(
        self,
        path: str,
        start: int | None = None,
        end: int | None = None,
        version: int | None = None,
        **kwargs: Any,
    ) -> bytes:
        with using(self.location) as store:
            entry = _file(store, self._strip_protocol(path), version)
            return store.read(entry, *_range(entry, start, end))

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """Ranges of files, several at once. `max_gap` changes nothing: neighbours share decoded blocks anyway."""
        if not isinstance(paths, list):
            raise TypeError("paths must be a list")
        starts = starts if isinstance(starts, Iterable) else [starts] * len(paths)
        ends = ends if isinstance(ends, Iterable) else [ends] * len(paths)
        wanted = list(zip(map(self._strip_protocol, paths), starts, ends))
        if len(wanted) != len(paths):
            raise ValueError("paths, starts and ends must be of one length")
        with using(self.location) as store:
            results = _read_many(store, wanted)
        if on_error == "raise":
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        return results

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any) -> Any:
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
        if self._intrans:
            with self.open(path, "xb" if mode == "create" else "wb") as file:
                file.write(value)
        else:
            self._pipe_all({self._strip_protocol(path): value}, "create" if mode == "create" else "replace")

    def pipe(self, path: str | Mapping[str, Any], value: Any = None, **kwargs: Any) -> None:
        """Of a mapping, all files appear in one commit, or none."""
        if isinstance(path, str) or self._intrans:
            super().pipe(path, value, **kwargs)
        else:
            placing: Placing = "create" if kwargs.get("mode") == "create" else "replace"
            self._pipe_all({self._strip_protocol(one): value for one, value in path.items()}, placing)

    def _pipe_all(self, values: Mapping[str, Any], placing: Placing) -> None:
        with using(self.location) as store:
            drafts = [(os.fsencode(path), owner(), placing, _draft(store, value)) for path, value in values.items()]
            store.name(drafts)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Without `truncate`, a file that is there gets a new version of the same content, of now."""
        path = self._strip_protocol(path)
        if truncate or not self.exists(path):
            return self.pipe_file(path, b"")
        with using(self.location) as store:
            entry = _file(store, path)
            store.name([(entry.path, owner(entry.mode), "replace", store.draft_of(entry))])

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Without reading the content: the copy shares all of it."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        with using(self.location) as store:
            entry = _entry(store, path1)
            if entry.kind == "directory":
                return self.makedirs(path2, exist_ok=True)
            entry = _file(store, path1)
            store.name([(os.fsencode(path2), owner(entry.mode), "replace", store.draft_of(entry))])

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any) -> None:
        """Renames; a directory goes with all below it. Into `path2` when that is a directory or ends with a slash."""
        if not isinstance(path1, str) or maxdepth is not None or _MAGIC & set(path1):
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)
            return
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if source == target:
            return
        if str(path2).endswith("/") or self.isdir(target):
            target = f"{target}/{source.rsplit('/', 1)[-1]}".lstrip("/")
        with using(self.location) as store:
            store.rename(os.fsencode(source), os.fsencode(target))

    # Directories, and taking away

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        with using(self.location) as store:
            if store.entry(os.fsencode(path)) is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            if not create_parents:
                _entry(store, self._parent(path))
            store.make_directory(os.fsencode(path), owner(0o755))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        if not (exist_ok and self.isdir(path)):
            self.mkdir(path)

    def rmdir(self, path: str) -> None:
        path = self._strip_protocol(path)
        with using(self.location) as store:
            if _entry(store, path).kind != "directory":
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            store.remove([os.fsencode(path)], False)

    def rm_file(self, path: str) -> None:
        self.rm(path)

    def _rm(self, path: str) -> None:
        self.rm(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Takes names away, with all versions; all of them or none. Space comes back with `thalweg collect`."""
        written = [path] if isinstance(path, (str, os.PathLike)) else list(path)
        if maxdepth is not None:
            paths = sorted(self.expand_path(written, recursive=recursive, maxdepth=maxdepth), reverse=True)
            return self._remove([one for one in paths if one], False)
        paths = self.expand_path(written) if any(_MAGIC & set(str(one)) for one in written) else written
        paths = [self._strip_protocol(one) for one in paths]
        if "" in paths and recursive:
            paths = self.ls("", detail=False)
        if not recursive:
            for one in paths:
                if self.isdir(one):
                    raise IsADirectoryError(errno.EISDIR, "is a directory; recursive=True removes all below it", one)
        return self._remove(paths, recursive)

    def _remove(self, paths: list[str], recursive: bool) -> None:
        paths = list(dict.fromkeys(paths))
        if recursive:
            # What goes along with a directory above it is not there any more when its turn comes.
            chosen = set(paths)
            paths = [one for one in paths if not _above(one) & chosen]
        with using(self.location) as store:
            if paths:
                store.remove([os.fsencode(one) for one in paths], recursive)


def _entry(store: Store, path: str, version: int | None = None) -> Entry:
    entry = store.entry(os.fsencode(path))
    if entry is None:
        raise FileNotFoundError(errno.ENOENT, "no such file or directory in the store", path)
    if version is None or version == entry.version:
        return entry
    for kept in store.versions(os.fsencode(path)):
        if kept.version == version:
            return kept
    raise FileNotFoundError(errno.ENOENT, f"the store keeps no version {version} of it", path)


def _file(store: Store, path: str, version: int | None = None) -> Entry:
    """The file that a path leads to, over symbolic links that stay in the store."""
    entry = _entry(store, path, version)
    for _ in range(_MOST_LINKS):
        if entry.kind == "file":
            return entry
        if entry.kind == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        entry = _entry(store, _target(entry), version)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _target(link: Entry) -> str:
    path, target = os.fsdecode(link.path), os.fsdecode(link.target)
    leads_to = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if leads_to.startswith(("/", "..")):
        raise FileNotFoundError(errno.ENOENT, f"is a symbolic link out of the store, to {target}", path)
    return leads_to


def _ukey(entry: Entry) -> str:
    if entry.content_digest is not None:
        return f"blake3-{entry.content_digest.hex()}"
    return f"root-{entry.size}-{hashlib.sha256(entry.root or b'').hexdigest()}"


def _range(entry: Entry, start: int | None, end: int | None) -> tuple[int, int]:
    """A slice of the file as Python has it: below zero counts from the end."""
    begin, stop, _ = slice(start, end).indices(entry.size)
    return begin, max(begin, stop)


def _read_many(store: Store, wanted: list[tuple[str, int | None, int | None]]) -> list[Any]:
    paths = list(dict.fromkeys(path for path, _, _ in wanted))
    found = store.entries([os.fsencode(path) for path in paths])
    entries = {path: _content_of(store, path, one) for path, one in zip(paths, found)}
    results: list[Any] = [entries[path] for path, _, _ in wanted]
    ranges, places = [], []
    for place, (path, start, end) in enumerate(wanted):
        entry = entries[path]
        if isinstance(entry, Entry):
            ranges.append((entry, *_range(entry, start, end)))
            places.append(place)
    for place, read in zip(places, store.read_many(ranges)):
        results[place] = read
    return results


def _content_of(store: Store, path: str, found: Entry | BaseException | None) -> Entry | BaseException:
    if isinstance(found, BaseException) or (found is not None and found.kind == "file"):
        return found
    try:
        return _file(store, path)
    except OSError as error:
        return error


def _draft(store: Store, value: Any) -> Draft:
    writer = store.writer()
    writer.write(value if isinstance(value, bytes) else bytes(memoryview(value)))
    return writer.finish()


def _above(path: str) -> set[str]:
    parts = path.split("/")
    return {"/".join(parts[:count]) for count in range(1, len(parts))}


def _absolute(path: str | os.PathLike[str] | None) -> str | None:
    return os.path.abspath(os.path.expanduser(path)) if path else None
