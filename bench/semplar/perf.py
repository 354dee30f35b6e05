"""ROMIO's perf pattern through a far node: `perf.c`, and the rates that it saw.

SPDX-License-Identifier: Apache-2.0
"""

from demonstration.store import find_thalweg
from measuring import mpi

RANDOM_WORDS = 1024


def rates(far, node, program, environment, *, ranks, megabytes, seed, random_words=RANDOM_WORDS, options=()):
    """Mbit/s of the program's bytes, of all ranks together. Each of `megabytes` is of 2^20 bytes, of the whole file."""
    job = mpi.launch("mpich", ranks, program, "SD:/perf", megabytes // ranks, random_words, seed)
    command = [find_thalweg(), "run", "-q", "--node", node, *options, "--", *job]
    said = mpi.reported(far.output(command, environment))
    megabits = said["bytes"] * 8e-6
    return {
        "write_mbit_per_s": round(megabits / said["write_seconds"], 2),
        "read_mbit_per_s": round(megabits / said["read_seconds"], 2),
    }
