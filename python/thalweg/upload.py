"""Content on its way into a store, apart from the file object that its user holds.

An upload keeps all there is of a file being written. The file object in front of it refers to it through a `Finalizer`,
which the interpreter's garbage collection cannot look through: when a file object is collected, alone or in a cycle of
garbage, every object that wraps it has been finalized, and its upload is still whole. So a file that is only collected is
stored as if it had been closed, unless an exception has left the function that had it. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import errno
import io
import os
import sys
import tempfile
import threading
import time
import traceback
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Literal

from fsspec.compression import compr

from thalweg._thalweg import Draft, Entry, Finalizer, Store, Writer
from thalweg.connections import before_closing, store_of, using
from thalweg.error_code import misuse
from thalweg.left_block import frames_being_left, is_block_left
from thalweg.store_error import store_error

if TYPE_CHECKING:
    from thalweg.filesystem import ThalwegFileSystem

# Mode, uid, gid, and the time of the last change (ns since 1970).
Owner = tuple[int, int, int, int]
# The treatment of a file that has the name already: a new version of it, an error, or a new version with this behind it.
WriteMode = Literal["replace", "create", "append"]
CommitEntry = tuple[bytes, Owner, WriteMode, Draft]

COPIED_BYTES = 4 << 20
# Small writes are gathered up to so many bytes.
_GATHERED_BYTES = 256 << 10


def owner(mode: int = 0o644) -> Owner:
    """Returns the owner of what this process makes, now."""
    return mode, os.geteuid(), os.getegid(), time.time_ns()


class Upload:
    """One file being written. Its content becomes a draft when it is closed, and gets its name with a commit."""

    def __init__(self, fs: ThalwegFileSystem, path: str, write_mode: WriteMode, autocommit: bool) -> None:
        self.fs, self.path, self.autocommit = fs, path, autocommit
        self.closed = False
        self.discarded = False
        self._write_mode = write_mode
        self._process = os.getpid()
        self._store: Store | None = None
        self._draft: Draft | None = None
        self._left_at_opening = frames_being_left()
        _unclosed.add(self)

    @property
    def appends(self) -> bool:
        """Whether it goes behind what the file has when it is committed."""
        return self._write_mode == "append"

    def store(self) -> Store:
        """Returns the store that the content goes into. Content in a store that was opened again meanwhile is lost."""
        store = store_of(self.fs.location)
        if self._store is None:
            self._store = store
        if store is not self._store:
            why = "the store was replaced or opened again while this file was being written; write the file again"
            raise store_error(errno.ESTALE, self.path, why)
        return store

    def finalizer(self) -> Finalizer:
        """Returns what the file object in front holds."""
        return Finalizer(self.collect)

    def is_block_left(self) -> bool:
        """Returns whether the caller ends it since the block of a `with` statement raised that began after it was opened."""
        return is_block_left(self._left_at_opening)

    def close(self) -> None:
        """Makes a draft of the content, and commits it outside of transactions."""
        if self.closed:
            return
        self.closed = True
        _unclosed.discard(self)
        try:
            self.store()
            with using(self.fs.location):
                self._draft = self._finish()
            if self.autocommit:
                self.commit()
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Closes it and gives up what was written."""
        self.closed = self.discarded = True
        self._draft = None
        _unclosed.discard(self)
        self._release()

    def commit_entry(self) -> CommitEntry:
        """Returns what a commit of this file is made of, once."""
        draft, self._draft = self._draft, None
        if draft is None:
            raise misuse(
                ValueError, f"{self.path}: is not closed, or is committed already; close it before the transaction ends"
            )
        return os.fsencode(self.path), owner(), self._write_mode, draft

    def commit(self) -> None:
        """Gives a closed file its name; closing does it, outside of transactions."""
        store = self.store()
        with using(self.fs.location):
            store.commit_drafts([self.commit_entry()])

    def collect(self, is_left_by_exception: bool) -> None:
        """Ends a file that was not closed: stores it, unless an exception has left it so."""
        if self.closed or self._process != os.getpid():
            return
        if is_left_by_exception or self.is_block_left():
            self.discard()
            return
        self.close()
        if self.autocommit:
            message = f"{self.path}: was never closed; it is stored, since it was collected"
            warnings.warn(message, ResourceWarning, stacklevel=2)

    def _finish(self) -> Draft:
        raise NotImplementedError

    def _release(self) -> None:
        raise NotImplementedError


class StreamUpload(Upload):
    """A file that is written from its start to its end, compressed on the way if that is asked for."""

    def __init__(
        self, fs: ThalwegFileSystem, path: str, write_mode: WriteMode, autocommit: bool, compression: str | None
    ) -> None:
        super().__init__(fs, path, write_mode, autocommit)
        self._writer: Writer | None = None
        self._gathered = bytearray()
        self._lock = threading.Lock()
        self._compressor = compr[compression](_Sink(self), mode="w") if compression else None

    def write(self, content: Any) -> int:
        """Takes the next bytes."""
        content = content if isinstance(content, bytes) else bytes(memoryview(content))
        if self._compressor is None:
            self.write_stored(content)
        else:
            self._compressor.write(content)
        return len(content)

    def write_stored(self, content: bytes) -> None:
        """Takes the next bytes as they are stored."""
        if self._process != os.getpid():
            raise misuse(RuntimeError, f"{self.path}: was opened by another process, before a fork; open it again")
        with self._lock:
            if len(self._gathered) + len(content) <= _GATHERED_BYTES:
                self._gathered += content
                return
            try:
                self._hand_over(bytes(self._gathered), content)
            except OSError:
                # A writer that failed takes nothing more.
                self.discard()
                raise
            self._gathered.clear()

    def _hand_over(self, *pieces: bytes) -> Writer:
        store = self.store()
        if self._writer is None:
            self._writer = store.writer(self.fs.encoding_mode)
        with using(self.fs.location):
            for piece in filter(None, pieces):
                self._writer.write(piece)
        return self._writer

    def _finish(self) -> Draft:
        if self._compressor is not None:
            self._compressor.close()
        return self._hand_over(bytes(self._gathered)).finish()

    def _release(self) -> None:
        if self._writer is not None and self._process == os.getpid():
            self._writer.discard()


class _Sink(io.RawIOBase):
    """Where a compressor writes to. The compressor may close it; the upload ends by itself."""

    def __init__(self, upload: StreamUpload) -> None:
        self._upload = weakref.proxy(upload)

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        if not self._upload.discarded:
            self._upload.write_stored(bytes(content))
        return len(content)


class ScratchUpload(Upload):
    """A file that is written anywhere, in a temporary file on this machine's disk until it is closed."""

    def __init__(
        self, fs: ThalwegFileSystem, path: str, write_mode: WriteMode, entry: Entry | None, autocommit: bool
    ) -> None:
        super().__init__(fs, path, write_mode, autocommit)
        self.scratch = io.BufferedRandom(tempfile.TemporaryFile(buffering=0))
        if entry is not None:
            self._fill(entry)

    def _fill(self, entry: Entry) -> None:
        with using(self.fs.location) as store:
            for start in range(0, entry.size, COPIED_BYTES):
                self.scratch.write(store.read(entry, start, start + COPIED_BYTES))
        self.scratch.seek(0)

    def _finish(self) -> Draft:
        writer = self.store().writer(self.fs.encoding_mode)
        self.scratch.seek(0)
        while True:
            piece = self.scratch.read(COPIED_BYTES)
            if not piece:
                self.scratch.close()
                return writer.finish()
            writer.write(piece)

    def _release(self) -> None:
        self.scratch.close()


def close_remaining() -> None:
    """Stores the files that are open when the program ends; none after an uncaught exception."""
    is_interactive = hasattr(sys, "ps1") or sys.flags.interactive
    has_failed = not is_interactive and getattr(sys, "last_value", None) is not None
    for upload in list(_unclosed):
        try:
            upload.collect(has_failed)
        except Exception:
            print(f"{upload.path}: was open when the program ended, and is not stored:", file=sys.stderr)
            traceback.print_exc()


_unclosed: weakref.WeakSet[Upload] = weakref.WeakSet()
before_closing(close_remaining)
