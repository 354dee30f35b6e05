"""One contender's turn, in a process of its own: it starts, runs the workloads one after the other, each with cold caches,
and prints a row for each. Starting is not timed; a run is from the first submission to the last result.

SPDX-License-Identifier: Apache-2.0
"""

import collections
import contextlib
import json
import re
import sys
import time
from pathlib import Path

from diffusion import busy, churn, contenders, content, store, workloads


def main():
    wanted = json.load(sys.stdin)
    contender = contenders.named(wanted["contender"])
    contender.start(Path(wanted["folder"]), wanted["base"])
    try:
        for workload in map(workloads.from_json, wanted["workloads"]):
            print(json.dumps(measure(contender, workload, wanted)), flush=True)
    finally:
        contender.close()


def measure(contender, workload, wanted):
    run = re.sub("[^a-z0-9]+", "-", f"{contender.name} {workload.name} {time.time_ns()}")
    addresses = [
        tuple(content.address(wanted["base"], run, workload.file_bytes, f"{file:06}") for file in files)
        for files in workload.tasks
    ]
    for _ in range(workload.runs - 1):
        execute(contender, workload, addresses, run, wanted)
    before = store.counters(wanted["base"], run)
    timed = execute(contender, workload, addresses, run, wanted)
    sent = {key: count - before[key] for key, count in store.counters(wanted["base"], run).items()}
    return {
        "round": wanted["round"], "workload": workload.name, "contender": contender.name, "seed": wanted["seed"],
        "store_mb_s": wanted["store_bytes_per_s"] / 1e6, "tasks": len(addresses), "task_s": workload.task_s,
        "file_bytes": workload.file_bytes, "cache_bytes": workload.cache_bytes,
        "bound_s": round(workload.bound_s(wanted["store_bytes_per_s"]), 3),
        "unique_bytes": workload.unique_bytes(), "store_bytes": sent["bytes"], "opens": sent["opens"],
        "possible_hits": round(workload.possible_hits(), 4), **timed,
    }


def execute(contender, workload, addresses, run, wanted):
    begin = time.monotonic()
    contender.prepare(workload, run)
    prepare_s = time.monotonic() - begin
    with disturbance(contender, workload, wanted):
        machine, begin = busy.Machine(), time.monotonic()
        results = contender.run(workload, addresses, run)
        makespan_s, idle, busy_s = time.monotonic() - begin, machine.idle_share(), machine.busy_s()
    contender.finish()
    if sorted(number for number, _ in results) != list(range(len(addresses))):
        raise SystemExit(f"{contender.name}, {workload.name}: not every task has exactly one result")
    sources = collections.Counter(contender.sources(results))
    return {
        "makespan_s": round(makespan_s, 3), "prepare_s": round(prepare_s, 3), "idle": round(idle, 3),
        "busy_s": round(busy_s, 2), **{source: sources[source] for source in ("local", "peer", "store")},
    }


def disturbance(contender, workload, wanted):
    if not workload.killed:
        return contextlib.nullcontext()
    return churn.Killer(contender.client, workload.killed, workload.bound_s(wanted["store_bytes_per_s"]) / 2)


if __name__ == "__main__":
    main()
