"""A file while it arrives: nobody's yet, its digest taken on the way.

Its lock is a byte of a file beside the folder, not its own: a task may be given its path, and HDF5 and netCDF refuse to
open a file that somebody else has locked. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile

from thalweg.diffusion.cache.locks import Locks

# Under a name of its own, since what has a digest has `bytes`, too.
Digest = bytes
DIGEST_BYTES = 16
_CHUNK_BYTES = 1 << 20


class PartialFile:
    """A new file in a folder, which is swept away when its process has died."""

    def __init__(self, folder: str, ending: str) -> None:
        """`ending`: of its name, as programs that are given the path may expect one."""
        os.makedirs(folder, exist_ok=True)
        while True:
            self._descriptor, self.path = tempfile.mkstemp(suffix=f"-{ending}", prefix="", dir=folder)
            self._lock = _locks(folder).hold(os.path.basename(self.path))
            # Unless a sweep came between.
            if os.fstat(self._descriptor).st_nlink:
                break
            self._release()

    def write(self, piece: bytes | memoryview) -> None:
        left = memoryview(piece)
        while left:
            left = left[os.write(self._descriptor, left) :]

    def take_over(self, path: str) -> None:
        """The content of a file, which is not to be written to any more: linked, or copied to another disk."""
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

    def digest(self) -> Digest:
        """Of what the path holds now."""
        return digest_of(self.path)

    def size(self) -> int:
        return os.stat(self.path).st_size

    def rename_to(self, path: str) -> None:
        """Gives it the name it stays under."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.replace(self.path, path)
        self.path = path
        self._release()

    def discard(self) -> None:
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass
        self._release()

    def _release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._lock.release()


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
                os.unlink(os.path.join(folder, name))
            except OSError:
                # Placed or removed meanwhile, or no file.
                pass


def digest_of(path: str) -> Digest:
    """BLAKE2b-128 of a file."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(_CHUNK_BYTES):
            digest.update(piece)
    return digest.digest()
