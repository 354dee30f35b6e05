"""The statistics of a run so far: its records added up, in memory that does not grow with its tasks.

Time here is the run's own: pauses between the starts of a run, and those in which it had nothing to do, are cut out.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import NamedTuple

from thalweg.diffusion.report.events import Record
from thalweg.diffusion.report.failure_groups import FailureGroups
from thalweg.diffusion.report.function_stats import Functions
from thalweg.diffusion.report.rate import RecentRate
from thalweg.diffusion.report.timeline import Timeline
from thalweg.diffusion.report.worker_stats import WorkerStats

SOURCES = ("local", "peer", "store")

# Workers with numbers of their own; the others share one entry.
_MAX_WORKERS = 256
OTHER_WORKERS = "(other workers)"
_MAX_PAUSES = 100
# A run that has nothing to do for so long pauses.
_MIN_IDLE_S = 60.0


class Pause(NamedTuple):
    """`at_s` is the run's own time; `began` the Unix time at which it went on; `is_start` when it was started again."""

    at_s: float
    seconds: float
    began: float
    is_start: bool


class RunStats:
    """Takes records one after the other."""

    def __init__(self) -> None:
        self.began: float | None = None
        self.policy, self.cache_bytes = "", 0
        self.end_s = 0.0
        self.ended = False
        self.starts = 0
        self.pauses: list[Pause] = []
        self.paused_s = 0.0
        self.submitted = self.done = self.failed = self.cancelled = self.tried_again = 0
        self.bytes = dict.fromkeys(SOURCES, 0)
        self.inputs = dict.fromkeys(SOURCES, 0)
        self.busy_s = self.waiting_s = self.slots_s = 0.0
        self.timeline = Timeline()
        self.functions = Functions()
        self.failures = FailureGroups()
        self.fetch_failures = FailureGroups()
        self.fetches_failed = 0
        # Slots of the workers that are there.
        self.slots: dict[str, int] = {}
        self._workers: dict[str, WorkerStats] = {}
        self._slots_until_s = 0.0
        # From a record's time to the run's own, and from that to Unix time.
        self._offset_s = 0.0
        self._unix_offset_s = 0.0
        self._rate = RecentRate()

    def fold(self, record: Record) -> None:
        take = getattr(self, f"_take_{record.get('kind')}", None)
        if take is None:
            # Of a later version.
            return
        t = float(record["t"]) + (0 if record["kind"] == "run" else self._offset_s)
        take(record, t)

    def advance(self, t: float) -> None:
        """It is that late."""
        self.end_s = max(self.end_s, t)

    # Sums of the records.

    @property
    def total_bytes(self) -> int:
        return sum(self.bytes.values())

    def share(self, source: str) -> float:
        """Of the bytes that tasks read, 0 to 1."""
        return self.bytes[source] / self.total_bytes if self.total_bytes else 0.0

    @property
    def tasks_ended(self) -> int:
        return self.done + self.failed + self.cancelled

    @property
    def tasks_left(self) -> int:
        return max(0, self.submitted - self.tasks_ended)

    @property
    def running(self) -> int | None:
        """As the workers last said; None if they say nothing."""
        heard = [worker.running for worker in self._workers.values() if worker.running is not None]
        return min(sum(heard), self.tasks_left) if heard else None

    @property
    def queued(self) -> int:
        return self.tasks_left - (self.running or 0)

    def tasks_per_s(self) -> float:
        """Lately, or of the whole run once it has ended."""
        if self.ended or not self.tasks_left:
            return (self.done + self.failed) / self.end_s if self.end_s else 0.0
        return self._rate.per_second(self.end_s)

    def remaining_s(self) -> float | None:
        if self.ended or not self.tasks_left:
            return None
        return self._rate.remaining_s(self.end_s, self.tasks_left)

    def workers(self) -> list[WorkerStats]:
        """In the order in which they came."""
        return list(self._workers.values())

    def count_slots(self, until: float) -> None:
        """Those that are there now were there until then."""
        if until > self._slots_until_s:
            slots_s = sum(self.slots.values()) * (until - self._slots_until_s)
            self.slots_s += slots_s
            self.timeline.spread("slots", self._slots_until_s, until, slots_s)
            self._slots_until_s = until

    # Records by kind.

    def _take_run(self, record: Record, _: float) -> None:
        began = float(record["began"])
        if self.began is None:
            self.began = began
        else:
            self._pause(began - (self.end_s + self._unix_offset_s), began, is_start=True)
        self.starts += 1
        self._offset_s, self._unix_offset_s = self.end_s, began - self.end_s
        self.policy, self.cache_bytes = str(record.get("policy") or ""), int(record.get("cache_bytes") or 0)
        self.ended = False
        # No worker is there any more until it joins again; and what is not done is submitted again.
        self.count_slots(self.end_s)
        self.slots.clear()
        for worker in self._workers.values():
            worker.leave("")
        self.submitted = self.tasks_ended
        self._rate = RecentRate(self.end_s, self.tasks_ended)

    def _pause(self, seconds: float, began: float, is_start: bool) -> None:
        seconds = max(0.0, seconds)
        self.paused_s += seconds
        if len(self.pauses) < _MAX_PAUSES:
            self.pauses.append(Pause(self.end_s, seconds, began, is_start))

    def _take_submitted(self, record: Record, t: float) -> None:
        idle_s = t - self.end_s
        if idle_s >= _MIN_IDLE_S and not self.tasks_left:
            self.count_slots(self.end_s)
            self._pause(idle_s, t + self._unix_offset_s, is_start=False)
            self._offset_s -= idle_s
            self._unix_offset_s += idle_s
            t = self.end_s
        if not self.tasks_left:
            self._rate = RecentRate(t, self.tasks_ended)
        self.submitted += int(record["count"])
        self.advance(t)

    def _take_cancelled(self, record: Record, t: float) -> None:
        self.cancelled += int(record["count"])
        self._end_tasks(t)

    def _take_joined(self, record: Record, t: float) -> None:
        self.count_slots(t)
        self.slots[record["worker"]] = int(record["slots"])
        self._worker(record).join(int(record["slots"]))
        self.advance(t)

    def _take_left(self, record: Record, t: float) -> None:
        self.count_slots(t)
        self.slots.pop(record["worker"], None)
        self._worker(record).leave(str(record.get("why") or ""))
        self.advance(t)

    def _take_usage(self, record: Record, t: float) -> None:
        self._worker(record).add_usage(record, t)
        self.advance(t)

    def _take_done(self, record: Record, t: float) -> None:
        self.done += 1
        self.timeline.add("done", t, 1)
        seconds, fetch_s = self._take_spent(record, t)
        self.functions.add_done(record, seconds, fetch_s)
        self._end_tasks(t)

    def _take_failed(self, record: Record, t: float) -> None:
        if record["final"]:
            self.failed += 1
        else:
            self.tried_again += 1
        if record.get("was_done"):
            # Its outputs could not be written to where they belong.
            self.done -= 1
        self.timeline.add("failed", t, 1)
        seconds, fetch_s = self._take_spent(record, t)
        self.functions.add_failed(record, seconds, fetch_s)
        self.failures.add(record)
        self._end_tasks(t)

    def _end_tasks(self, t: float) -> None:
        self._rate.add(t, self.tasks_ended)
        self.advance(t)

    def _take_spent(self, record: Record, t: float) -> tuple[float, float]:
        seconds = float(record["seconds"])
        fetch_s = min(float(record["fetch_s"]), seconds)
        if not record.get("worker"):
            return seconds, fetch_s
        begin = t - seconds
        self.busy_s += seconds
        self.waiting_s += fetch_s
        self.timeline.spread("waiting", begin, begin + fetch_s, fetch_s)
        self.timeline.spread("working", begin + fetch_s, t, seconds - fetch_s)
        self._worker(record).add_spent(record["task"], begin, t)
        for source, count in record["inputs"]:
            self._take_input(source, count, begin, begin + fetch_s)
        return seconds, fetch_s

    def _take_input(self, source: str, count: int, begin: float, end: float) -> None:
        if source in self.bytes:
            self.bytes[source] += count
            self.inputs[source] += 1
            self.timeline.spread(source, begin, end, count)

    def _take_fetch_failed(self, record: Record, t: float) -> None:
        self.fetches_failed += 1
        self.fetch_failures.add(record)
        self.advance(t)

    def _take_ended(self, _: Record, t: float) -> None:
        self.ended = True
        for worker in self._workers.values():
            worker.running, worker.longest = None, []
        self.advance(t)

    def _worker(self, record: Record) -> WorkerStats:
        name = str(record["worker"])
        if name not in self._workers and len(self._workers) >= _MAX_WORKERS:
            name = OTHER_WORKERS
        if name not in self._workers:
            self._workers[name] = WorkerStats(name, self.timeline)
        return self._workers[name]
