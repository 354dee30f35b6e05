"""diffusion — the same tasks over the same throttled store by Thalweg, Dask and Ray; see bench/README.md.

In each round every contender has a turn in a process of its own, and each round begins with another. Rows are kept as they
come; `--draw FOLDER` makes the table and the figure from them again.
SPDX-License-Identifier: Apache-2.0
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from measuring import machine

from diffusion import contenders, growth, plan, publishing, surface, turns, workloads

BENCH = Path(__file__).resolve().parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or BENCH.parent / "target")


def main():
    arguments = read_arguments()
    if arguments.draw:
        publishing.publish(arguments.draw)
        return
    if arguments.growth:
        growth.measure(arguments.growth)
        return
    folder = machine.results_folder(arguments.results) / "diffusion"
    folder.mkdir(exist_ok=True)
    print(f"seed {arguments.seed}; rows go to {folder}", flush=True)
    versions = [[sys.executable, "-m", "pip", "freeze"], [TARGET / "release" / "thalweg", "--version"]]
    command = ["bench/diffusion/run", *sys.argv[1:]]
    (folder / "machine.txt").write_text(machine.describe(turns.scratch(), command, versions))
    failed = sum(compare(arguments, number, folder) for number in range(arguments.rounds))
    if not arguments.only or "surface" in arguments.only:
        surface.run(folder, arguments)
    if not arguments.only or "decisions" in arguments.only:
        (folder / "decisions.txt").write_text(decisions())
    publishing.publish(folder)
    sys.exit(failed > 0)


def read_arguments():
    parser = argparse.ArgumentParser(prog="bench/diffusion/run", description="data diffusion beside Dask and Ray")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--full", action="store_true", help="five rounds, and every contender runs everything in each")
    parser.add_argument("--short", action="store_true", help="one round of a tenth of the tasks, to see that it works")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD",
                        help="runs whose `contender: workload` has one of the words")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="default: bench/results, with --short bench/ in the build folder")
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="table and figure from the rows in a folder")
    parser.add_argument("--growth", type=int, metavar="TASKS", help="only: what a run of so many short tasks keeps in memory")
    arguments = parser.parse_args()
    arguments.rounds = 5 if arguments.full else 1 if arguments.short else arguments.rounds
    arguments.results = arguments.results or (TARGET / "bench" if arguments.short else BENCH / "results")
    arguments.results.mkdir(parents=True, exist_ok=True)
    return arguments


def decisions():
    """The figures of the policy's example, which `run` has built: decisions a second on one core, bytes a replica."""
    return subprocess.run([TARGET / "release/examples/placement_speed"], check=True, capture_output=True, text=True).stdout


def compare(arguments, number, folder):
    """One round; how many turns failed."""
    order = contenders.names()
    order = order[number % len(order):] + order[:number % len(order)]
    failed = 0
    for name in order if number % 2 == 0 else reversed(order):
        wanted = [
            workload.scaled(0.1 if arguments.short else 1) for workload in workloads.usual(arguments.seed)
            if plan.runs(name, workload.name, number, arguments.full)
            and (not arguments.only or any(word in f"{name}: {workload.name}" for word in arguments.only))
        ]
        if wanted:
            failed += not turns.take(name, wanted, arguments.seed, number, folder / "runs.csv")
    return failed


if __name__ == "__main__":
    main()
