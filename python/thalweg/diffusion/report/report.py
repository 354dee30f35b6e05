"""The report of a run: one HTML file that shows what was done where, and where its input came from.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import time
from html import escape
from typing import Any

from thalweg.diffusion.cache.partial_file import PartialFile
from thalweg.diffusion.report import plot
from thalweg.diffusion.report.events import Record, read
from thalweg.diffusion.report.run_stats import SOURCES, RunStats
from thalweg.diffusion.report.summary import SOURCE_NAMES

FILE = "report.html"

# Rows of the chart of workers.
_WORKERS = 48

_STYLE = """
:root { --ink: #1d2733; --faint: #6b7785; --line: #e3e7ec; --paper: #fff; --wash: #f5f7f9;
  --local: #2f8f83; --peer: #e0a83a; --store: #c8553d; --work: #4a78b5; --wait: #b9c7d9; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #dfe6ee; --faint: #93a0af; --line: #303945; --paper: #161b22;
  --wash: #1e252e; --wait: #5a6b80; --bad: #f2867e; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 900px;
  margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; margin: 0; } h2 { font-size: 1.05em; margin: 2em 0 .4em; }
p { margin: .2em 0; } .faint { color: var(--faint); } .bad { color: var(--bad); }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(115px, 1fr)); gap: .8em; margin: 1.2em 0; }
.fact { background: var(--wash); border-radius: 8px; padding: .6em 1em; }
.fact b { display: block; font-size: 1.35em; white-space: nowrap; } .fact span { color: var(--faint); font-size: .87em; }
.bar { display: flex; height: 16px; border-radius: 8px; overflow: hidden; background: var(--wash); margin: .5em 0; }
.bar i { display: block; }
.key span { margin-right: 1.3em; white-space: nowrap; }
.key i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em; }
i.local { background: var(--local); } i.peer { background: var(--peer); } i.store { background: var(--store); }
i.work { background: var(--work); } i.wait { background: var(--wait); } i.bad { background: var(--bad); }
i.slots { background: var(--ink); height: 2px; vertical-align: middle; }
svg { width: 100%; height: auto; font-size: 11px; }
svg text { fill: var(--faint); } svg .label { text-anchor: end; } svg .time { text-anchor: middle; }
svg .last { text-anchor: end; }
svg .grid { stroke: var(--line); } svg rect { shape-rendering: crispEdges; } svg .track { fill: var(--wash); } svg .cell { fill: var(--work); }
svg polygon.local { fill: var(--local); } svg polygon.peer { fill: var(--peer); }
svg polygon.store { fill: var(--store); } svg polygon.work { fill: var(--work); } svg polygon.wait { fill: var(--wait); }
svg polygon.bad { fill: var(--bad); }
svg polyline { fill: none; stroke: var(--ink); stroke-width: 1.2; stroke-dasharray: 4 3; }
table { border-collapse: collapse; width: 100%; font-size: .93em; }
td, th { text-align: left; padding: .25em .6em .25em 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--faint); font-weight: normal; } .number { text-align: right; font-variant-numeric: tabular-nums; }
td.name { overflow-wrap: anywhere; }
details { border-bottom: 1px solid var(--line); padding: .3em 0; } summary { cursor: pointer; overflow-wrap: anywhere; }
pre { background: var(--wash); padding: .8em; border-radius: 6px; overflow-x: auto; font-size: .85em; }
"""


def write(run_folder: str | os.PathLike[str]) -> str:
    """Makes `report.html` of the events in a run folder, and returns its path."""
    stats = RunStats()
    for record in read(run_folder):
        stats.fold(record)
    folder = os.path.abspath(run_folder)
    path = os.path.join(folder, FILE)
    partial_file = PartialFile(folder, FILE)
    try:
        partial_file.write(html(stats).encode(errors="replace"))
        os.chmod(partial_file.path, 0o644)
        partial_file.rename_to(path)
    except BaseException:
        partial_file.discard()
        raise
    return path


def html(stats: RunStats, refresh_s: int | None = None) -> str:
    """The page; with `refresh_s`, one that asks for itself again."""
    stats.count_slots(stats.end_s)
    again = f'<meta http-equiv="refresh" content="{refresh_s}">' if refresh_s else ""
    sections = [
        _head(stats),
        _facts(stats),
        _came_from(stats),
        _rates(stats),
        _slots(stats),
        _workers(stats),
        _slowest(stats),
        _failures(stats),
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{again}'
        '<meta name="viewport" content="width=device-width">'
        f"<title>Thalweg run</title><style>{_STYLE}</style></head><body>{''.join(sections)}</body></html>\n"
    )


def _head(stats: RunStats) -> str:
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(stats.began)) if stats.began else "not yet"
    took = plot.seconds_written(stats.end_s)
    parts = [f"begun {began}", f"ended after {took}" if stats.ended else f"{took} so far"]
    if stats.policy:
        parts.append(f"policy {escape(stats.policy)}")
    if stats.cache_bytes:
        parts.append(f"caches of {plot.amount_written(stats.cache_bytes, 'B')}")
    return f'<h1>Run</h1><p class="faint">{" · ".join(parts)}</p>'


def _facts(stats: RunStats) -> str:
    used = f"{min(1.0, stats.busy_s / stats.slots_s):.0%}" if stats.slots_s else "–"
    waited = f"{stats.waiting_s / stats.busy_s:.0%}" if stats.busy_s else "–"
    rate = stats.done / stats.end_s if stats.end_s else 0
    facts = [
        (f"{stats.done:,}", f"of {stats.submitted:,} tasks done"),
        (f"{rate:.3g}/s", "tasks, on average"),
        (f"{stats.share('local'):.0%}", "of the input was here"),
        (plot.amount_written(stats.bytes["store"], "B"), "came from the store"),
        (used, "of the slots' time used"),
        (waited, "of that waiting for input"),
    ]
    if stats.failed or stats.tried_again:
        facts.append((f"{stats.failed:,}", f"tasks failed; {stats.tried_again:,} attempts were repeated"))
    boxes = "".join(f'<div class="fact"><b>{value}</b><span>{label}</span></div>' for value, label in facts)
    return f'<div class="facts">{boxes}</div>'


def _came_from(stats: RunStats) -> str:
    bar = "".join(f'<i class="{source}" style="width:{stats.share(source):.2%}"></i>' for source in SOURCES)
    rows = "".join(
        _row(
            f'<i class="{source}"></i>{SOURCE_NAMES[source]}',
            f"{stats.inputs[source]:,}",
            plot.amount_written(stats.bytes[source], "B"),
            f"{stats.share(source):.1%}",
        )
        for source in SOURCES
    )
    chart = plot.stacked(_series(stats, {source: source for source in SOURCES}), _edges(stats), "B/s")
    return (
        f'<h2>Where input came from</h2><div class="bar">{bar}</div>'
        f'<table class="key">{_header("from", "inputs", "bytes", "share")}{rows}</table>{chart}'
    )


def _rates(stats: RunStats) -> str:
    chart = plot.stacked(_series(stats, {"done": "work", "failed": "bad"}), _edges(stats), "/s")
    key = _key({"work": "done", "bad": "attempts that failed"})
    return f"<h2>Tasks a second</h2>{key}{chart}"


def _slots(stats: RunStats) -> str:
    series = _series(stats, {"working": "work", "waiting": "wait"})
    line = plot.Series("slots", "slots", stats.timeline.rates("slots", stats.end_s))
    chart = plot.stacked(series, _edges(stats), "", line)
    key = _key({"work": "computing", "wait": "waiting for input", "slots": "slots there are"})
    return f"<h2>Busy slots</h2>{key}{chart}"


def _workers(stats: RunStats) -> str:
    names = stats.rows()
    if not names:
        return ""
    rows = []
    for name in names[:_WORKERS]:
        slots = max(1, stats.workers.get(name, 1))
        busy = stats.timeline.rates(f"worker {name}", stats.end_s)
        rows.append((name, [value / slots for value in busy]))
    more = f'<p class="faint">and {len(names) - _WORKERS} more</p>' if len(names) > _WORKERS else ""
    return f"<h2>Workers, and how busy they were</h2>{plot.cells(rows, _edges(stats))}{more}"


def _slowest(stats: RunStats) -> str:
    slowest = stats.slowest()
    if not slowest:
        return ""
    rows = "".join(
        _row(
            escape(str(record["name"])),
            escape(str(record["task"])),
            plot.seconds_written(float(record["seconds"])),
            plot.seconds_written(float(record["fetch_s"])),
            escape(str(record["worker"])),
        )
        for record in slowest
    )
    header = _header("function", "task", "took", "waiting for input", "on")
    return f"<h2>Slowest tasks</h2><table>{header}{rows}</table>"


def _failures(stats: RunStats) -> str:
    parts = []
    if stats.errors:
        counted = sorted(stats.errors.items(), key=lambda one: -one[1])
        rows = "".join(
            f'<tr><td class="number">{count:,}</td><td>{escape(error)}</td></tr>' for error, count in counted
        )
        parts.append(f"<h2>Failures</h2><table>{rows}</table>")
        parts.extend(_failure(record) for record in stats.failures)
    if stats.fetches_failed:
        rows = "".join(_fetch_failure(record) for record in stats.fetch_failures)
        parts.append(f"<h2>Inputs that did not come at once</h2><p>{stats.fetches_failed:,} times</p>")
        parts.append(f"<table>{_header('from', 'on', 'input', 'error')}{rows}</table>")
    return "".join(parts)


def _failure(record: Record) -> str:
    what = "failed" if record["final"] else f"attempt {record['attempt']} failed, and was repeated"
    return (
        f"<details><summary>{escape(str(record['name']))}, task {escape(str(record['task']))}: {what}"
        f' <span class="faint">after {plot.seconds_written(float(record["t"]))} on {escape(str(record["worker"]))}</span>'
        f'<br><span class="bad">{escape(str(record["error"]))}</span></summary>'
        f"<pre>{escape(str(record['traceback']))}</pre></details>"
    )


def _fetch_failure(record: Record) -> str:
    return _row(*(escape(str(record[name])) for name in ("source", "worker", "item", "error")))


def _series(stats: RunStats, styles: dict[str, str]) -> list[plot.Series]:
    end = stats.end_s
    return [plot.Series(name, style, stats.timeline.rates(name, end)) for name, style in styles.items()]


def _edges(stats: RunStats) -> list[float]:
    return stats.timeline.edges(stats.end_s)


def _key(labels: dict[str, str]) -> str:
    return (
        '<p class="key">' + "".join(f'<span><i class="{s}"></i>{label}</span>' for s, label in labels.items()) + "</p>"
    )


def _header(*names: str) -> str:
    return "<tr>" + "".join(f"<th>{name}</th>" for name in names) + "</tr>"


def _row(*values: Any) -> str:
    return "<tr>" + "".join(f'<td class="name">{value}</td>' for value in values) + "</tr>"
