"""Recommends `scatter` where `submit` pickles one large argument again and again.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import logging
import threading

from thalweg.diffusion.calls import Call, Reference, Value

_log = logging.getLogger("thalweg.diffusion")

# A value is reported when so much of it was pickled again; the values that came last are known.
_MAX_REPEATED_BYTES = 256 << 20
_MAX_REPEATED_VALUES = 64
_MIN_REPEATED_BYTES = 1 << 20


class RepeatedPickling:
    """Counts how often each large value was pickled. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._counts: dict[bytes, int] = {}

    def note(self, function: str, call: Call) -> None:
        """Each call of `submit` pickles its arguments anew, as they may have changed."""
        for value in call.values:
            if isinstance(value, Reference) or len(value.pickled) < _MIN_REPEATED_BYTES:
                continue
            count = self._count(value)
            if count == -(-_MAX_REPEATED_BYTES // len(value.pickled)) + 1:
                _log.warning(
                    "an argument of %s was pickled %d times, %.0f MB each time; argument = Diffusion.scatter(argument) pickles "
                    "it once, and so does one map of all calls",
                    *(function, count, len(value.pickled) / 1e6),
                )

    def _count(self, value: Value) -> int:
        with self._mutex:
            count = self._counts.pop(value.digest, 0) + 1
            self._counts[value.digest] = count
            if len(self._counts) > _MAX_REPEATED_VALUES:
                del self._counts[next(iter(self._counts))]
            return count
