"""The functions and large arguments that a run's coordinator has, as the client counts them.

Each is sent before the first task that names it, and forgotten when no task does any more: not at once, as the next
call may be of the same function. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from thalweg.diffusion.backend import Backend
from thalweg.diffusion.calls import Value

# Kept without users: so many, of so many bytes together.
_MAX_UNUSED = 64
_MAX_UNUSED_BYTES = 64 << 20


class SentValues:
    """Thread-safe. Messages go out in the order in which they are due."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._mutex = threading.Lock()
        # Users and bytes, by digest.
        self._sent: dict[bytes, list[int]] = {}
        self._unused: OrderedDict[bytes, int] = OrderedDict()
        self._unused_bytes = 0
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True

    def use(self, values: Iterable[Value]) -> tuple[bytes, ...]:
        """Their digests, each to be released."""
        with self._mutex:
            return tuple(self._use(value) for value in values)

    def _use(self, value: Value) -> bytes:
        sent = self._sent.get(value.digest)
        if sent is None:
            self._backend.keep(value.digest, value.pickled)
            self._sent[value.digest] = [1, len(value.pickled)]
            return value.digest
        if sent[0] == 0:
            self._unused_bytes -= self._unused.pop(value.digest)
        sent[0] += 1
        return value.digest

    def release(self, digests: Iterable[bytes]) -> None:
        with self._mutex:
            if self._is_closed:
                return
            for digest in digests:
                sent = self._sent[digest]
                sent[0] -= 1
                if sent[0] == 0:
                    self._unused[digest] = sent[1]
                    self._unused_bytes += sent[1]
            gone = []
            while len(self._unused) > _MAX_UNUSED or self._unused_bytes > _MAX_UNUSED_BYTES:
                digest, count = self._unused.popitem(last=False)
                self._unused_bytes -= count
                del self._sent[digest]
                gone.append(digest)
            if gone:
                self._backend.forget(gone)
