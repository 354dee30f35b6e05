"""A run in a few lines of text: for terminals and logs. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import os

from thalweg.diffusion.report.events import read
from thalweg.diffusion.report.run_stats import SOURCES, RunStats
from thalweg.diffusion.report.units import format_amount, format_seconds

# Where inputs come from, in words.
SOURCE_NAMES = {"local": "this worker's copies", "peer": "other workers' copies", "store": "the store"}


def summary(run_folder: str | os.PathLike[str]) -> str:
    """Of the events in a run folder."""
    stats = RunStats()
    for record in read(run_folder):
        stats.fold(record)
    return in_words(stats)


def in_words(stats: RunStats) -> str:
    first = f"{stats.done:,} tasks in {format_seconds(stats.end_s)}"
    if stats.starts > 1:
        first += f" and {stats.starts:,} starts"
    if stats.failed:
        first += f", {stats.failed:,} failed"
    return "\n".join([first, *(_source(stats, source) for source in SOURCES)])


def _source(stats: RunStats, source: str) -> str:
    amount = format_amount(stats.bytes[source], "B")
    return f"{stats.inputs[source]:8,} inputs {amount:>8} {stats.share(source):6.1%}  from {SOURCE_NAMES[source]}"
