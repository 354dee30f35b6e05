"""Figure: bandwidth of all processes together against how many there are, and how many streams each has.

SPDX-License-Identifier: Apache-2.0
"""

import os
import statistics

from measuring import mpi, rows, svg
from semplar import perf
from wide_area import one_stream

PROCESSES = (1, 2, 4, 8)
STREAMS = ("1", "2", "4", "8", "auto")
# What SEMPLAR's TCP had under way at most, and the file that such a stream brings in some ten seconds.
SOURCE_WINDOW_BYTES = 106 << 10
SLOW_BYTES = 6 << 20
PLAIN, SOURCE = "one plain stream", "one plain stream, 106 KiB window"


class Figure:
    TITLE = "Bandwidth of all processes together"
    MEASURED = ("write_mbit_per_s", "read_mbit_per_s")

    def __init__(self, far, scratch, arguments):
        megabytes = arguments.megabytes
        self.far, self.megabytes = far, megabytes
        self.program = mpi.build("mpich", "perf", scratch)
        self.cases = [dict(contender="thalweg", processes=n, streams=s) for n in PROCESSES for s in STREAMS]
        self.cases += [dict(contender=name, processes=1, streams="1") for name in (PLAIN, SOURCE)]
        self.plain_files = {PLAIN: scratch / "plain", SOURCE: scratch / "plain-short"}
        for name, length in ((PLAIN, megabytes << 20), (SOURCE, SLOW_BYTES)):
            self.plain_files[name].write_bytes(os.urandom(length))

    def run(self, case, environment, number):
        if case["contender"] != "thalweg":
            return self.plain(case["contender"], environment)
        environment = environment | {"THALWEG_STREAMS": case["streams"]}
        with self.far.node(environment) as node:
            return perf.rates(
                self.far, node, self.program, environment, ranks=case["processes"], megabytes=self.megabytes,
                seed=number + 1,
            )

    def plain(self, contender, environment):
        file, window = self.plain_files[contender], SOURCE_WINDOW_BYTES if contender == SOURCE else None
        seconds = one_stream.seconds(self.far, file, environment, "cubic", window)
        return {"write_mbit_per_s": round(file.stat().st_size * 8e-6 / seconds, 2), "read_mbit_per_s": ""}

    def draw(self, measured, path):
        ours = [row for row in measured if row["contender"] == "thalweg"]
        panels = [panel(ours, "write"), panel(ours, "read")]
        for number, contender in enumerate((PLAIN, SOURCE)):
            rates = [float(row["write_mbit_per_s"]) for row in measured if row["contender"] == contender]
            if rates:
                ends = [(least, statistics.median(rates)) for least in (PROCESSES[0], PROCESSES[-1])]
                panels[0].line(ends, contender, ("#888888", "#000000")[number], dashed=True, dots=False)
        svg.write(path, panels)


def panel(measured, access):
    across = svg.Axis("processes", PROCESSES[0], PROCESSES[-1], log=True, ticks=[(n, str(n)) for n in PROCESSES])
    drawn = svg.Panel(f"{access}, all processes together", across, svg.Axis("Mbit/s", 0, 200))
    for number, ((streams,), group) in enumerate(rows.groups(measured, "streams").items()):
        column = f"{access}_mbit_per_s"
        points = [
            (int(processes), statistics.median(float(row[column]) for row in some))
            for (processes,), some in rows.groups(group, "processes").items()
        ]
        drawn.line(sorted(points), f"streams of each: {streams}", svg.COLOURS[number])
    return drawn
