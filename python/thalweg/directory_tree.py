"""The tree of a store's names: directories are made and removed, and files removed. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import errno
import os
from typing import Any

from thalweg.connections import using
from thalweg.entries import entry_at
from thalweg.listing import Listing
from thalweg.names import above
from thalweg.store_error import store_error
from thalweg.upload import owner


class DirectoryTree(Listing):
    """The part of the file system that makes and removes names, and writes no content."""

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        """Makes a directory. Files need none: those above them are made with them.

        Parameters
        ----------
        path : str
            The directory.
        create_parents : bool
            Whether to make missing directories above it.

        Examples
        --------
        >>> fs.mkdir("run1/parts")
        """
        path = self._strip_protocol(path)
        with using(self.location) as store:
            if store.entry(os.fsencode(path)) is not None:
                raise store_error(errno.EEXIST, path)
            if not create_parents:
                entry_at(store, self._parent(path))
            store.make_directory(os.fsencode(path), owner(0o755))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Makes a directory, and those above it."""
        if not (exist_ok and self.isdir(path)):
            self.mkdir(path)

    def rmdir(self, path: str) -> None:
        """Removes an empty directory.

        Examples
        --------
        >>> fs.rmdir("run1/parts")
        """
        path = self._strip_protocol(path)
        with using(self.location) as store:
            if entry_at(store, path).kind != "directory":
                raise store_error(errno.ENOTDIR, path)
            store.remove([os.fsencode(path)], False)

    def rm_file(self, path: str) -> None:
        """Removes one file, with all its versions. Glob characters are taken literally.

        Examples
        --------
        >>> fs.rm_file("run1/a")
        """
        self._remove([self._file_to_remove(path)], False)

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    def _file_to_remove(self, path: str) -> str:
        path = self._strip_protocol(path)
        if self.isdir(path):
            raise store_error(errno.EISDIR, path, "is a directory; recursive=True removes all below it")
        return path

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files with all their versions, in one commit. `thalweg collect` frees their space.

        Parameters
        ----------
        path : str or list of str
            A path, a pattern, or a list of them. A name that exists is no pattern.
        recursive : bool
            Whether to remove directories with all below them.
        maxdepth : int, optional
            How many levels to go down.

        Examples
        --------
        >>> fs.rm("run1/*.tmp")
        >>> fs.rm("run1", recursive=True)
        """
        if maxdepth is not None:
            paths = sorted(self.expand_path(path, recursive=recursive, maxdepth=maxdepth), reverse=True)
            return self._remove([one for one in paths if one], False)
        written: list[Any] = [path] if isinstance(path, (str, os.PathLike)) else list(path)
        paths = self.expand_path(written) if any(map(self.is_pattern, written)) else written
        paths = [self._strip_protocol(one) for one in paths]
        if "" in paths and recursive:
            paths = self.ls("", detail=False)
        return self._remove(paths if recursive else [self._file_to_remove(one) for one in paths], recursive)

    def _remove(self, paths: list[str], recursive: bool) -> None:
        paths = list(dict.fromkeys(paths))
        if recursive:
            # An entry that went with a directory above it is not there any more when its turn comes.
            chosen = set(paths)
            paths = [one for one in paths if not above(one) & chosen]
        with using(self.location) as store:
            if paths:
                store.remove([os.fsencode(one) for one in paths], recursive)
