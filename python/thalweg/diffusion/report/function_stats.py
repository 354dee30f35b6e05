"""How long the calls of each function took, and which of them took longest, in memory that does not grow with the calls.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

from thalweg.diffusion.report.events import Record

# Durations within 5 % of each other share a bin: a quantile is that near.
_GROWTH = math.log(1.05)
_SHORTEST_S = 1e-6
# Longest calls kept of all, and of each function.
_MAX_SLOWEST = 10
_MAX_SLOWEST_OF_FUNCTION = 5
_MAX_FUNCTIONS = 100
OTHER_FUNCTIONS = "(other functions)"


class Call(NamedTuple):
    """Ordered by how long it took."""

    seconds: float
    order: int
    name: str
    arguments: str
    task: str
    worker: str
    fetch_s: float


class SlowestCalls:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._heap: list[Call] = []

    def add(self, call: Call) -> None:
        if len(self._heap) < self._limit:
            heapq.heappush(self._heap, call)
        elif call > self._heap[0]:
            heapq.heapreplace(self._heap, call)

    def sorted(self) -> list[Call]:
        return sorted(self._heap, reverse=True)


class Durations:
    """Sums in bins that grow by 5 %."""

    def __init__(self) -> None:
        self.count = 0
        self.total_s = self.longest_s = 0.0
        self._bins: dict[int, tuple[int, float]] = {}

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total_s += seconds
        self.longest_s = max(self.longest_s, seconds)
        place = int(math.log(max(seconds, _SHORTEST_S) / _SHORTEST_S) / _GROWTH)
        count, total = self._bins.get(place, (0, 0.0))
        self._bins[place] = (count + 1, total + seconds)

    def quantile(self, share: float) -> float:
        """The mean of the bin that holds it; 0 of nothing."""
        left = max(1, math.ceil(share * self.count))
        for place in sorted(self._bins):
            count, total = self._bins[place]
            left -= count
            if left <= 0:
                return total / count
        return 0.0


class FunctionStats:
    """`busy_s` also has attempts that failed; durations are those of calls that ended well."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.durations = Durations()
        self.failed = 0
        self.busy_s = self.waiting_s = 0.0
        self.slowest = SlowestCalls(_MAX_SLOWEST_OF_FUNCTION)


class Functions:
    """By name; the last of very many share one entry."""

    def __init__(self) -> None:
        self._by_name: dict[str, FunctionStats] = {}
        self._slowest = SlowestCalls(_MAX_SLOWEST)
        self._order = 0

    def add_done(self, record: Record, seconds: float, fetch_s: float) -> None:
        function = self._add_spent(record, seconds, fetch_s)
        function.durations.add(seconds)
        self._order += 1
        arguments = str(record.get("arguments") or "")
        name, task, worker = str(record["name"]), str(record["task"]), str(record["worker"])
        # Of equal ones the first.
        call = Call(seconds, -self._order, name, arguments, task, worker, fetch_s)
        function.slowest.add(call)
        self._slowest.add(call)

    def add_failed(self, record: Record, seconds: float, fetch_s: float) -> None:
        self._add_spent(record, seconds, fetch_s).failed += bool(record["final"])

    def _add_spent(self, record: Record, seconds: float, fetch_s: float) -> FunctionStats:
        name = str(record["name"])
        if name not in self._by_name and len(self._by_name) >= _MAX_FUNCTIONS:
            name = OTHER_FUNCTIONS
        function = self._by_name.setdefault(name, FunctionStats(name))
        function.busy_s += seconds
        function.waiting_s += fetch_s
        return function

    def by_time(self) -> list[FunctionStats]:
        """Those that took the most time first."""
        return sorted(self._by_name.values(), key=lambda one: -one.busy_s)

    def slowest(self) -> list[Call]:
        return self._slowest.sorted()
