"""The MPI programs of bench/: built for one of the two MPI libraries, started on so many ranks, and what they print.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import subprocess
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent
AS_ROOT = ["--allow-run-as-root"] if os.geteuid() == 0 else []
LAUNCHERS = {
    "mpich": ["mpirun.mpich"],
    # More ranks than cores, and only what works on one machine.
    "openmpi": ["mpirun.openmpi", "--oversubscribe", *AS_ROOT, "--mca", "btl", "self,vader"],
}


def build(mpi, name, folder: Path):
    """Builds `name`.c; returns the program's path."""
    program = folder / f"{name}-{mpi}"
    # GCC takes MPI_STATUSES_IGNORE for an array.
    flags = ["-O2", "-std=gnu11", "-Wno-stringop-overflow"]
    subprocess.run([f"mpicc.{mpi}", *flags, "-o", program, SOURCES / f"{name}.c", "-lm"], check=True)
    return program


def launch(mpi, ranks, *command):
    """The command line that starts a program on so many ranks."""
    return [*LAUNCHERS[mpi], "-n", str(ranks), *map(str, command)]


def reported(output):
    """The line of JSON in what a program printed."""
    return json.loads(next(line for line in output.splitlines() if line.startswith("{")))


def run(command, timeout_s=None):
    """Runs a command line; returns what its program reported."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return reported(done.stdout)
