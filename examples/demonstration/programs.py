"""The programs of the demonstration: LAMMPS as Debian packages it on Open MPI, and the particle code on MPICH.

Each says how it is started with its output going to a folder (a plain one, or one named SD:/…), how its own report of the
time it waited for I/O is read from what it printed, and its last words: the start of the line it prints when its last
step is done. The rest is waiting for data to become durable.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
RANKS = 4


@dataclass
class Report:
    """The report of a program. written_bytes is None where it does not say: the files' sizes count then."""

    io_seconds: float
    written_bytes: int | None = None
    changed: dict | None = None


class Lammps:
    name = "LAMMPS melt"
    slug = "lammps"
    about = "Open MPI, 55 296 atoms, 200 steps, dumps atom/mpiio and custom/mpiio (text)"
    last_words = b"Loop time of"

    def command(self, out):
        as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        launch = ["mpirun.openmpi", "--oversubscribe", *as_root, "--mca", "btl", "self,vader", "-n", str(RANKS)]
        return [*launch, "lmp", "-log", "none", "-in", str(HERE / "lammps" / "in.melt"), "-var", "out", str(out)]

    def report(self, printed):
        """LAMMPS' own "Output" line, the slowest rank: it holds the formatting of the text as well as MPI-IO."""
        line = re.search(r"^Output\s*\|[^|]*\|[^|]*\|\s*([0-9.]+)", printed, re.MULTILINE)
        if line is None:
            raise RuntimeError("LAMMPS printed no timing of its output")
        return Report(io_seconds=float(line[1]))


class Particles:
    """A share of the particles moves. The pushes between two outputs grow as the share shrinks, so that all shares compute
    about as long: what is compared is I/O."""

    substeps = 12
    last_words = b"{"

    def __init__(self, binary: Path, share: float, seed: int):
        self.binary, self.share, self.seed = binary, share, seed
        self.name = f"particles {share * 100:.0f} %"
        self.slug = f"particles-{share * 100:.0f}"
        self.about = f"MPICH, {share * 100:.0f} % of 1.6 million particles move each step, 12 steps of ions and electrons"

    def command(self, out):
        work = round(self.substeps / self.share)
        settings = ["--moving", str(self.share), "--substeps", str(work), "--seed", str(self.seed)]
        return ["mpirun.mpich", "-n", str(RANKS), str(self.binary), "--out", str(out), *settings]

    def report(self, printed):
        totals = json.loads(next(line for line in reversed(printed.splitlines()) if line.startswith("{")))
        after_first = totals["bytes_written"] - totals["first_step_bytes"]
        changed = {
            "changed_share": totals["changed_bytes"] / after_first,
            "changed_segment_share": totals["changed_segment_bytes"] / after_first,
        }
        return Report(totals["io_seconds"], totals["bytes_written"], changed)


def compile_particles(folder: Path):
    binary = folder / "particles"
    subprocess.run(["mpicc.mpich", "-O2", "-std=gnu11", "-o", binary, HERE / "particles.c", "-lm"], check=True)
    return binary
