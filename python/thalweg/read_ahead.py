"""Read-ahead of an open file: nothing of a file read here and there, more and more of one read from start to end.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fsspec.caching import BaseCache, register_cache

if TYPE_CHECKING:
    from fsspec.caching import Fetcher

# Read for a small request at an arbitrary offset. Decoded blocks are kept below, so more would only be copied.
_MIN_BYTES = 32 << 10
# Requests at an arbitrary offset, from this size on, are read as they are.
_DIRECT_BYTES = 1 << 20
# Requests that follow each other are read as they are from this size on, which is read on several threads.
_DIRECT_FOLLOWING_BYTES = 4 << 20


class ReadAhead(BaseCache):  # type: ignore[misc]
    """Keeps the last piece of a file that was read. The piece doubles as long as requests follow each other, up to
    `blocksize`."""

    name: ClassVar[str] = "thalweg"

    def __init__(self, blocksize: int, fetcher: Fetcher, size: int) -> None:
        super().__init__(blocksize, fetcher, size)
        self._next = 0
        # One tuple, since another thread may replace it.
        self._piece = (0, b"")
        self._ahead_bytes = _MIN_BYTES

    def _fetch(self, start: int | None, stop: int | None) -> bytes:
        start = start or 0
        stop = self.size if stop is None else min(stop, self.size)
        if start >= stop:
            return b""
        follows, self._next = start == self._next, stop
        kept_start, kept = self._piece
        kept_stop = kept_start + len(kept)
        if kept_start <= start and stop <= kept_stop:
            self.hit_count += 1
            return kept[start - kept_start : stop - kept_start]
        self.miss_count += 1
        if stop - start >= (min(self.blocksize, _DIRECT_FOLLOWING_BYTES) if follows else _DIRECT_BYTES):
            return bytes(self.fetcher(start, stop))
        # The end of the piece, where the request goes on beyond it, is not read again.
        head = memoryview(kept)[start - kept_start :] if kept_start <= start < kept_stop else memoryview(b"")
        start += len(head)
        self._ahead_bytes = min(2 * self._ahead_bytes, self.blocksize) if follows else _MIN_BYTES
        kept = self.fetcher(start, min(self.size, max(stop, start + self._ahead_bytes)))
        self._piece = start, kept
        return b"".join((head, memoryview(kept)[: stop - start]))


register_cache(ReadAhead, clobber=True)
