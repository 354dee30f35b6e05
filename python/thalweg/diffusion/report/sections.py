"""The sections of the report and of the live page, as HTML by their names. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape

from thalweg.diffusion.report import plot
from thalweg.diffusion.report.events import Record
from thalweg.diffusion.report.failure_groups import FailureGroup
from thalweg.diffusion.report.function_stats import Call, FunctionStats
from thalweg.diffusion.report.markup import Column, details, preformatted, section, table, text
from thalweg.diffusion.report.run_stats import SOURCES, RunStats
from thalweg.diffusion.report.summary import SOURCE_NAMES
from thalweg.diffusion.report.units import format_amount, format_seconds, format_share
from thalweg.diffusion.report.worker_stats import WorkerStats

# Rows of tables; the text above them says what was left out.
_MAX_WORKERS = 48
_MAX_FUNCTIONS = 50
_MAX_GROUPS = 50
_MAX_LONGEST = 10
_MAX_PAUSES = 20
_MAX_TRACEBACK = 20_000
_NAMED = Column("Function")


def sections(stats: RunStats) -> dict[str, str]:
    stats.count_slots(stats.end_s)
    return {
        "overview": _overview(stats),
        "failures": _failures(stats),
        "running": _running(stats),
        "functions": _functions(stats),
        "inputs": _inputs(stats),
        "tasks": _tasks(stats),
        "workers": _workers(stats),
        "fetches": _fetch_failures(stats),
        "pauses": _pauses(stats),
    }


def title(stats: RunStats) -> str:
    return f"{format_share(stats.tasks_ended, stats.submitted)} · Thalweg run" if stats.submitted else "Thalweg run"


# How far it is.


def _overview(stats: RunStats) -> str:
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(stats.began)) if stats.began else "not yet"
    took = format_seconds(stats.end_s)
    parts = [f"begun {began}", f"ended after {took}" if stats.ended else f"{took} so far"]
    if stats.paused_s >= 1:
        parts.append(f"without pauses of {format_seconds(stats.paused_s)}")
    if stats.policy:
        parts.append(f"policy {text(stats.policy)}")
    if stats.cache_bytes:
        parts.append(f"caches of {format_amount(stats.cache_bytes, 'B')}")
    bar = f'<progress max="{max(1, stats.submitted)}" value="{stats.tasks_ended}" aria-label="tasks ended"></progress>'
    facts = "".join(_fact(*one) for one in _facts(stats))
    return f'<h1>Run</h1><p class="faint">{" · ".join(parts)}</p>{bar}<dl class="facts">{facts}</dl>'


def _fact(label: str, value: str, more: str = "") -> str:
    return f"<div><dt>{label}</dt><dd>{value}</dd>{f'<dd>{more}</dd>' if more else ''}</div>"


def _facts(stats: RunStats) -> list[tuple[str, str, str]]:
    failed = f"{stats.tried_again:,} failed attempts repeated" if stats.tried_again else ""
    facts = [
        ("Tasks done", f"{stats.done:,}", f"of {stats.submitted:,}{_starts(stats)}"),
        ("Tasks failed", f"{stats.failed:,}", failed),
    ]
    if stats.cancelled:
        facts.append(("Tasks cancelled", f"{stats.cancelled:,}", ""))
    if not stats.ended:
        facts.extend(_facts_of_now(stats))
    hits = stats.inputs["local"] + stats.inputs["peer"]
    inputs = hits + stats.inputs["store"]
    facts += [
        ("Tasks a second", f"{stats.tasks_per_s():.3g}/s", "on average" if stats.ended else "lately"),
        ("Slots busy", format_share(stats.busy_s, stats.slots_s), "of their time"),
        ("Waiting for input", format_share(stats.waiting_s, stats.busy_s), "of busy time"),
        ("Cache hits", format_share(hits, inputs), f"{hits:,} of {inputs:,} inputs"),
        ("From peers", format_amount(stats.bytes["peer"], "B"), ""),
        ("From the store", format_amount(stats.bytes["store"], "B"), ""),
    ]
    return facts


def _starts(stats: RunStats) -> str:
    """A task that a later start ran again is counted in both."""
    return f" in {stats.starts:,} starts" if stats.starts > 1 else ""


def _facts_of_now(stats: RunStats) -> list[tuple[str, str, str]]:
    remaining_s = stats.remaining_s()
    running = stats.running
    remaining = "–" if remaining_s is None else f"about {format_seconds(_rounded(remaining_s))}"
    facts = [
        ("Remaining time", remaining, "for the tasks submitted so far"),
        ("Queued", f"{stats.queued:,}", "tasks" if running is not None else "or running"),
    ]
    if running is not None:
        facts.append(("Running", f"{running:,}", f"on {sum(stats.slots.values()):,} slots"))
    here = [worker for worker in stats.workers() if worker.is_here]
    cores = [worker.cores for worker in here if worker.cores is not None]
    memory = [worker.memory_bytes for worker in here if worker.memory_bytes is not None]
    if cores:
        facts.append(("Processors", f"{sum(cores):.2g} cores", "in use"))
    if memory:
        facts.append(
            ("Memory", format_amount(sum(memory), "B"), f"of {len(here):,} {'worker' if len(here) == 1 else 'workers'}")
        )
    return facts


def _rounded(seconds: float) -> float:
    """To two digits: more of it is not known."""
    return float(f"{seconds:.2g}")


# Failures.


def _failures(stats: RunStats) -> str:
    groups = stats.failures.by_count()
    parts = [_failure_group(group) for group in groups[:_MAX_GROUPS]]
    more = len(groups) - len(parts)
    if more > 0:
        parts.append(f'<p class="faint">and {more:,} more kinds</p>')
    return section("Failures by kind", *parts)


def _failure_group(group: FailureGroup) -> str:
    key = f"failure {group.key}"
    repeated = group.count - group.final
    counts = [f"{group.final:,} {'task' if group.final == 1 else 'tasks'} failed"] if group.final else []
    if repeated:
        counts.append(f"{repeated:,} failed {'attempt' if repeated == 1 else 'attempts'} repeated")
    names = ", ".join(text(name, 80) for name in group.names)
    summary = (
        f'<span class="bad">{text(group.error)}</span><br><span class="count">{"; ".join(counts)}</span> · {names}'
    )
    rows = [
        (
            text(one.get("name", ""), 80),
            _code(one.get("arguments")),
            text(one.get("worker") or "none", 80),
            text(one["task"]),
        )
        for one in group.examples
    ]
    columns = [_NAMED, Column("Arguments"), Column("Worker"), Column("Task", True)]
    shown = table(f"The first {len(rows)} of {group.count:,}" if group.count > len(rows) else "Calls", columns, rows)
    trace = preformatted(group.traceback, _MAX_TRACEBACK, f"traceback of {key}") if group.traceback else ""
    return details(key, summary, shown + trace)


def _code(arguments: object) -> str:
    return f"<code>{text(arguments)}</code>" if arguments else '<span class="faint">not recorded</span>'


def _fetch_failures(stats: RunStats) -> str:
    groups = stats.fetch_failures.by_count()[:_MAX_GROUPS]
    rows = [
        (
            text(group.error),
            f"{group.count:,}",
            ", ".join(text(name) for name in group.names),
            "<br>".join(text(one["item"]) for one in group.examples),
        )
        for group in groups
    ]
    if not rows:
        return ""
    columns = [Column("Error"), Column("Times", True), Column("From"), Column("Inputs, the first few")]
    return section("Inputs that did not come at once", table(f"{stats.fetches_failed:,} times in all", columns, rows))


# Slow tasks.


def _running(stats: RunStats) -> str:
    running = [(worker, one) for worker in stats.workers() for one in worker.longest]
    running.sort(key=lambda pair: -_running_s(stats, *pair))
    rows = [
        (
            text(one["name"], 120),
            _code(one.get("arguments")),
            format_seconds(_running_s(stats, worker, one)),
            text(worker.name, 80),
        )
        for worker, one in running[:_MAX_LONGEST]
    ]
    if not rows:
        return ""
    columns = [_NAMED, Column("Arguments"), Column("Running for", True), Column("Worker")]
    return section("Running now", table("Tasks that have been running longest", columns, rows))


def _running_s(stats: RunStats, worker: WorkerStats, one: Record) -> float:
    return float(one["seconds"]) + stats.end_s - worker.heard_s


def _functions(stats: RunStats) -> str:
    functions = stats.functions.by_time()
    if not functions:
        return ""
    columns = [
        _NAMED,
        *(Column(title, True) for title in ("Done", "Median", "p95", "Longest", "Total", "Waiting", "Failed")),
    ]
    caption = (
        "How long calls had their slots: 95 of 100 no longer than p95. Total includes attempts that failed; "
        "Waiting is its share of waiting for input"
    )
    if len(functions) > _MAX_FUNCTIONS:
        caption += f"; the first {_MAX_FUNCTIONS} by total time"
    shown = functions[:_MAX_FUNCTIONS]
    slowest = stats.functions.slowest()
    parts = [table(caption, columns, [_function_row(one) for one in shown])]
    if slowest:
        parts.append(section_of_calls("Slowest calls", slowest))
    if len(shown) > 1:
        parts.append("<h3>Slowest calls of each function</h3>")
        parts.extend(_slowest_of(one) for one in shown if one.slowest.sorted())
    return section("Functions", *parts)


def _function_row(one: FunctionStats) -> Sequence[str]:
    durations = one.durations
    times = [durations.quantile(0.5), durations.quantile(0.95), durations.longest_s, one.busy_s]
    failed = f'<span class="bad">{one.failed:,}</span>' if one.failed else "0"
    written = [format_seconds(value) if value else "–" for value in times]
    return (
        text(one.name, 120),
        f"{durations.count:,}",
        *written,
        format_share(one.waiting_s, one.busy_s),
        failed,
    )


def section_of_calls(caption: str, calls: Sequence[Call]) -> str:
    columns = [_NAMED, Column("Arguments"), Column("Took", True), Column("Waited for input", True), Column("Worker")]
    rows = [
        (
            text(one.name, 120),
            _code(one.arguments),
            format_seconds(one.seconds),
            format_seconds(one.fetch_s),
            f'{text(one.worker, 80)} <span class="faint">task {text(one.task)}</span>',
        )
        for one in calls
    ]
    return table(caption, columns, rows)


def _slowest_of(one: FunctionStats) -> str:
    calls = one.slowest.sorted()
    return details(f"slowest of {one.name}", f"{text(one.name, 120)}", section_of_calls("Slowest calls", calls))


# Over time.


def _axis(stats: RunStats) -> plot.TimeAxis:
    return plot.TimeAxis(stats.timeline.edges(stats.end_s), [one.at_s for one in stats.pauses])


def _series(stats: RunStats, label: str, style: str, name: str) -> plot.Series:
    return plot.Series(label, style, stats.timeline.rates(name, stats.end_s))


def _at_most(one: plot.Series, limits: Sequence[float]) -> plot.Series:
    """Workers' clocks and reports are not exact: no bin has more than there is."""
    return one._replace(values=[min(pair) for pair in zip(one.values, limits)])


def _inputs(stats: RunStats) -> str:
    if not any(stats.inputs.values()):
        return section("Where input came from", '<p class="faint">No task has read an input.</p>')
    rows = [
        (
            f'<span class="name"><i class="{source}"></i>{escape(SOURCE_NAMES[source])}</span>',
            f"{stats.inputs[source]:,}",
            format_amount(stats.bytes[source], "B"),
            f"{stats.share(source):.1%}",
        )
        for source in SOURCES
    ]
    columns = [Column("From"), Column("Inputs", True), Column("Bytes", True), Column("Share of bytes", True)]
    bar = plot.share_bar([(source, stats.share(source)) for source in SOURCES])
    chart = plot.strips([_series(stats, SOURCE_NAMES[one], one, one) for one in SOURCES], _axis(stats), "B/s")
    return section("Where input came from", bar, table("All inputs of all attempts", columns, rows), chart)


def _tasks(stats: RunStats) -> str:
    ended = [_series(stats, "tasks done", "work", "done")]
    if stats.failed or stats.tried_again:
        ended.append(_series(stats, "attempts that failed", "failed", "failed"))
    there = _series(stats, "slots there are", "memory", "slots")
    slots = [
        _at_most(_series(stats, "slots computing", "work", "working"), there.values),
        _at_most(_series(stats, "slots waiting for input", "wait", "waiting"), there.values),
        there,
    ]
    axis = _axis(stats)
    return section("Tasks over time", plot.strips(ended, axis, "/s"), plot.strips(slots, axis, ""))


def _workers(stats: RunStats) -> str:
    workers = stats.workers()
    if not workers:
        return ""
    shown: Sequence[WorkerStats] = workers
    caption = "Processors (on average) and memory are those of a worker's process and all that it started"
    if len(workers) > _MAX_WORKERS:
        shown = sorted(workers, key=lambda one: (-one.is_here, -one.peak_bytes, -one.busy_s))[:_MAX_WORKERS]
        caption += f"; {_MAX_WORKERS} of {len(workers):,}, those with the most memory"
    axis = _axis(stats)
    most = _Most(stats, shown)
    rows = [_worker_row(stats, one, axis, most) for one in shown]
    columns = [
        Column("Worker"),
        *(Column(title, True) for title in ("Tasks", "Busy", "Processors", "Memory now", "Peak")),
        *(Column(f"{what} over time") for what in ("Busy", "Processors", "Memory")),
    ]
    return section("Workers", table(caption, columns, rows))


class _Most:
    """The scales that the strips of all workers share."""

    def __init__(self, stats: RunStats, workers: Sequence[WorkerStats]) -> None:
        rates, end = stats.timeline.rates, stats.end_s
        self.cores = max((max(rates(one.series("cores"), end)) for one in workers), default=1.0)
        self.memory = max((one.peak_bytes for one in workers), default=1)


def _worker_row(stats: RunStats, one: WorkerStats, axis: plot.TimeAxis, most: _Most) -> Sequence[str]:
    end = stats.end_s
    state = "" if one.is_here or stats.ended else f'<br><span class="faint">gone {text(one.left_because, 80)}</span>'
    busy = stats.timeline.rates(one.series("busy"), end)
    cores = stats.timeline.rates(one.series("cores"), end)
    memory = stats.timeline.levels(one.series("memory"), end)
    return (
        f'{text(one.name, 80)} <span class="faint">{one.slots} slots</span>{state}',
        f"{one.attempts:,}",
        format_share(sum(busy) / max(1, len(busy)), max(1, one.slots)),
        "–" if one.mean_cores is None else f"{one.mean_cores:.2g} cores",
        "–" if one.memory_bytes is None else format_amount(one.memory_bytes, "B"),
        format_amount(one.peak_bytes, "B") if one.peak_bytes else "–",
        plot.small_strip(plot.Series("busy slots", "work", busy), axis, max(1, one.slots)),
        plot.small_strip(plot.Series("processors", "wait", cores), axis, most.cores),
        plot.small_strip(plot.Series("memory", "memory", memory), axis, most.memory),
    )


def _pauses(stats: RunStats) -> str:
    if not stats.pauses:
        return ""
    rows = [
        (
            "started again" if one.is_start else "had nothing to do",
            format_seconds(one.at_s),
            format_seconds(one.seconds),
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.began)),
        )
        for one in stats.pauses[:_MAX_PAUSES]
    ]
    columns = [Column("The run"), Column("After", True), Column("Pause", True), Column("Went on")]
    caption = f"{stats.starts:,} starts; pauses are cut out of all times and pictures, where a dashed line marks each"
    return section("Pauses", table(caption, columns, rows))
