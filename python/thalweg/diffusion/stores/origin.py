"""Where inputs come from in the first place: anything fsspec opens.

What a file system says of a file that changes with its content becomes the `version` of a copy. One that says nothing
of the kind has copies that serve one run only. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import fsspec
from fsspec.spec import AbstractFileSystem

from thalweg.diffusion.cache.item import Item
from thalweg.diffusion.stores.protocols import is_local
from thalweg.diffusion.stores.stall_timeout import with_stall_timeout
from thalweg.disk_cache.partial_file import Digest, Partial
from thalweg.disk_cache.tree import TreeFile, check_path, tree_bytes
from thalweg.error_code import Coded, coded
from thalweg.store_error import store_error

# A range is asked for in pieces of so many bytes, one of which is in memory.
_PIECE_BYTES = 8 << 20

# File names have at most 255 bytes, of which the copy's own need 41.
_ENDING_BYTES = 100

# Keys of fsspec's `info` that change with the content, as the file systems that have them name them.
_EVIDENCE = (
    *("ukey", "ETag", "etag", "e_tag", "checksum", "md5", "md5Hash", "content_md5", "sha256", "digest"),
    *("VersionId", "version_id", "generation", "mtime", "LastModified", "last_modified", "Last-Modified", "modified"),
    *("updated", "timeModified", "modification_time", "modificationTime"),
)
# When a file was made, where files are only ever replaced (on disks it changes with the number of links).
_REPLACED = "created"


class FolderEntry(NamedTuple):
    """A file below a folder: where it is, relative to the folder and in its store."""

    file: TreeFile
    path: str


class FileInfo(NamedTuple):
    """A file or folder as its file system describes it; `bytes` is None when it does not know, `version` when it changes
    unnoticed. A folder has `entries`; its bytes and version are those of its listing."""

    bytes: int | None
    version: str | None
    entries: list[FolderEntry] | None = None


class StoreOffer(NamedTuple):
    """An item that can be had from the store."""

    fs: AbstractFileSystem
    path: str
    item: Item
    bytes: int | None
    version: str | None
    stall_timeout_s: float | None
    entries: list[FolderEntry] | None

    @property
    def is_folder(self) -> bool:
        return self.entries is not None

    def fill(self, partial_file: Partial) -> Digest:
        """Never with less than the item; returns its digest."""
        if self.entries is not None:
            self._fill_folder(partial_file, self.entries)
        elif self.item.whole:
            with_stall_timeout(
                lambda: self.fs.get_file(self.path, partial_file.path),
                self.stall_timeout_s,
                self.item.url,
                lambda: _size_of(partial_file.path),
            )
        else:
            self._fill_range(partial_file)
        came = partial_file.size()
        if self.bytes is not None and came != self.bytes:
            raise coded(
                OSError(f"{self.item.key}: {came} bytes came of {self.bytes}; was the file changed meanwhile?"),
                "TW-320",
            )
        return partial_file.digest()

    def _fill_folder(self, partial: Partial, entries: list[FolderEntry]) -> None:
        """All files, several at once where the file system can. The listing after must equal the one before."""
        targets = [os.path.join(partial.path, entry.file.path) for entry in entries]
        for folder in {os.path.dirname(target) for target in targets}:
            os.makedirs(folder, exist_ok=True)
        if targets:
            with_stall_timeout(
                lambda: self.fs.get([entry.path for entry in entries], targets),
                self.stall_timeout_s,
                self.item.url,
                lambda: sum(map(_size_of, targets)),
            )
        now = _folder_info(self.fs, self.path, self.stall_timeout_s, self.item.url)
        if now.entries != entries or now.version != self.version:
            raise coded(OSError(f"{self.item.url}: the folder was changed while it was fetched"), "TW-320")

    def _fill_range(self, partial_file: Partial) -> None:
        item = self.item
        if self.bytes is None:
            partial_file.write(self._piece(item.start, item.end))
            return
        end = item.start + self.bytes
        for start in range(item.start, end, _PIECE_BYTES):
            partial_file.write(self._piece(start, min(start + _PIECE_BYTES, end)))

    def _piece(self, start: int, end: int | None) -> Any:
        return with_stall_timeout(
            lambda: self.fs.cat_file(self.path, start=start, end=end), self.stall_timeout_s, self.item.url
        )


class ListingUnusable(Coded, ValueError):
    """What a store lists cannot be fetched as a folder, today and tomorrow."""

    code = "TW-862"


class Origin:
    """The store, by URL. `storage_options` are fsspec's; a call of which nothing is heard for `stall_timeout_s` fails."""

    def __init__(self, storage_options: Mapping[str, Any] | None = None, stall_timeout_s: float | None = None) -> None:
        self.storage_options = dict(storage_options or {})
        self._stall_timeout_s = stall_timeout_s

    def stat(self, url: str) -> FileInfo:
        fs, path = self._find(url)
        return self._info(fs, path, url)

    def offer(self, item: Item) -> StoreOffer:
        fs, path = self._find(item.url)
        info = self._info(fs, path, item.url)
        if info.entries is not None and not item.whole:
            raise coded(IsADirectoryError(f"{item.key}: is a folder, which has no ranges"), "TW-204")
        return StoreOffer(fs, path, item, _span(item, info.bytes), info.version, self._stall_timeout_s, info.entries)

    def _info(self, fs: AbstractFileSystem, path: str, url: str) -> FileInfo:
        info = with_stall_timeout(lambda: fs.info(path), self._stall_timeout_s, url)
        if info.get("type") == "directory":
            return _folder_info(fs, path, self._stall_timeout_s, url)
        return _file_info(info)

    def _find(self, url: str) -> tuple[AbstractFileSystem, str]:
        fs, path = fsspec.core.url_to_fs(url, **self.storage_options)
        # Listed files may have changed since.
        fs.invalidate_cache(fs._parent(path))
        return fs, path


def _size_of(path: str) -> int:
    """How much of a file is there, when it grows as it comes."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _span(item: Item, file_bytes: int | None) -> int | None:
    if file_bytes is None:
        return None
    end = file_bytes if item.end is None else min(item.end, file_bytes)
    return max(0, end - item.start)


def _path_below(name: str, root: str, url: str) -> str:
    try:
        return check_path(name[len(root) :])
    except ValueError as error:
        raise ListingUnusable(f"{url}: the store lists {name}, which cannot be a file below a folder") from error


def _folder_info(fs: AbstractFileSystem, path: str, stall_timeout_s: float | None, url: str) -> FileInfo:
    """Lists a folder. Its version changes when a file is added, removed or changed."""
    fs.invalidate_cache()
    found = with_stall_timeout(lambda: fs.find(path, detail=True), stall_timeout_s, url)
    root = path.rstrip("/") + "/"
    entries, versions = [], []
    for name, info in found.items():
        # Object stores may have an object that stands for the folder itself.
        if info.get("type") == "directory" or name.rstrip("/") == root.rstrip("/") or name.endswith("/"):
            continue
        if is_local(fs) and info.get("islink") and not os.path.exists(name):
            raise store_error(errno.ENOENT, name, f"{url}: has a link to nothing", "TW-306")
        one = _file_info(info)
        if one.bytes is None or not name.startswith(root):
            raise ListingUnusable(f"{url}: the store lists {name} without a size, or outside of the folder")
        file = TreeFile(_path_below(name, root, url), one.bytes)
        entries.append(FolderEntry(file, name))
        versions.append((file.path, one.version))
    entries.sort()
    version = None
    if all(one is not None for _, one in versions):
        version = hashlib.blake2b(repr(sorted(versions)).encode(), digest_size=16).hexdigest()
    return FileInfo(tree_bytes([entry.file for entry in entries]), version, entries)


def _file_info(info: Mapping[str, Any]) -> FileInfo:
    size = info.get("size")
    evidence = [(name, str(info[name])) for name in _EVIDENCE if info.get(name) is not None]
    if not evidence and info.get(_REPLACED) is not None:
        evidence = [(_REPLACED, str(info[_REPLACED]))]
    if not evidence:
        return FileInfo(size, None)
    written = repr((size, info.get("ino"), evidence)).encode()
    return FileInfo(size, hashlib.blake2b(written, digest_size=16).hexdigest())


def ending_of(url: str) -> str:
    """The last part of a URL, to end the name of its copy."""
    name = os.path.basename(url.split("?")[0].rstrip("/")) or "input"
    printable = "".join(letter if letter.isprintable() else "_" for letter in name)
    return printable.encode()[-_ENDING_BYTES:].decode(errors="ignore")
