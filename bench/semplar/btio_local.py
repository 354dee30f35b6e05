"""Figure: NPB's BT-IO (`btio.c`) without a link: a plain file, and a store with a node beside the program, on one disk.

Both are durable when the clock stops. The clock runs in the program, from before the open until after the close.
SPDX-License-Identifier: Apache-2.0
"""

import shutil
import statistics
import subprocess

from ddiha.others import Others
from demonstration.store import Store
from measuring import mpi, rows, svg
from semplar.btio import CLASSES, RANKS

PLAIN, OPENED = "plain, collective", "opened at a node here"
WAYS = (PLAIN, OPENED)


class Figure:
    TITLE = "BT-IO on a disk of this machine"
    MEASURED = ("write_seconds", "write_mb_per_s", "read_seconds", "read_mb_per_s", "stored_megabytes", "others_cores")

    def __init__(self, far, scratch, arguments):
        self.scratch, self.timeout_s = scratch, arguments.timeout_s
        self.program = mpi.build("mpich", "btio", scratch)
        self.cases = [{"class": name, "files": way} for name in arguments.classes for way in WAYS]

    def run(self, case, environment, number):
        # So that no run pays for another's pages.
        subprocess.run(["sync", "-f", self.scratch], check=True)
        others = Others()
        measured = self.plain(case["class"]) if case["files"] == PLAIN else self.through_a_node(case["class"])
        return measured | {"others_cores": round(others.busy_cores(), 2)}

    def plain(self, name):
        file = self.scratch / "plain"
        rates = {action: self.measured(self.job(file, name, action, "sync")) for action in ("write", "read")}
        stored = file.stat().st_size
        file.unlink()
        return row_of(rates, stored)

    def through_a_node(self, name):
        store = Store(self.scratch / "store", self.scratch)
        try:
            store.start_nodes(1)
            rates = {
                action: self.measured(store.run(self.job("SD:/states", name, action, "close"), "durable"))
                for action in ("write", "read")
            }
        finally:
            store.stop_nodes()
        stored = store.stats()["stored_bytes"]
        shutil.rmtree(store.folder)
        return row_of(rates, stored)

    def job(self, path, name, action, durable):
        return mpi.launch("mpich", RANKS, self.program, path, name, action, "blocking", 0, durable)

    def measured(self, command):
        return mpi.run([str(word) for word in command], self.timeout_s)

    def draw(self, measured, path):
        svg.write(path, [panel(measured, "write"), panel(measured, "read")])


def row_of(rates, stored):
    megabytes = rates["write"]["bytes"] / 1e6
    row = {}
    for action, said in rates.items():
        row |= {f"{action}_seconds": round(said["seconds"], 2), f"{action}_mb_per_s": round(megabytes / said["seconds"], 1)}
    return row | {"stored_megabytes": round(stored / 1e6, 1)}


def panel(measured, access):
    medians = {
        case: statistics.median(float(row[f"{access}_mb_per_s"]) for row in group)
        for case, group in rows.groups(measured, "class", "files").items()
    }
    names = [name for name in CLASSES if any(case[0] == name for case in medians)]
    width = len(WAYS) + 1
    ticks = [(number * width + len(WAYS) / 2, f"class {name}") for number, name in enumerate(names)]
    across = svg.Axis(f"{RANKS} processes", -1, len(names) * width, ticks=ticks)
    drawn = svg.Panel(access, across, svg.Axis("MB/s", 0, 1.1 * max(medians.values())))
    for (name, way), rate in medians.items():
        place = names.index(name) * width + WAYS.index(way)
        drawn.bar(place + 0.05, place + 0.95, rate, way, svg.COLOURS[WAYS.index(way)], f"{rate:.0f}")
    return drawn
