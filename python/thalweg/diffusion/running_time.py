"""Time for timeouts that do not run out while the machine stands still. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import time


class RunningTime:
    """Counts seconds by readings of the clock: of the time between two of them at most `max_step_s`. A longer step was a
    pause (a suspended machine, a stopped process, a host that took its processors away), which no other task could use
    either."""

    def __init__(self, max_step_s: float) -> None:
        self._max_step_s = max_step_s
        self._last = time.monotonic()
        self.seconds = 0.0

    def look(self) -> float:
        """Returns the seconds counted until now."""
        now = time.monotonic()
        self.seconds += min(now - self._last, self._max_step_s)
        self._last = now
        return self.seconds

    def restart(self) -> None:
        self.look()
        self.seconds = 0.0
