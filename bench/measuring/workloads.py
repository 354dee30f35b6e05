"""The workloads of bench/backup: a tree of many files, two series of checkpoints of the particle code, and the dumps
and restart files of a LAMMPS run.

All are copies in the scratch folder, so that the source's disk is the same for all contenders.
SPDX-License-Identifier: Apache-2.0
"""

import os
import shutil
import subprocess
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MELT = Path(__file__).with_name("melt.in")


def copy_tree(origin: Path, destination: Path, limit_bytes):
    """Copies the origin, or whole folders of it in the order of their names until the limit (None for all)."""
    if limit_bytes is None:
        subprocess.run(["cp", "-a", origin, destination], check=True)
        return destination
    destination.mkdir()
    left = limit_bytes
    for folder in sorted(path for path in origin.iterdir() if path.is_dir() and not path.is_symlink()):
        weight, _ = weigh(folder)
        if weight <= left:
            subprocess.run(["cp", "-a", folder, destination], check=True)
            left -= weight
    return destination


def checkpoints(scratch: Path, share, particles, steps):
    """The files of a run of the particle code in which this share of the particles moves."""
    binary = scratch / "particles"
    if not binary.exists():
        subprocess.run(["mpicc.mpich", "-O2", "-std=gnu11", "-o", binary, EXAMPLES / "particles.c", "-lm"], check=True)
    folder = scratch / f"checkpoints-{share * 100:.0f}"
    folder.mkdir()
    settings = ["--particles", str(particles), "--steps", str(steps), "--moving", str(share), "--out", folder]
    subprocess.run(["mpirun.mpich", "-n", "4", binary, *settings], check=True, stdout=subprocess.DEVNULL)
    return folder


def lammps(scratch: Path, cells, dumps):
    """The binary dumps and restart files of LAMMPS's melt, 4 cells³ atoms, with a dump every ten steps."""
    folder = scratch / "lammps"
    folder.mkdir()
    settings = ["-var", "cells", str(cells), "-var", "steps", str(10 * dumps)]
    output = ["-log", "none", "-screen", "none"]
    subprocess.run(["lmp", "-in", MELT, *settings, *output], check=True, cwd=folder)
    return folder


def weigh(folder: Path):
    """(bytes, files) below a folder, links not followed."""
    sizes = [os.lstat(os.path.join(place, name)).st_size for place, _, names in os.walk(folder) for name in names]
    return sum(sizes), len(sizes)


def warm(folder: Path):
    """Reads everything once, so that every contender finds the source in memory."""
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    shutil.copyfileobj(file, _Nowhere(), 1 << 20)


class _Nowhere:
    def write(self, block):
        return len(block)
