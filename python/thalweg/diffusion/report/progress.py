"""A bar on the terminal: how far a run is, and how much of its input was there. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import shutil
import sys
import time
from typing import Callable, TextIO

from thalweg.diffusion.report.events import Record
from thalweg.diffusion.report.rate import RecentRate
from thalweg.diffusion.report.run_stats import SOURCES
from thalweg.diffusion.report.units import format_seconds

_INTERVAL_S = 0.2
_BAR = 24


class Progress:
    """`listen` takes the records of `Events`. Silent into a file or a pipe."""

    def __init__(
        self, stream: TextIO | None = None, total: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_seen = self._stream.isatty()
        self._clock, self._total = clock, total
        self._submitted = self._done = self._failed = self._cancelled = 0
        self._bytes = dict.fromkeys(SOURCES, 0)
        self._drawn_at = float("-inf")
        self._rate = RecentRate(clock())

    def listen(self, record: Record) -> None:
        if not self._is_seen:
            return
        kind = record["kind"]
        if record.get("was_done"):
            self._done -= 1
        if kind == "submitted":
            self._submitted += record["count"]
        elif kind == "done" or (kind == "failed" and record["final"]):
            self._done += kind == "done"
            self._failed += kind == "failed"
            for source, count in record["inputs"]:
                self._bytes[source] += count
        elif kind == "cancelled":
            self._cancelled += record["count"]
        now = self._clock()
        self._rate.add(now, self._ended)
        if now - self._drawn_at >= _INTERVAL_S:
            self._draw(now)

    def close(self) -> None:
        if self._is_seen:
            self._draw(self._clock())
            self._stream.write("\n")
            self._stream.flush()
            self._is_seen = False

    def _draw(self, now: float) -> None:
        self._drawn_at = now
        line = self.line(now)[: shutil.get_terminal_size().columns - 1]
        self._stream.write(f"\r{line}\x1b[K")
        self._stream.flush()

    @property
    def _ended(self) -> int:
        return self._done + self._failed + self._cancelled

    def line(self, now: float) -> str:
        ended, total = self._ended, self._total or self._submitted
        full = round(_BAR * min(1.0, ended / total)) if total else 0
        parts = [f"{'█' * full}{'░' * (_BAR - full)} {ended:,}/{total:,}", f"{self._rate.per_second(now):.3g}/s"]
        remaining_s = self._rate.remaining_s(now, total - ended)
        if remaining_s is not None and total > ended:
            parts.append(f"{format_seconds(round(remaining_s))} left")
        read = sum(self._bytes.values())
        if read:
            parts.append(", ".join(f"{self._bytes[source] / read:.0%} {source}" for source in SOURCES))
        if self._failed:
            parts.append(f"{self._failed:,} failed")
        return "  ".join(parts)
