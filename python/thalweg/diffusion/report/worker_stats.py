"""Statistics of one worker: its slots, what it did, and what it used of memory and processors.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from thalweg.diffusion.report.events import Record
from thalweg.diffusion.report.timeline import Timeline


class WorkerStats:
    """Its time goes into the run's timeline, under names of its own."""

    def __init__(self, name: str, timeline: Timeline) -> None:
        self.name = name
        self.slots = 0
        self.is_here = False
        self.left_because = ""
        self.attempts = 0
        self.busy_s = 0.0
        # As last heard; None before, and of memory where the platform does not say.
        self.running: int | None = None
        self.memory_bytes: int | None = None
        self.cores: float | None = None
        self.peak_bytes = 0
        self._measured_s = self._processor_s = 0.0
        # Tasks that it runs longest: records with `task`, `name`, `seconds` and `arguments`.
        self.longest: list[Record] = []
        self.heard_s = 0.0
        self._timeline = timeline

    def join(self, slots: int) -> None:
        self.slots, self.is_here, self.left_because = slots, True, ""

    def leave(self, why: str) -> None:
        self.is_here, self.left_because = False, why
        self.running, self.memory_bytes, self.cores, self.longest = None, None, None, []

    def add_spent(self, task: object, begin: float, end: float) -> None:
        self.attempts += 1
        self.longest = [one for one in self.longest if one["task"] != task]
        self.busy_s += end - begin
        self._timeline.spread(self.series("busy"), begin, end, end - begin)

    def add_usage(self, record: Record, t: float) -> None:
        seconds = max(0.0, float(record["seconds"]))
        self.running, self.cores, self.heard_s = int(record["running"]), float(record["cores"]), t
        self._timeline.spread(self.series("cores"), t - seconds, t, self.cores * seconds)
        self._measured_s += seconds
        self._processor_s += self.cores * seconds
        if record.get("memory_bytes") is not None:
            self.memory_bytes = int(record["memory_bytes"])
            self.peak_bytes = max(self.peak_bytes, self.memory_bytes)
            self._timeline.level(self.series("memory"), t - seconds, t, self.memory_bytes)
        self.longest = list(record.get("longest") or ())

    @property
    def mean_cores(self) -> float | None:
        return self._processor_s / self._measured_s if self._measured_s else None

    def series(self, what: str) -> str:
        return f"{what} of worker {self.name}"
