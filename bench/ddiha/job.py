"""The program (`phases.c`) that writes a plain file, or one of a store through a node.

Where the file is plain all 42 shares of the machine compute; where there is a node, two of them are the node's, and each
phase's computing takes 42/40 of the time. Computing is sleeping, so four ranks stand for the shares: more ranks than cores
wait for each other in MPI by spinning, and 42 on two cores open a plain file in 3 s.
SPDX-License-Identifier: Apache-2.0
"""

import dataclasses
from pathlib import Path

from demonstration.store import Store
from measuring import mpi

RANKS = 4
SHARES, NODE_SHARES = 42, 2
# Of 840 segments of 8 KiB, which 4, 40 and 42 ranks can divide.
PHASE_UNITS = 19
PHASE_BYTES = PHASE_UNITS * 840 * 8192
PHASE_MB = PHASE_BYTES / 1e6


@dataclasses.dataclass(frozen=True)
class Job:
    program: Path
    scratch: Path
    # Segments that are new.
    new_of_four: int
    # Of one share, in MB/s.
    compute_rate: float
    timeout_s: float
    computes: bool = True

    @staticmethod
    def build(scratch, *settings):
        return Job(mpi.build("mpich", "phases", scratch), scratch, *settings)

    def without_computing(self):
        return dataclasses.replace(self, computes=False)

    def plain(self, folder, phases, seed, durable):
        """`durable` is phase or file: the file is synced at the end of each phase, or before it is closed."""
        measured = mpi.run(self._command(folder / "file", SHARES, phases, seed, durable), self.timeout_s)
        return measured | {"stored_bytes": measured["bytes"]}

    def through_a_node(self, folder, phases, seed):
        store = Store(folder / "store", self.scratch)
        try:
            store.start_nodes(1)
            command = store.run(self._command("SD:/file", SHARES - NODE_SHARES, phases, seed, "close"), "durable")
            # `run` would ask the model where to reduce.
            measured = mpi.run(["env", "THALWEG_REDUCE=node", *command], self.timeout_s)
        finally:
            store.stop_nodes()
        return measured | {"stored_bytes": store.stats()["stored_bytes"]}

    def _command(self, path, shares, phases, seed, durable):
        seconds = PHASE_MB / (shares * self.compute_rate) if self.computes else 0
        words = [path, phases, PHASE_UNITS, self.new_of_four, seed, f"{seconds:.6f}", durable]
        return mpi.launch("mpich", RANKS, self.program, *words)
