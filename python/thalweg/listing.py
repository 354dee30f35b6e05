"""The listing of a store: names, sizes, times and versions. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import hashlib
import os
from datetime import datetime, timezone
from typing import Any

from thalweg._thalweg import Entry
from thalweg.by_url import by_url
from thalweg.connections import Location, using
from thalweg.entries import content_key, entry_at
from thalweg.error_code import misuse
from thalweg.names import LiteralNames

Info = dict[str, Any]


class Listing(LiteralNames):
    """The part of the file system that looks names up and reads no content."""

    @property
    def location(self) -> Location:
        """Where the store is, with its credentials."""
        raise NotImplementedError

    def described(self, entry: Entry) -> Info:
        """Returns what fsspec shows of an entry, with what the store knows besides."""
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
            info["ukey"] = content_key(entry)
        elif entry.kind == "link":
            info["destination"] = os.fsdecode(entry.target)
            info["islink"] = True
        return info

    @by_url
    def info(self, path: str, version: int | None = None, **kwargs: Any) -> Info:
        """Returns what the store knows of a path.

        Parameters
        ----------
        path : str
            A file, a directory or a symbolic link.
        version : int, optional
            A kept version of a file, instead of the newest one.

        Returns
        -------
        dict
            `name`, `size` (bytes), `type` (`file`, `directory` or `link`), `mode`, `uid`, `gid`, `nlink`, `mtime` (seconds since
            1970); of a file also `version`, `committed` (seconds since 1970) and `ukey`, of a link its `destination`.

        Examples
        --------
        >>> fs.info("run1/x.dat")["size"]
        1048576
        """
        with using(self.location) as store:
            return self.described(entry_at(store, self._strip_protocol(path), version))

    @by_url
    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        """Lists a directory.

        Parameters
        ----------
        path : str
            The directory; a file is listed alone.
        detail : bool
            Whether to return what `info` does for each entry, or paths only.

        Examples
        --------
        >>> fs.ls("run1", detail=False)
        ['run1/notes.txt', 'run1/x.dat']
        """
        path = self._strip_protocol(path)
        with using(self.location) as store:
            try:
                entries = store.list(os.fsencode(path), False)
            except NotADirectoryError:
                entries = [entry_at(store, path)]
        return [self.described(entry) for entry in entries] if detail else [os.fsdecode(e.path) for e in entries]

    @by_url
    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        """Lists all files below a path.

        Parameters
        ----------
        path : str
            A directory; a file is found itself.
        maxdepth : int, optional
            How many levels to go down.
        withdirs : bool
            Whether to list directories too.
        detail : bool
            Whether to return a dict of what `info` returns, or a list of paths.

        Examples
        --------
        >>> fs.find("run1")
        ['run1/notes.txt', 'run1/parts/0', 'run1/x.dat']
        """
        if maxdepth is not None and maxdepth < 1:
            raise misuse(ValueError, "maxdepth must be at least 1")
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
        """Returns whether the store has this name. A node that does not answer raises `ConnectionError`.

        Examples
        --------
        >>> fs.exists("run1/x.dat")
        True
        """
        return self._kind(path) is not None

    def lexists(self, path: str, **kwargs: Any) -> bool:
        """Returns whether the store has this name, also for a link that leads nowhere."""
        return self.exists(path)

    def isdir(self, path: str) -> bool:
        """Returns whether this is a directory."""
        return self._kind(path) == "directory"

    def isfile(self, path: str) -> bool:
        """Returns whether this is a file."""
        return self._kind(path) == "file"

    @by_url
    def _kind(self, path: str) -> str | None:
        # Not by `info` and any exception, as fsspec has it: a node that is gone has not lost its files.
        with using(self.location) as store:
            entry = store.entry(os.fsencode(self._strip_protocol(path)))
        return None if entry is None else entry.kind

    @by_url
    def versions(self, path: str) -> list[Info]:
        """Returns the kept versions of a file, oldest first, each as `info` does.

        `open`, `cat_file` and `info` take their number as `version`.

        Examples
        --------
        >>> [info["version"] for info in fs.versions("run1/x.dat")]
        [1, 2]
        >>> fs.cat_file("run1/x.dat", version=1)
        b'first'
        """
        with using(self.location) as store:
            return [self.described(entry) for entry in store.versions(os.fsencode(self._strip_protocol(path)))]

    def modified(self, path: str) -> datetime:
        """Returns when a path was last changed.

        Examples
        --------
        >>> fs.modified("run1/x.dat")
        datetime.datetime(2026, 11, 23, 2, 30, tzinfo=datetime.timezone.utc)
        """
        return datetime.fromtimestamp(self.info(path)["mtime"], timezone.utc)

    def created(self, path: str) -> datetime:
        """Returns when the oldest kept version of a file was committed; of a directory, when it was made."""
        info = self.info(path)
        if info["type"] == "file":
            return datetime.fromtimestamp(self.versions(path)[0]["committed"], timezone.utc)
        return datetime.fromtimestamp(info["mtime"], timezone.utc)

    def ukey(self, path: str) -> str:
        """Returns a key for the content of a file: two contents never share one.

        It is `blake3-` and the content's digest where the store has it.

        Examples
        --------
        >>> fs.ukey("run1/x.dat")
        'blake3-6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85'
        """
        info = self.info(path)
        return str(info["ukey"]) if "ukey" in info else super().ukey(path)

    def checksum(self, path: str) -> int:
        """Returns a number made from `ukey`."""
        return int(hashlib.sha256(self.ukey(path).encode()).hexdigest(), 16)
