"""Open files of a store.

A file that is read is one version, whatever is committed meanwhile. A file that is written goes into the store as it
comes, about a megabyte at a time, and gets its name when it is closed or collected: others see it whole or not at all. One
whose `with` block or function is left by an exception gets no name. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import errno
import io
import os
from typing import TYPE_CHECKING, Any

from fsspec.spec import AbstractBufferedFile

from thalweg._thalweg import Entry, EpochPin, is_left_by_exception
from thalweg.connections import store_of, using
from thalweg.error_code import misuse
from thalweg.read_ahead import ReadAhead
from thalweg.store_error import store_error
from thalweg.upload import ScratchUpload, StreamUpload, Upload

if TYPE_CHECKING:
    from thalweg.filesystem import ThalwegFileSystem


class ThalwegFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file of a store opened with `rb`: one version, read anywhere.

    Examples
    --------
    >>> with fs.open("run1/x.dat") as file:
    ...     file.seek(1_000_000)
    ...     piece = file.read(4096)
    """

    def __init__(self, fs: ThalwegFileSystem, path: str, entry: Entry, **options: Any) -> None:
        self._entry = entry
        store = store_of(fs.location)
        self._hold: EpochPin | None = store.hold()
        self._store_id = store.id
        self._details = fs.described(entry)
        options.update(size=entry.size, version=entry.version)
        options["cache_type"] = options.get("cache_type") or ReadAhead.name
        super().__init__(fs, path, "rb", **options)

    def read(self, length: int | None = -1) -> bytes:
        """Returns the next `length` bytes, or all that remain."""
        if self.closed:
            raise misuse(ValueError, "I/O operation on closed file.")
        remaining = max(0, self.size - self.loc)
        length = remaining if length is None or length < 0 else min(int(length), remaining)
        if length == 0:
            return b""
        content: bytes = self.cache._fetch(self.loc, self.loc + length)
        self.loc += len(content)
        return content

    def _fetch_range(self, start: int, end: int) -> bytes:
        with using(self.fs.location) as store:
            if store.id != self._store_id:
                raise store_error(errno.ESTALE, self.path, "the store was replaced by another one; open the file again")
            return store.read(self._entry, start, end)

    def close(self) -> None:
        super().close()
        self._hold = None

    def __del__(self) -> None:
        # Nothing is left to do for a file that was read.
        pass


class _FileBeingWritten(io.BufferedIOBase):
    """The common base of files being written. All that must outlive them is in their upload."""

    mode: str
    _upload: Upload

    def __init__(self, upload: Upload, mode: str) -> None:
        self._upload, self.mode = upload, mode
        self.fs, self.path, self.autocommit = upload.fs, upload.path, upload.autocommit
        self._finalizer = upload.finalizer()

    @property
    def closed(self) -> bool:
        return self._upload.closed

    @property
    def name(self) -> str:
        return self.path

    def close(self) -> None:
        """Stores the file: it has its name when this returns, outside of transactions."""
        if not self.closed and (self._upload.is_block_left() or is_left_by_exception()):
            self.discard()
        self._upload.close()

    def discard(self) -> None:
        """Closes the file and gives up what was written."""
        self._upload.discard()

    def commit(self) -> None:
        """Gives a closed file its name; only files opened with `autocommit=False` need it."""
        self._upload.commit()

    def writable(self) -> bool:
        return True

    def __enter__(self) -> Any:
        self._check_open()
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        # The finalizer stores it, when everything that wraps this file has been finalized.
        pass

    def __reduce__(self) -> Any:
        raise misuse(TypeError, f"{self.path}: a file being written cannot be pickled; close it and pickle its path")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path!r} mode={self.mode!r}>"

    def _check_open(self) -> None:
        if self.closed:
            raise misuse(ValueError, "I/O operation on closed file.")


class WrittenFile(_FileBeingWritten):
    """A file of a store opened with `wb`, `xb` or `ab`: written from its start, or the old end, to its end.

    Examples
    --------
    >>> with fs.open("run1/x.dat", "wb") as file:
    ...     file.write(b"content")
    """

    _upload: StreamUpload

    def __init__(self, upload: StreamUpload, mode: str, offset: int) -> None:
        super().__init__(upload, mode)
        self.loc = offset

    def write(self, content: Any) -> int:
        """Takes the next bytes; returns how many."""
        self._check_open()
        count = self._upload.write(content)
        self.loc += count
        return count

    def tell(self) -> int:
        self._check_open()
        return self.loc

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Always fails: by that libraries see that they must write from start to end."""
        how = f"a file opened with {self.mode!r} is written from start to end; open it with 'w+b' to write anywhere"
        raise misuse(io.UnsupportedOperation, f"{self.path}: {how}")

    def flush(self) -> None:
        """Does nothing: what was written is stored when the file is closed."""
        self._check_open()


class ScratchFile(_FileBeingWritten):
    """A file of a store opened with `r+b`, `w+b` or `x+b`: read and written anywhere, in a temporary file on this
    machine's disk ($TMPDIR) that goes into the store when it is closed. The part that the store has already takes no room
    there a second time.

    Examples
    --------
    >>> with fs.open("run1/x.dat", "r+b") as file:
    ...     file.seek(100)
    ...     file.write(b"changed")
    """

    _upload: ScratchUpload

    def __init__(self, upload: ScratchUpload, mode: str) -> None:
        super().__init__(upload, mode)
        self._scratch = upload.scratch

    def read(self, length: int | None = -1, /) -> bytes:
        return self._scratch.read(length)

    def read1(self, length: int = -1, /) -> bytes:
        return self._scratch.read1(length)

    def readinto(self, target: Any, /) -> int:
        """Reads into a buffer; returns how many bytes."""
        return self._scratch.readinto(target)

    def readinto1(self, target: Any, /) -> int:
        """Reads into a buffer what one read gives; returns how many bytes."""
        return self._scratch.readinto1(target)

    def readline(self, limit: int | None = -1, /) -> bytes:
        return self._scratch.readline(-1 if limit is None else limit)

    def peek(self, count: int = 0, /) -> bytes:
        """Returns buffered bytes, and stays where it is."""
        return self._scratch.peek(count)

    def write(self, content: Any, /) -> int:
        return self._scratch.write(content)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._scratch.seek(offset, whence)

    def tell(self) -> int:
        return self._scratch.tell()

    def truncate(self, size: int | None = None, /) -> int:
        return self._scratch.truncate(size)

    def flush(self) -> None:
        """Writes what is buffered to the temporary file."""
        self._check_open()
        self._scratch.flush()

    def fileno(self) -> int:
        """Returns the descriptor of the temporary file."""
        return self._scratch.fileno()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


class WrittenText(io.TextIOWrapper):
    """Text on its way into a file being written, which keeps nothing of it back."""

    def __init__(self, file: _FileBeingWritten, **options: Any) -> None:
        self._file = file
        super().__init__(file, write_through=True, **options)

    def discard(self) -> None:
        """Closes the file and gives up what was written."""
        self._file.discard()

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        # As with the file below.
        pass
