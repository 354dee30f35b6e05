"""Who runs what in which round, so that a pass stays short.

Rivals whose every task reads the store are bound by the throttle and hardly vary: they run "reuse 10" in one round. With two
inputs a task nobody compares with them; their time is then inputs × bytes / rate. `everything` lifts all this.
SPDX-License-Identifier: Apache-2.0
"""

PLAIN = ("dask", "ray")
PAIRS = ("all pairs 60²", "stacked pairs", "zipf pairs")
HARMLESS = ("reuse 1", "compute-bound", "one file for all")
OVERHEAD = "short tasks"
CHURN = "reuse 10, half killed"


def runs(contender, workload, round_number, everything=False):
    """Whether this contender runs this workload in this round, counted from 0."""
    if workload == CHURN:
        return contender in ("thalweg", "dask + filecache")
    if contender == "thalweg, first-available":
        return workload in HARMLESS
    if workload == OVERHEAD:
        return contender in ("dask", "ray", "thalweg", "thalweg, local processes")
    if everything:
        return True
    if contender == "thalweg, local processes":
        return workload in ("reuse 10", "all pairs 60²")
    if contender in PLAIN:
        return workload in HARMLESS or (workload == "reuse 10" and round_number == 0)
    if contender == "ray + filecache":
        return workload in ("reuse 10", "all pairs 60²") and round_number == 0
    return round_number == 0 or not (contender == "dask, hash-pinned" and workload == "one file for all")
