"""Figure: how long a program and its files take that lie far away: opened there, or copied from there and to there.

The program computes for about as long as its bytes are under way. *Simulation* writes (`overlap.c`), *search* reads a
database and writes a sixteenth of it (`search.c`). Timed from the first command's start to the last one's end.
SPDX-License-Identifier: Apache-2.0
"""

import os
import statistics
import time

from demonstration.store import find_thalweg
from measuring import mpi, rows, svg
from wide_area import s3

PROGRAMS = ("simulation", "search")
WAYS = ("opened at the store", "copied by thalweg", "copied by rclone")
PIECE_MEGABYTES = 4
CALIBRATION_SWEEPS = 2000
# Of packets of 1500 bytes, at the rate of the link by default.
BYTES_PER_SECOND = 24e6


class Figure:
    TITLE = "Files at a far store, opened there or copied"
    MEASURED = ("seconds",)

    def __init__(self, far, scratch, arguments):
        megabytes = arguments.megabytes
        self.far, self.folder = far, scratch / "staged"
        self.folder.mkdir()
        self.simulation, self.search = (mpi.build("mpich", name, scratch) for name in ("overlap", "search"))
        self.pieces = megabytes // PIECE_MEGABYTES
        self.database = scratch / "database"
        self.database.write_bytes(os.urandom(megabytes << 20))
        calibrated = mpi.run([str(word) for word in self.simulation_job("-", CALIBRATION_SWEEPS, 0)])
        computing_seconds = (megabytes << 20) / BYTES_PER_SECOND
        self.sweeps = round(CALIBRATION_SWEEPS * computing_seconds / calibrated["compute_seconds"])
        self.cases = [dict(program=program, files=way) for program in PROGRAMS for way in WAYS]

    def run(self, case, environment, number):
        run = {
            ("simulation", WAYS[0]): self.simulate_there,
            ("simulation", WAYS[1]): self.simulate_and_put,
            ("simulation", WAYS[2]): self.simulate_and_copy,
            ("search", WAYS[0]): self.search_there,
            ("search", WAYS[1]): self.get_search_put,
            ("search", WAYS[2]): self.copy_search_copy,
        }[case["program"], case["files"]]
        for file in self.folder.iterdir():
            file.unlink()
        return {"seconds": round(run(environment, number + 1), 3)}

    def simulation_job(self, path, sweeps, seed):
        return mpi.launch("mpich", 1, self.simulation, path, self.pieces, PIECE_MEGABYTES << 10, sweeps, seed, -1)

    def search_job(self, database, results):
        return mpi.launch("mpich", 1, self.search, database, results, self.pieces, self.sweeps)

    def through(self, node, job):
        return [find_thalweg(), "run", "-q", "--node", node, "--", *job]

    def seconds(self, environment, *commands):
        begun = time.monotonic()
        for command in commands:
            self.far.output([str(word) for word in command], environment)
        return time.monotonic() - begun

    def simulate_there(self, environment, seed):
        with self.far.node(environment) as node:
            job = self.simulation_job("SD:/output", self.sweeps, seed)
            return self.seconds(environment, self.through(node, job))

    def simulate_and_put(self, environment, seed):
        output = self.folder / "output"
        with self.far.node(environment) as node:
            copy = [find_thalweg(), "put", output, f"thalweg://{node}::output"]
            return self.seconds(environment, self.simulation_job(output, self.sweeps, seed), copy)

    def simulate_and_copy(self, environment, seed):
        output = self.folder / "output"
        with s3.bucket(self.far, environment) as settings:
            copy = ["rclone", "copyto", *s3.LARGE, output, f"{s3.BUCKET}/output"]
            return self.seconds(settings, self.simulation_job(output, self.sweeps, seed), copy)

    def search_there(self, environment, _):
        with self.far.node(environment) as node:
            self.far.output([find_thalweg(), "put", self.database, f"thalweg://{node}::database"], environment)
            job = self.search_job("SD:/database", "SD:/results")
            return self.seconds(environment, self.through(node, job))

    def get_search_put(self, environment, _):
        database, results = self.folder / "database", self.folder / "results"
        with self.far.node(environment) as node:
            there = f"thalweg://{node}::"
            self.far.output([find_thalweg(), "put", self.database, f"{there}database"], environment)
            fetch = [find_thalweg(), "get", f"{there}database", database]
            store = [find_thalweg(), "put", results, f"{there}results"]
            return self.seconds(environment, fetch, self.search_job(database, results), store)

    def copy_search_copy(self, environment, _):
        database, results = self.folder / "database", self.folder / "results"
        with s3.bucket(self.far, environment) as settings:
            self.far.output(["rclone", "copyto", *s3.LARGE, self.database, f"{s3.BUCKET}/database"], settings)
            fetch = ["rclone", "copyto", *s3.LARGE_BACK, f"{s3.BUCKET}/database", database]
            store = ["rclone", "copyto", *s3.LARGE, results, f"{s3.BUCKET}/results"]
            return self.seconds(settings, fetch, self.search_job(database, results), store)

    def draw(self, measured, path):
        medians = {
            case: statistics.median(float(row["seconds"]) for row in group)
            for case, group in rows.groups(measured, "program", "files").items()
        }
        width = len(WAYS) + 1
        ticks = [(number * width + len(WAYS) / 2, program) for number, program in enumerate(PROGRAMS)]
        across = svg.Axis("program", -1, len(PROGRAMS) * width, ticks=ticks)
        panel = svg.Panel("program and files", across, svg.Axis("seconds", 0, 1.1 * max(medians.values())))
        for (program, way), seconds in medians.items():
            place = PROGRAMS.index(program) * width + WAYS.index(way)
            panel.bar(place + 0.05, place + 0.95, seconds, way, svg.COLOURS[WAYS.index(way)], f"{seconds:.1f}")
        svg.write(path, [panel])
