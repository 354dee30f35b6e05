"""The targets of paths in a store, and the ranges read of them. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
from collections.abc import Callable
from typing import Any

from thalweg._thalweg import Entry, Store
from thalweg.store_error import store_error

# As many as Linux follows.
_MAX_LINKS = 40


def entry_at(store: Store, path: str, version: int | None = None) -> Entry:
    """Returns what has this name, in the newest version or the one given."""
    entry = store.entry(os.fsencode(path))
    if entry is None:
        raise store_error(errno.ENOENT, path, "no such file or directory in the store")
    if version is None or version == entry.version:
        return entry
    for kept in store.versions(os.fsencode(path)):
        if kept.version == version:
            return kept
    raise store_error(errno.ENOENT, path, f"the store keeps no version {version} of it", "TW-208")


def file_at(store: Store, path: str, version: int | None = None) -> Entry:
    """Returns the file that a path leads to, over symbolic links that stay in the store."""
    entry = entry_at(store, path, version)
    for _ in range(_MAX_LINKS):
        if entry.kind == "file":
            return entry
        if entry.kind == "directory":
            raise store_error(errno.EISDIR, path)
        entry = entry_at(store, _target(entry), version)
    raise store_error(errno.ELOOP, path)


def _target(link: Entry) -> str:
    path, target = os.fsdecode(link.path), os.fsdecode(link.target)
    leads_to = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if leads_to.startswith(("/", "..")):
        raise store_error(errno.ENOENT, path, f"this symbolic link leads out of the store, to {target}")
    return leads_to


def content_key(entry: Entry) -> str:
    """Returns a key for the content: `blake3-` and its digest where the store has it."""
    if entry.content_digest is not None:
        return f"blake3-{entry.content_digest.hex()}"
    return f"root-{entry.size}-{hashlib.sha256(entry.root or b'').hexdigest()}"


def byte_range(entry: Entry, start: int | None, end: int | None) -> tuple[int, int]:
    """Returns a slice of the file as Python has it: below zero counts from the end."""
    begin, stop, _ = slice(start, end).indices(entry.size)
    return begin, max(begin, stop)


def read_many(
    store: Store, requests: list[tuple[str, int | None, int | None]], prepare: Callable[[list[Entry]], Any]
) -> list[Any]:
    """Returns ranges of files, each the bytes or the exception that reading them ended with. `prepare` is called with the files
    before they are read."""
    paths = list(dict.fromkeys(path for path, _, _ in requests))
    found = store.entries([os.fsencode(path) for path in paths])
    entries = {path: _content_of(store, path, one) for path, one in zip(paths, found)}
    results: list[Any] = [entries[path] for path, _, _ in requests]
    ranges, places = [], []
    for place, (path, start, end) in enumerate(requests):
        entry = entries[path]
        if isinstance(entry, Entry):
            ranges.append((entry, *byte_range(entry, start, end)))
            places.append(place)
    if ranges:
        prepare([entry for entry, _, _ in ranges])
    for place, read in zip(places, store.read_many(ranges)):
        results[place] = read
    return results


def _content_of(store: Store, path: str, found: Entry | BaseException | None) -> Entry | BaseException:
    if isinstance(found, BaseException) or (found is not None and found.kind == "file"):
        return found
    try:
        return file_at(store, path)
    except OSError as error:
        return error
