"""File systems for the tests of shelves: one whose fetches are counted by every process, one that is slow, one that is
full. SPDX-License-Identifier: Apache-2.0"""

import errno
import os
import time

import fsspec
from fsspec.implementations.local import LocalFileSystem


class CountedFileSystem(LocalFileSystem):
    """Writes a line into the file `log` for each file or range that is fetched. While `gate` is there, it stands still
    halfway; while `full` is there, it removes that and says that the disk is full; while `gone`, it does not answer."""

    protocol = "counted"
    cachable = False

    def __init__(self, log, **options):
        super().__init__(**options)
        self.log = str(log)

    def info(self, path, **kwargs):
        self._be_gone()
        return super().info(path, **kwargs)

    def get_file(self, path, target, **kwargs):
        self._begin(path)
        with open(path, "rb") as file, open(target, "wb") as draft:
            content = file.read()
            draft.write(content[: len(content) // 2])
            draft.flush()
            while os.path.exists(f"{self.log}.gate"):
                time.sleep(0.005)
            draft.write(content[len(content) // 2 :])

    def cat_file(self, path, start=None, end=None, **kwargs):
        self._begin(f"{path} {start} {end}")
        return super().cat_file(path, start, end, **kwargs)

    def _begin(self, what):
        self._be_gone()
        with open(self.log, "a") as log:
            log.write(f"{what}\n")
        if os.path.exists(f"{self.log}.full"):
            os.unlink(f"{self.log}.full")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), what)

    def _be_gone(self):
        if os.path.exists(f"{self.log}.gone"):
            raise ConnectionError("the store does not answer")


class SilentFileSystem(CountedFileSystem):
    """Says nothing of a file but its size."""

    protocol = "silent"

    def info(self, path, **kwargs):
        known = super().info(path, **kwargs)
        return {name: known[name] for name in ("name", "size", "type")}


for kind in (CountedFileSystem, SilentFileSystem):
    fsspec.register_implementation(kind.protocol, kind, clobber=True)


class Source:
    """A folder of files of random content behind a counted file system."""

    def __init__(self, folder, protocol="counted"):
        folder.mkdir(exist_ok=True)
        self.folder, self.protocol = folder, protocol
        self.log = folder.parent / f"{folder.name}.log"
        self.options = {"log": str(self.log)}

    def url(self, name):
        return f"{self.protocol}://{self.folder / name}"

    def write(self, name, content):
        (self.folder / name).write_bytes(content)
        return self.url(name)

    def fetches(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def switch(self, name, on=True):
        path = self.log.parent / f"{self.log.name}.{name}"
        path.touch() if on else path.unlink(missing_ok=True)
