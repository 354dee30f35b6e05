"""A file or folder while it arrives: not listed yet, its digest taken on the way.

Its lock is a byte of a file beside the folder, not its own: a task may be given its path, and HDF5 and netCDF refuse to
open a file that another process has locked. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from typing import Union

from thalweg.disk_cache.locks import Lock, Locks
from thalweg.disk_cache.tree import TreeWriter, link_tree, remove, size_of, tree_digest

# Under a name of its own, since what has a digest has `bytes`, too.
Digest = bytes
DIGEST_BYTES = 16
_CHUNK_BYTES = 1 << 20


class _Partial:
    """Something in a folder that is removed when its process has died."""

    path: str
    _lock: Lock

    def write(self, piece: bytes | memoryview) -> None:
        raise NotImplementedError

    def take_over(self, path: str) -> None:
        """Takes what is at `path`, which is not to be written to any more: linked, or copied to another disk."""
        raise NotImplementedError

    def digest(self) -> Digest:
        """Returns the digest of what the path holds now."""
        return digest_of(self.path)

    def size(self) -> int:
        return size_of(self.path)

    def rename_to(self, path: str) -> None:
        """Gives it the name it stays under."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.isdir(path) or os.path.isdir(self.path):
            remove(path)
        os.replace(self.path, path)
        self.path = path
        self._release()

    def discard(self) -> None:
        remove(self.path)
        self._release()

    def _release(self) -> None:
        self._lock.release()


class PartialFile(_Partial):
    """A new file, while it arrives."""

    def __init__(self, folder: str, ending: str) -> None:
        """`ending`: of its name, as programs that are given the path may expect one."""
        os.makedirs(folder, exist_ok=True)
        while True:
            self._descriptor, self.path = tempfile.mkstemp(suffix=f"-{ending}", prefix="", dir=folder)
            self._lock = _locks(folder).hold_soon(os.path.basename(self.path))
            # Unless a sweep came between.
            if os.fstat(self._descriptor).st_nlink:
                break
            self._release()

    def write(self, piece: bytes | memoryview) -> None:
        left = memoryview(piece)
        while left:
            left = left[os.write(self._descriptor, left) :]

    def take_over(self, path: str) -> None:
        other = f"{self.path}.link"
        try:
            os.link(path, other)
            os.replace(other, self.path)
        except OSError:
            # On another disk, or swept away.
            shutil.copyfile(path, self.path)
            return
        os.close(self._descriptor)
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)

    def _release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        super()._release()


class PartialFolder(_Partial):
    """A new folder, while its files arrive; `write` takes them as `tree` has them."""

    def __init__(self, folder: str, ending: str) -> None:
        os.makedirs(folder, exist_ok=True)
        while True:
            self.path = tempfile.mkdtemp(suffix=f"-{ending}", prefix="", dir=folder)
            self._lock = _locks(folder).hold_soon(os.path.basename(self.path))
            # Unless a sweep came between.
            if os.path.isdir(self.path):
                break
            self._release()
        self._writer = TreeWriter(self.path)

    def write(self, piece: bytes | memoryview) -> None:
        self._writer.write(piece)

    def take_over(self, path: str) -> None:
        link_tree(path, self.path)

    def _release(self) -> None:
        if hasattr(self, "_writer"):
            self._writer.close()
        super()._release()


Partial = Union[PartialFile, PartialFolder]


def new_partial(folder: str, ending: str, is_folder: bool) -> Partial:
    return PartialFolder(folder, ending) if is_folder else PartialFile(folder, ending)


def _locks(folder: str) -> Locks:
    return Locks(f"{folder}.lock")


def sweep(folder: str) -> None:
    """Removes the partial files of the dead."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    locks = _locks(folder)
    for name in names:
        lock = locks.hold_if_free(name)
        if lock is None:
            continue
        with lock:
            try:
                remove(os.path.join(folder, name))
            except OSError:
                # Another user's, or on a disk that fails.
                pass


def digest_of(path: str) -> Digest:
    """Returns the BLAKE2b-128 of a file, or of a folder as `tree` has it."""
    if os.path.isdir(path):
        return tree_digest(path, DIGEST_BYTES)
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(_CHUNK_BYTES):
            digest.update(piece)
    return digest.digest()
