"""How fast tasks end now, and how long the rest will take. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

from collections import deque

# The rate is that of so long, and of so many tasks at least if the run has had them.
_RECENT_S = 15.0
_MIN_TASKS = 10
# Points closer to each other than this become one.
_SPACING_S = 0.5
_MAX_POINTS = 1000


class RecentRate:
    """Takes how many tasks had ended when, in the order of time."""

    def __init__(self, since: float = 0.0, ended: int = 0) -> None:
        self._last = (since, ended)
        self._points: deque[tuple[float, int]] = deque([self._last], maxlen=_MAX_POINTS)

    def add(self, now: float, ended: int) -> None:
        if self._last[0] - self._points[-1][0] >= _SPACING_S:
            self._points.append(self._last)
        self._last = (max(now, self._last[0]), ended)
        while len(self._points) > 2 and self._is_enough(*self._points[1]):
            self._points.popleft()

    def _is_enough(self, t: float, ended: int) -> bool:
        return self._last[0] - t > _RECENT_S and self._last[1] - ended >= _MIN_TASKS

    def per_second(self, now: float) -> float:
        then, before = self._points[0]
        return (self._last[1] - before) / (now - then) if now > then else 0.0

    def remaining_s(self, now: float, left: int) -> float | None:
        """None while nothing has ended."""
        rate = self.per_second(now)
        return left / rate if rate > 0 else None
