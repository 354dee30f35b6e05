"""A rate that several threads keep together: a bucket that tokens run into. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import threading
import time
from typing import Callable

from thalweg.error_code import misuse

# The burst allowed after a pause, as time at the full rate.
BURST_S = 0.1


class Throttle:
    """Bytes pass in the order they ask; without a rate, at once."""

    def __init__(
        self,
        bytes_per_s: int | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if bytes_per_s is not None and bytes_per_s <= 0:
            raise misuse(ValueError, f"a rate of {bytes_per_s} bytes a second lets nothing pass; None is no limit")
        self.bytes_per_s = bytes_per_s
        self._clock, self._sleep = clock, sleep
        self._mutex = threading.Lock()
        # When all that was let pass has been paid for.
        self._paid_at = clock()

    def slice_bytes(self, most: int) -> int:
        """How much to ask for at a time, so that several move on together: a twentieth of a second's worth."""
        return most if self.bytes_per_s is None else max(1, min(most, self.bytes_per_s // 20))

    def take(self, count: int) -> None:
        """Returns when so many bytes may go."""
        wait_s = self._reserve(count)
        if wait_s > 0:
            self._sleep(wait_s)

    def _reserve(self, count: int) -> float:
        with self._mutex:
            if self.bytes_per_s is None:
                return 0
            now = self._clock()
            self._paid_at = max(self._paid_at, now - BURST_S) + count / self.bytes_per_s
            return self._paid_at - now
