"""Figure: the bandwidth that a program sees with and without reduction at its end of the link.

SPDX-License-Identifier: Apache-2.0
"""

import statistics

from measuring import mpi, rows, svg
from semplar import perf

# The random ones of 1024 words, the rest are zeros; *repeated* are random bytes that the store has already.
DATA = {"random": 1024, "compressible": 205, "repeated": 1024}
MODES = ("node", "client", "auto")
RANKS = 2


class Figure:
    TITLE = "Reduction on the way"
    MEASURED = ("write_mbit_per_s", "read_mbit_per_s")

    def __init__(self, far, scratch, arguments):
        megabytes = arguments.megabytes
        self.far, self.megabytes = far, megabytes
        self.program = mpi.build("mpich", "perf", scratch)
        self.cases = [dict(data=data, reduced_at=mode) for data in DATA for mode in MODES]

    def run(self, case, environment, number):
        with self.far.node(environment) as node:
            rates = lambda: perf.rates(  # noqa: E731
                self.far, node, self.program, environment, ranks=RANKS, megabytes=self.megabytes, seed=number + 1,
                random_words=DATA[case["data"]], options=["--reduce", case["reduced_at"]],
            )
            if case["data"] == "repeated":
                rates()
            return rates()

    def draw(self, measured, path):
        svg.write(path, [panel(measured, "write"), panel(measured, "read")])


def panel(measured, access):
    column, width = f"{access}_mbit_per_s", len(MODES) + 1
    medians = {
        case: statistics.median(float(row[column]) for row in group)
        for case, group in rows.groups(measured, "data", "reduced_at").items()
    }
    ticks = [(number * width + len(MODES) / 2, data) for number, data in enumerate(DATA)]
    across = svg.Axis(f"data, {RANKS} processes", -1, len(DATA) * width, ticks=ticks)
    drawn = svg.Panel(access, across, svg.Axis("Mbit/s of the program's bytes", 0, 1.1 * max(medians.values())))
    for (data, mode), rate in medians.items():
        place = list(DATA).index(data) * width + MODES.index(mode)
        drawn.bar(place + 0.05, place + 0.95, rate, f"reduced at: {mode}", svg.COLOURS[MODES.index(mode)], f"{rate:.0f}")
    return drawn
