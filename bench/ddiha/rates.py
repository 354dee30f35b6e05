"""The rates that the model needs, measured on the day by the same program without computing.

SPDX-License-Identifier: Apache-2.0
"""

import shutil

from ddiha import contenders
from ddiha.job import NODE_SHARES, PHASE_MB, SHARES
from ddiha.model import Model

DISK_PHASES, NODE_PHASES = 4, 8


def measure(job, scratch, disk_rate, seed):
    """In MB/s: of the disk; of a node that stores in memory; of all ranks that hand one phase over to an idle node."""
    job = job.without_computing()
    with contenders.disk(scratch, disk_rate, DISK_PHASES) as disk:
        plain = job.plain(disk.folder, DISK_PHASES, seed, "phase")
    folder = scratch / "memory"
    folder.mkdir()
    ours = job.through_a_node(folder, NODE_PHASES, seed)
    shutil.rmtree(folder)
    return {
        "disk_mb_per_s": round(plain["bytes"] / 1e6 / plain["io_seconds"], 2),
        "node_mb_per_s": round(ours["bytes"] / 1e6 / ours["seconds"], 1),
        "hand_over_mb_per_s": round(PHASE_MB / ours["first_write_seconds"], 1),
    }


def model(rates, compute_rate, phases, stored_share):
    """`rates` are those of `measure`, `stored_share` is 1/φ."""
    return Model(
        nodes=SHARES,
        deduplicating_share=NODE_SHARES / SHARES,
        phases=phases,
        output_mb=PHASE_MB,
        stored_mb=PHASE_MB * stored_share,
        compute_rate=compute_rate,
        storage_rate=rates["disk_mb_per_s"] / SHARES,
        nodes_storage_rate=rates["disk_mb_per_s"] / NODE_SHARES,
        hand_over_rate=rates["hand_over_mb_per_s"] / (SHARES - NODE_SHARES),
        deduplication_rate=rates["node_mb_per_s"] / NODE_SHARES,
    )
