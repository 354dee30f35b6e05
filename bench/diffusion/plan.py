"""Which contender runs which workload in which round, so that a pass stays short.

What is bound by the throttle hardly varies and takes longest, so rivals run it in the first round only: "reuse 10" without
caches, and all with two inputs a task. Without caches no contender runs two inputs: that takes inputs × bytes / rate.
`everything` lifts this.
SPDX-License-Identifier: Apache-2.0
"""

from diffusion import workloads

OURS = ("thalweg", "thalweg, local processes")
LITTLE_MEMORY = ("thalweg, little memory", "dask, futures, little memory", "ray, objects, little memory")
LARGER_THAN_MEMORY = (workloads.LARGER_THAN_MEMORY, workloads.LARGER_THAN_MEMORY_AGAIN)
PLAIN = ("dask", "ray")
SHARING = ("dask, futures", "ray, objects")
PAIRS = ("all pairs 60²", "stacked pairs", "zipf pairs")
HARMLESS = ("reuse 1", "compute-bound", "one file for all")


def runs(contender, workload, round_number, everything=False):
    """Whether this contender runs this workload in this round, counted from 0."""
    is_first = round_number == 0 or everything
    if contender in LITTLE_MEMORY or workload in LARGER_THAN_MEMORY:
        return contender in LITTLE_MEMORY and workload in LARGER_THAN_MEMORY and is_first
    if workload == workloads.LARGE_FILES:
        return contender in ("thalweg", *SHARING) and is_first
    if workload == workloads.SMALL_CACHES:
        # No other contender's caches have a limit.
        return contender == "thalweg"
    if workload == workloads.CHURNED:
        return contender == "thalweg" or (contender == "dask + filecache" and is_first)
    if workload == workloads.SHORT_TASKS:
        return contender in OURS + PLAIN
    if workload == workloads.SECOND_RUN:
        return contender in OURS or is_first and contender in (*SHARING, "dask + filecache", "joblib.Memory")
    if contender in SHARING:
        return True
    if contender == "joblib.Memory":
        return workload in ("reuse 10", *PAIRS, *HARMLESS) and is_first
    if contender == "thalweg, first-available":
        return workload in HARMLESS
    if contender == "thalweg, local processes":
        return workload in ("reuse 10", "all pairs 60²")
    if contender in PLAIN:
        return workload in HARMLESS or (workload == "reuse 10" and is_first)
    if contender == "ray + filecache":
        return workload in ("reuse 10", *PAIRS) and is_first
    return contender in OURS or is_first or workload in ("reuse 10", *HARMLESS)
