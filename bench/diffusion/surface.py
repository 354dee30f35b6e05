"""Where placing tasks by their input helps, and where not: store speed × reuse × task length.

The grid is simulated (`thalweg simulate` on a trace: eight nodes of one processor, the rates of this bench), first-available
without caches against ours; a few of its points are run as well, Dask against ours, to hold the grid against.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import random
import subprocess
import tempfile
from pathlib import Path

from measuring import rows, svg

from diffusion import striped, turns, workloads

THALWEG = Path(os.environ["CARGO_TARGET_DIR"]) / "release" / "thalweg"
FILES, FILE_BYTES = 200, 2_000_000
STORE_MB_S = (10, 40, 160, 640)
REUSES = (1, 2, 5, 10, 30)
TASKS_S = (0.01, 0.1, 1.0)
REAL = ((40, 2, 0.01, 100), (160, 10, 0.01, 100), (40, 10, 0.1, 50), (160, 2, 0.1, 100))  # MB/s, reuse, s, files
COLOURS = ("#1f6fb4", "#2f9e44", "#e08214", "#8e44ad")


def run(folder, arguments):
    found = [simulated(*point, arguments.seed) for point in points()]
    rows.write(folder / "surface.csv", found)
    for store_mb_s, reuse, task_s, files in REAL:
        workload = workloads.one_input(f"surface, reuse {reuse}", files, FILE_BYTES, reuse, task_s, arguments.seed)
        if arguments.short:
            workload = workload.scaled(0.1)
        for contender in ("dask", "thalweg"):
            turns.take(contender, [workload], arguments.seed, 0, folder / "surface-runs.csv", store_mb_s * 1_000_000)


def points():
    return [(store, reuse, task_s) for task_s in TASKS_S for store in STORE_MB_S for reuse in REUSES]


def simulated(store_mb_s, reuse, task_s, seed):
    row = {"store_mb_s": store_mb_s, "reuse": reuse, "task_s": task_s}
    with tempfile.NamedTemporaryFile("w", suffix=".trace") as trace:
        trace.write(described(reuse, task_s, seed))
        trace.flush()
        for policy in ("fa", "thalweg"):
            row[f"{policy}_s"] = round(simulate(trace.name, store_mb_s, policy)["makespan_s"], 3)
    return row | {"gain": round(row["fa_s"] / row["thalweg_s"], 3)}


def described(reuse, task_s, seed):
    files = [file for file in range(FILES) for _ in range(reuse)]
    random.Random(seed).shuffle(files)
    lines = ["batch", *(f"file {file} {FILE_BYTES}" for file in range(FILES))]
    return "\n".join([*lines, *(f"task 0 {task_s} reads {file}" for file in files), ""])


def simulate(trace, store_mb_s, policy):
    words = {
        "policy": policy, "cpus": workloads.WORKERS, "cpus-per-node": 1, "store-mb-s": store_mb_s,
        "reader-mb-s": store_mb_s / 5, "peer-mb-s": striped.PEER_BYTES_PER_S / 1e6,
        "cache-gb": 2 * FILES * FILE_BYTES / workloads.WORKERS / 1e9,
    }
    options = [word for name, value in words.items() for word in (f"--{name}", str(value))]
    done = subprocess.run([THALWEG, "simulate", trace, *options, "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def draw(folder):
    """A panel a task length, a line a store."""
    grid, panels = rows.read(folder / "surface.csv"), []
    most = max(float(row["gain"]) for row in grid) * 1.1
    for task_s in TASKS_S:
        title = f"tasks of {task_s * 1000:g} ms"
        x = svg.Axis("tasks a file", 0.9, 33, log=True, ticks=[(reuse, str(reuse)) for reuse in REUSES])
        ticks = [(gain, str(gain)) for gain in (1, 2, 5, 10, 20, 50) if gain < most]
        panel = svg.Panel(title, x, svg.Axis("first-available ÷ thalweg", 0.8, most, log=True, ticks=ticks))
        panel.line([(0.9, 1), (33, 1)], "", "#bbbbbb", dots=False)
        for store_mb_s, colour in zip(STORE_MB_S, COLOURS):
            line = [
                (int(row["reuse"]), float(row["gain"])) for row in grid
                if float(row["task_s"]) == task_s and float(row["store_mb_s"]) == store_mb_s
            ]
            panel.line(line, f"store {store_mb_s} MB/s", colour)
        for point in measured(folder, task_s):
            panel.line([point], "measured (Dask ÷ thalweg)", "#111111")
        panels.append(panel)
    svg.write(folder / "surface.svg", panels, columns=3)


def measured(folder, task_s):
    """(reuse, gain) of the points that were run."""
    found = rows.groups(rows.read(folder / "surface-runs.csv"), "store_mb_s", "workload", "task_s")
    for (_, workload, length), lines in found.items():
        times = {row["contender"]: float(row["makespan_s"]) for row in lines}
        if float(length) == task_s and {"dask", "thalweg"} <= set(times):
            yield int(workload.split()[-1]), times["dask"] / times["thalweg"]


def table(folder):
    """How many times as long first-available takes, a row for each task length and store."""
    grid = rows.groups(rows.read(folder / "surface.csv"), "task_s", "store_mb_s")
    lines = [
        [f"{float(task_s) * 1000:g} ms, {store_mb_s} MB/s", *(f"{float(row['gain']):.2f}" for row in of_one)]
        for (task_s, store_mb_s), of_one in grid.items()
    ]
    head = ["tasks, store", *(f"reuse {reuse}" for reuse in REUSES)]
    return f"## Surface\n\nFirst-available over thalweg, simulated.\n\n{rows.markdown(head, lines)}\n"
