"""Figure: NPB's BT-IO (`btio.c`): a grid's states written to a far store and read again, opened there or copied.

Each case has a class, a way, and no computing between the states or as much as the link needs for the program's bytes;
the file is then not read again. Timed from the first command's start to the last one's end.
SPDX-License-Identifier: Apache-2.0
"""

import filecmp
import json
import statistics
import subprocess
import time

from ddiha.others import Others
from demonstration.store import find_thalweg
from measuring import mpi, rows, svg
from wide_area import s3

RANKS = 4
# Points of an edge, and states.
CLASSES = {"S": (12, 12), "W": (24, 40), "A": (64, 40), "B": (102, 40), "C": (162, 40)}
OPENED, NONBLOCKING = "opened", "opened-nonblocking"
BY_PUT, BY_RCLONE = "put", "rclone"
WAYS = (OPENED, NONBLOCKING, BY_PUT, BY_RCLONE)
REDUCE = ("auto", "client", "node")
COMPUTING = ("none", "link")
# Of packets of 1500 bytes, at the rate of the link by default.
BYTES_PER_SECOND = 24e6
# Larger files are compared by the program that reads them only.
MAX_COMPARED_BYTES = 2e9
CEILING_MBIT_PER_S = 193


class Figure:
    TITLE = "BT-IO at a far store, opened there or copied"
    MEASURED = (
        "write_seconds", "write_mbit_per_s", "program_seconds", "io_seconds", "read_seconds", "read_mbit_per_s",
        "stored_megabytes", "others_cores",
    )

    def __init__(self, far, scratch, arguments):
        self.far, self.scratch, self.read_back = far, scratch, not arguments.write_only
        self.program = mpi.build("mpich", "btio", scratch)
        self.local, self.fetched = scratch / "states", scratch / "fetched"
        self.reference = {}
        self.cases = [
            {"class": name, "computing": computing, "files": way, "reduced_at": reduced_at if way != BY_RCLONE else ""}
            for name in arguments.classes
            for computing in arguments.computing
            for way in arguments.ways
            for reduced_at in (arguments.reduce if way != BY_RCLONE else arguments.reduce[:1])
        ]

    def run(self, case, environment, number):
        for file in (self.local, self.fetched):
            file.unlink(missing_ok=True)
        # So that no run pays for another's pages.
        subprocess.run(["sync", "-f", self.scratch], check=True)
        others = Others()
        way = case["files"]
        if way == BY_RCLONE:
            measured = self.by_rclone(case, environment)
        else:
            measured = self.by_thalweg(case, environment | {"THALWEG_REDUCE": case["reduced_at"]})
        return measured | {"others_cores": round(others.busy_cores(), 2)}

    def by_thalweg(self, case, environment):
        is_opened = case["files"] in (OPENED, NONBLOCKING)
        with self.far.node(environment) as node:
            there, run = f"thalweg://{node}::states", [find_thalweg(), "run", "-q", "--node", node, "--"]
            if is_opened:
                write = [[*run, *self.job(case, "SD:/states", "write")]]
                read = [[*run, *self.job(case, "SD:/states", "read")]]
            else:
                write = [self.job(case, self.local, "write"), [find_thalweg(), "put", self.local, there]]
                read = [[find_thalweg(), "get", there, self.local], self.job(case, self.local, "read")]
            measured = self.timed(case, environment, write, read)
        return measured | self.stored(case)

    def by_rclone(self, case, environment):
        with s3.bucket(self.far, environment) as settings:
            copy = ["rclone", "copyto", *s3.LARGE, self.local, f"{s3.BUCKET}/states"]
            fetch = ["rclone", "copyto", *s3.LARGE_BACK, f"{s3.BUCKET}/states", self.local]
            write = [self.job(case, self.local, "write"), copy]
            read = [fetch, self.job(case, self.local, "read")]
            measured = self.timed(case, settings, write, read)
        there = self.far.folder / s3.FOLDER / "states"
        self.compare(case, there)
        return measured | {"stored_megabytes": round(there.stat().st_size / 1e6, 1)}

    def job(self, case, path, action):
        name = case["class"]
        seconds = 0 if case["computing"] == COMPUTING[0] else self.bytes_of(name) / BYTES_PER_SECOND / CLASSES[name][1]
        calls = "nonblocking" if case["files"] == NONBLOCKING else "blocking"
        return mpi.launch("mpich", RANKS, self.program, path, name, action, calls, f"{seconds:.6f}", "close")

    def bytes_of(self, name):
        edge, states = CLASSES[name]
        return edge**3 * 40 * states

    def timed(self, case, environment, write, read):
        """Where the file is copied back, the local one is removed first."""
        megabits = self.bytes_of(case["class"]) * 8e-6
        seconds, program = self.seconds(environment, write)
        measured = {
            "write_seconds": round(seconds, 2), "write_mbit_per_s": round(megabits / seconds, 1),
            "program_seconds": round(program["seconds"], 2), "io_seconds": round(program["io_seconds"], 2),
            "read_seconds": "", "read_mbit_per_s": "",
        }
        if case["computing"] == COMPUTING[0] and self.read_back:
            self.local.unlink(missing_ok=True)
            seconds, _ = self.seconds(environment, read)
            measured |= {"read_seconds": round(seconds, 2), "read_mbit_per_s": round(megabits / seconds, 1)}
        return measured

    def seconds(self, environment, commands):
        """Of all commands, and what the program among them reported."""
        reported, begun = None, time.monotonic()
        for command in commands:
            said = self.far.output([str(word) for word in command], environment)
            if str(self.program) in map(str, command):
                reported = mpi.reported(said)
        return time.monotonic() - begun, reported

    def stored(self, case):
        """The store is looked into from this side, after the clock has stopped and without the link."""
        self.fetched.unlink(missing_ok=True)
        if self.bytes_of(case["class"]) <= MAX_COMPARED_BYTES:
            subprocess.run([find_thalweg(), "get", "-q", f"{self.far.folder}::states", self.fetched], check=True)
            self.compare(case, self.fetched)
        stored = json.loads(self.far.output([find_thalweg(), "stats", self.far.folder, "--json"], None))["stored_bytes"]
        return {"stored_megabytes": round(stored / 1e6, 1)}

    def compare(self, case, file):
        """With a plain file of the same class, which the program has written."""
        name = case["class"]
        if self.bytes_of(name) > MAX_COMPARED_BYTES:
            return
        if name not in self.reference:
            plain = self.scratch / f"reference-{name}"
            mpi.run([str(word) for word in self.job(case | {"computing": COMPUTING[0]}, plain, "write")])
            self.reference[name] = plain
        if not filecmp.cmp(self.reference[name], file, shallow=False):
            raise RuntimeError(f"{file} is not what a plain file of class {name} is")

    def draw(self, measured, path):
        svg.write(path, [panel(measured, computing) for computing in COMPUTING if of(measured, computing)])


def of(measured, computing):
    """The rows to draw; other settings of `--reduce` stand in the table."""
    return [row for row in measured if row["computing"] == computing and row["reduced_at"] in ("auto", "")]


def panel(measured, computing):
    """Bandwidth for each class: the program's bytes over the seconds until all of them are at the store."""
    medians = {
        case: statistics.median(float(row["write_mbit_per_s"]) for row in group)
        for case, group in rows.groups(of(measured, computing), "class", "files").items()
    }
    names = [name for name in CLASSES if any(case[0] == name for case in medians)]
    width = len(WAYS) + 1
    ticks = [(number * width + len(WAYS) / 2, f"class {name}") for number, name in enumerate(names)]
    across = svg.Axis(f"written by {RANKS} processes", -1, len(names) * width, ticks=ticks)
    most = 1.15 * max(CEILING_MBIT_PER_S, *medians.values())
    title = "no computing" if computing == COMPUTING[0] else "computing for as long as the link needs"
    drawn = svg.Panel(title, across, svg.Axis("Mbit/s until all is at the store", 0, most))
    for (name, way), rate in sorted(medians.items(), key=lambda case: WAYS.index(case[0][1])):
        place = names.index(name) * width + WAYS.index(way)
        drawn.bar(place + 0.05, place + 0.95, rate, way, svg.COLOURS[WAYS.index(way)], f"{rate:.0f}")
    ends = [(-1, CEILING_MBIT_PER_S), (len(names) * width, CEILING_MBIT_PER_S)]
    drawn.line(ends, "the link's content", "#888888", dashed=True, dots=False)
    return drawn
