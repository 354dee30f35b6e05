"""Open files of a store.

A file that is read is one version, whatever is committed meanwhile. A file that is written goes into the store as it
comes, about a megabyte at a time, and gets its name when it is closed: others see it whole or not at all. One whose
`with` block is left by an exception, or that is never closed, gets no name. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import io
import os
import tempfile
import time
import warnings
from typing import TYPE_CHECKING, Any, Literal

from fsspec.spec import AbstractBufferedFile

from thalweg._thalweg import Draft, Entry, Hold, Store, Writer
from thalweg.connections import store_of, using

if TYPE_CHECKING:
    from thalweg.filesystem import ThalwegFileSystem

# Mode, uid, gid, and the time of the last change (ns since 1970).
Owner = tuple[int, int, int, int]
# What becomes of a file that has the name already: a new version of it, an error, or a new version with this behind it.
Placing = Literal["replace", "create", "append"]
Named = tuple[bytes, Owner, Placing, Draft]

COPIED_BYTES = 4 << 20


def owner(mode: int = 0o644) -> Owner:
    """Of what this process makes, now."""
    return mode, os.geteuid(), os.getegid(), time.time_ns()


class _Drafted:
    """A file that leaves a draft when it is closed, and nothing when its `with` block fails or nobody closes it."""

    closed: bool
    path: str
    fs: ThalwegFileSystem
    _placing: Placing
    _draft: Draft | None

    def named(self) -> Named:
        """What a commit of this file is made of, once."""
        draft, self._draft = self._draft, None
        if draft is None:
            raise ValueError(f"{self.path}: has not been closed, or is committed already")
        return os.fsencode(self.path), owner(), self._placing, draft

    def commit(self) -> None:
        """Gives a closed file its name; closing does it, outside of transactions."""
        with using(self.fs.location) as store:
            store.name([self.named()])

    if TYPE_CHECKING:

        def discard(self) -> None: ...

        def close(self) -> None: ...

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        if not getattr(self, "closed", True):
            if self._is_written():
                warnings.warn(f"{self.path}: was never closed, and is not stored", ResourceWarning, stacklevel=2)
            self.discard()

    def _is_written(self) -> bool:
        return True


class ThalwegFile(_Drafted, AbstractBufferedFile):  # type: ignore[misc]
    """`rb`, or one of `wb`, `xb`, `ab`: read anywhere, or written from the start to the end."""

    def __init__(
        self, fs: ThalwegFileSystem, path: str, mode: str, placing: Placing, entry: Entry | None, **options: Any
    ) -> None:
        self._placing = placing
        self._writer: Writer | None = None
        self._draft: Draft | None = None
        self._entry = entry
        self._hold: Hold | None = None
        if entry is not None and mode == "rb":
            self._hold = store_of(fs.location).hold()
            self._details = fs.described(entry)
            options.update(size=entry.size, version=entry.version)
        super().__init__(fs, path, mode, **options)
        if entry is not None and mode == "ab":
            self.loc = entry.size

    def _fetch_range(self, start: int, end: int) -> bytes:
        assert self._entry is not None
        with using(self.fs.location) as store:
            return store.read(self._entry, start, end)

    def _initiate_upload(self) -> None:
        with using(self.fs.location) as store:
            self._writer = store.writer()

    def _upload_chunk(self, final: bool = False) -> bool:
        assert self._writer is not None
        with using(self.fs.location):
            self._writer.write(self.buffer.getvalue())
            if final:
                self._draft = self._writer.finish()
        if final and self.autocommit:
            self.commit()
        return True

    def close(self) -> None:
        super().close()
        self._hold = None

    def discard(self) -> None:
        """Closes it and gives up what was written."""
        self.forced = True
        self._draft = None
        if self._writer is not None:
            self._writer.discard()
        self.close()

    def _is_written(self) -> bool:
        return bool(self.mode != "rb")


class ScratchFile(_Drafted, io.BufferedRandom):
    """`r+b`, `w+b` or `x+b`: read and written anywhere, in a temporary file on this machine's disk ($TMPDIR) that goes
    into the store when it is closed. What the store has of it already takes no room there a second time."""

    def __init__(
        self, fs: ThalwegFileSystem, path: str, placing: Placing, entry: Entry | None, autocommit: bool
    ) -> None:
        super().__init__(tempfile.TemporaryFile(buffering=0))
        self.fs, self.path, self.autocommit = fs, path, autocommit
        self._placing = placing
        self._draft: Draft | None = None
        self._discarded = False
        if entry is not None:
            self._fill(entry)

    def _fill(self, entry: Entry) -> None:
        with using(self.fs.location) as store:
            for start in range(0, entry.size, COPIED_BYTES):
                self.write(store.read(entry, start, start + COPIED_BYTES))
        self.seek(0)

    def close(self) -> None:
        if self.closed:
            return
        try:
            if not self._discarded:
                self._store()
        finally:
            self._discarded = True
            super().close()

    def _store(self) -> None:
        self.seek(0)
        with using(self.fs.location) as store:
            self._draft = _draft_of(self, store)
        if self.autocommit:
            self.commit()

    def discard(self) -> None:
        self._discarded = True
        self._draft = None
        self.close()


def _draft_of(content: io.BufferedIOBase, store: Store) -> Draft:
    writer = store.writer()
    while True:
        piece = content.read(COPIED_BYTES)
        if not piece:
            return writer.finish()
        writer.write(piece)
