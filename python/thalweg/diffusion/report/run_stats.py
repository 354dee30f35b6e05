"""What a run looks like so far: its records added up, in memory that does not grow with its tasks.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

from thalweg.diffusion.report.events import Record
from thalweg.diffusion.report.timeline import Timeline

SOURCES = ("local", "peer", "store")

_SLOWEST = 20
# Kept with their tracebacks; of the others only how many there were.
_FAILURES = 50
_FETCH_FAILURES = 20
_KINDS_OF_ERRORS = 100
# Workers with a timeline of their own.
_ROWS = 256


class Slow(NamedTuple):
    seconds: float
    order: int
    record: Record


class RunStats:
    """Takes records one after the other."""

    def __init__(self) -> None:
        self.began: float | None = None
        self.policy, self.cache_bytes = "", 0
        self.end_s = 0.0
        self.ended = False
        self.submitted = self.done = self.failed = self.tried_again = 0
        self.bytes = dict.fromkeys(SOURCES, 0)
        self.inputs = dict.fromkeys(SOURCES, 0)
        self.busy_s = self.waiting_s = self.slots_s = 0.0
        self.timeline = Timeline()
        # Slots by worker: of those that are there, and of all there ever were.
        self.slots: dict[str, int] = {}
        self.workers: dict[str, int] = {}
        self._slots_until_s = 0.0
        self.errors: dict[str, int] = {}
        self.failures: list[Record] = []
        self.fetch_failures: list[Record] = []
        self.fetches_failed = 0
        self._rows: dict[str, None] = {}
        self._slowest: list[Slow] = []
        self._offset_s = 0.0

    def fold(self, record: Record) -> None:
        take = getattr(self, f"_take_{record.get('kind')}", None)
        if take is None:
            # Of a later version.
            return
        t = float(record["t"]) + (0 if record["kind"] == "run" else self._offset_s)
        take(record, t)
        self.end_s = max(self.end_s, t)

    @property
    def total_bytes(self) -> int:
        return sum(self.bytes.values())

    def share(self, source: str) -> float:
        """Of the bytes that tasks read, 0 to 1."""
        return self.bytes[source] / self.total_bytes if self.total_bytes else 0.0

    def slowest(self) -> list[Record]:
        return [one.record for one in sorted(self._slowest, reverse=True)]

    def row_of(self, worker: str) -> str:
        """The timeline of a worker's busy slots; the last workers of very many share one."""
        if worker not in self._rows and len(self._rows) >= _ROWS:
            worker = "others"
        self._rows.setdefault(worker, None)
        return f"worker {worker}"

    def rows(self) -> list[str]:
        """Workers, in the order in which they began to work."""
        return list(self._rows)

    def _take_run(self, record: Record, _: float) -> None:
        if self.began is None:
            self.began = float(record["began"])
        self._offset_s = max(float(record["began"]) - self.began, self.end_s)
        self.policy, self.cache_bytes = str(record.get("policy") or ""), int(record.get("cache_bytes") or 0)
        self.ended = False
        # Nobody is there any more who does not join again; and what is not done is submitted again.
        self.count_slots(self.end_s)
        self.slots.clear()
        self.count_slots(self._offset_s)
        self.submitted = self.done + self.failed

    def _take_submitted(self, record: Record, _: float) -> None:
        self.submitted += int(record["count"])

    def _take_joined(self, record: Record, t: float) -> None:
        self.count_slots(t)
        self.slots[record["worker"]] = self.workers[record["worker"]] = int(record["slots"])

    def _take_left(self, record: Record, t: float) -> None:
        self.count_slots(t)
        self.slots.pop(record["worker"], None)

    def count_slots(self, until: float) -> None:
        """Those that are there now were there until then."""
        if until > self._slots_until_s:
            slots_s = sum(self.slots.values()) * (until - self._slots_until_s)
            self.slots_s += slots_s
            self.timeline.spread("slots", self._slots_until_s, until, slots_s)
            self._slots_until_s = until

    def _take_done(self, record: Record, t: float) -> None:
        self.done += 1
        self.timeline.add("done", t, 1)
        self._take_spent(record, t)
        slow = Slow(float(record["seconds"]), self.done, record)
        if len(self._slowest) < _SLOWEST:
            heapq.heappush(self._slowest, slow)
        else:
            heapq.heappushpop(self._slowest, slow)

    def _take_failed(self, record: Record, t: float) -> None:
        if record["final"]:
            self.failed += 1
        else:
            self.tried_again += 1
        self.timeline.add("failed", t, 1)
        self._take_spent(record, t)
        error = str(record["error"])
        if error in self.errors or len(self.errors) < _KINDS_OF_ERRORS:
            self.errors[error] = self.errors.get(error, 0) + 1
        if len(self.failures) < _FAILURES:
            self.failures.append({**record, "t": t})

    def _take_spent(self, record: Record, t: float) -> None:
        seconds = float(record["seconds"])
        fetch_s = min(float(record["fetch_s"]), seconds)
        begin = t - seconds
        self.busy_s += seconds
        self.waiting_s += fetch_s
        self.timeline.spread("waiting", begin, begin + fetch_s, fetch_s)
        self.timeline.spread("working", begin + fetch_s, t, seconds - fetch_s)
        self.timeline.spread(self.row_of(record["worker"]), begin, t, seconds)
        for source, count in record["inputs"]:
            self._take_input(source, count, begin, begin + fetch_s)

    def _take_input(self, source: str, count: int, begin: float, end: float) -> None:
        if source in self.bytes:
            self.bytes[source] += count
            self.inputs[source] += 1
            self.timeline.spread(source, begin, end, count)

    def _take_fetch_failed(self, record: Record, t: float) -> None:
        self.fetches_failed += 1
        if len(self.fetch_failures) < _FETCH_FAILURES:
            self.fetch_failures.append({**record, "t": t})

    def _take_ended(self, _: Any, __: float) -> None:
        self.ended = True
