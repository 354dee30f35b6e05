"""Tables and figures from the rows: what was measured, and what the equations say with the rates of the same rounds.

SPDX-License-Identifier: Apache-2.0
"""

import statistics
import sys

from ddiha import figures, rates
from ddiha.contenders import OURS, PLAIN
from demonstration.store import find_thalweg
from measuring import machine, rows

NUMBERS = ("bytes", "phases", "stored_bytes", "seconds", "io_seconds", "close_seconds", "computing_seconds")


def publish(arguments, scratch, folder):
    measured = [row | {key: float(row[key]) for key in NUMBERS} for row in rows.read(folder / f"{arguments.name}.csv")]
    by_case = rows.groups(measured, "size", "contender")
    rounds = rows.read(folder / f"{arguments.name}-rates.csv")
    models = models_of(by_case, medians_of(rounds), arguments.compute_rate)
    versions = [[find_thalweg(), "--version"], ["mpichversion"]]
    (folder / f"{arguments.name}-machine.txt").write_text(machine.describe(scratch, sys.argv, versions))
    # A single size is no line.
    if len(models) > 1:
        figures.draw(folder / f"{arguments.name}.svg", by_case, models)
    title = f"# DDiHA's figures 12 and 13, `{machine.command(sys.argv)}`"
    text = "\n\n".join([title, times(by_case), equations(by_case, models), rates_of(rounds)])
    (folder / f"{arguments.name}.md").write_text(f"{text}\n")
    print(f"\n{text}\n\nraw rows, machine, tables and figures: {folder}")


def medians_of(rounds):
    return {key: statistics.median(float(row[key]) for row in rounds) for key in rounds[0] if key != "round"}


def models_of(by_case, measured_rates, compute_rate):
    """Size → model, with the share of its bytes that our runs of the size stored."""
    found = {}
    for (size, contender), group in by_case.items():
        if contender == OURS:
            stored = group[0]["stored_bytes"] / group[0]["bytes"]
            found[size] = rates.model(measured_rates, compute_rate, int(group[0]["phases"]), stored)
    return found


def times(by_case):
    head = ("written, by", "rounds", "visible I/O (s)", "in the close (s)", "÷ thalweg", "end to end (s)", "÷ thalweg")
    lines = []
    for (size, contender), group in by_case.items():
        lines.append((
            f"{size}, {contender}", len(group),
            shown(group, "io_seconds"), shown(group, "close_seconds"), ratio(by_case, size, contender, "io_seconds"),
            shown(group, "seconds"), ratio(by_case, size, contender, "seconds"),
        ))
    return rows.markdown(head, lines)


def equations(by_case, models):
    head = ("written", "φ", "(2)", "plain (s)", "(4)", "thalweg (s)", "(4), two parts of the disk", "(5)", "(6)", "gain")
    lines = []
    for size, model in models.items():
        plain, ours = (median(by_case, size, contender, "seconds") for contender in (PLAIN, OURS))
        lines.append((
            size, f"{model.output_mb / model.stored_mb:.2f}",
            f"{model.plain_s():.1f}", f"{plain:.1f}", f"{model.deduplicated_s():.1f}", f"{ours:.1f}",
            f"{model.as_written().deduplicated_s():.1f}", holds(model), f"{model.gain():.2f}", f"{plain / ours:.2f}",
        ))
    return rows.markdown(head, lines)


def rates_of(rounds):
    head = ("rate in each round (MB/s)", "median", "least", "most")
    keys = [key for key in rounds[0] if key != "round"]
    numbers = [{key: float(row[key]) for key in keys} for row in rounds]
    return rows.markdown(head, [(key, *(f"{value:.1f}" for value in rows.spread(numbers, key))) for key in keys])


def holds(model):
    cycles = f"{model.deduplication_cycle_s():.2f}", f"{model.computing_cycle_s():.2f}"
    return f"{cycles[0]} {'≤' if model.overlaps() else '>'} {cycles[1]}"


def shown(group, key):
    middle, least, most = rows.spread(group, key)
    return f"{middle:.2f} ({least:.2f} to {most:.2f})"


def ratio(by_case, size, contender, key):
    return f"{median(by_case, size, contender, key) / median(by_case, size, OURS, key):.2f}"


def median(by_case, size, contender, key):
    return statistics.median(row[key] for row in by_case[size, contender])
