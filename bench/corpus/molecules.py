"""Trajectories, checkpoints and wave functions: LAMMPS, GROMACS, Quantum ESPRESSO and examples/particles.c.

SPDX-License-Identifier: Apache-2.0
"""

import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
MELT = HERE.parent / "measuring" / "melt.in"
SILICON = HERE / "silicon.in"
WATER = HERE / "water.mdp"
POTENTIAL = Path("/usr/share/lammps/potentials/Si.sw")
PSEUDOPOTENTIALS = Path("/usr/share/espresso/pseudo")

TOPOLOGY = """\
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
"""

# Eight atoms of silicon, displaced so that no symmetry makes coefficients equal.
PLANE_WAVES = """\
&control
  calculation = 'scf', prefix = 'silicon', outdir = '.', pseudo_dir = '{pseudopotentials}'
/
&system
  ibrav = 1, celldm(1) = 10.26, nat = 8, ntyp = 1, ecutwfc = {cutoff}, nbnd = 20, nosym = .true.
/
&electrons
  conv_thr = 1e-6
/
ATOMIC_SPECIES
Si 28.086 Si.pz-vbc.UPF
ATOMIC_POSITIONS crystal
Si 0.01 0.00 0.00
Si 0.50 0.51 0.00
Si 0.50 0.00 0.50
Si 0.00 0.50 0.49
Si 0.25 0.25 0.26
Si 0.75 0.75 0.25
Si 0.74 0.25 0.75
Si 0.25 0.75 0.75
K_POINTS automatic
{grid} 0 0 0
"""


def lammps_melt(output):
    """Binary dumps of eight columns of doubles and restart files of Lennard-Jones atoms."""
    atoms = output.bytes / (13.5 * 64)
    cells = max(3, round((atoms / 4) ** (1 / 3)))
    with output.scratch() as folder:
        run(folder, "lmp", "-in", MELT, "-var", "cells", cells, "-var", "steps", 100, "-screen", "none", "-log", "none")
        for path in sorted(Path(folder).glob("dump.*")):
            output.move(path, path.name, "floating", element="f64", record_bytes=64, format="LAMMPS binary dump")
        for path in sorted(Path(folder).glob("restart.*")):
            output.move(path, path.name, "mixed records", format="LAMMPS restart")


def lammps_silicon(output):
    """Dumps of eleven columns as text and as doubles, xyz, restart and log of another potential and crystal."""
    atoms = output.bytes / (4 * 105 + 7 * 88 + 4 * 25 + 2 * 80)
    cells = max(2, round((atoms / 8) ** (1 / 3)))
    with output.scratch() as folder:
        variables = {"cells": cells, "steps": 150, "seed": output.seed, "potential": POTENTIAL}
        settings = [word for name, value in variables.items() for word in ("-var", name, value)]
        run(folder, "lmp", "-in", SILICON, *settings, "-screen", "none")
        for path in sorted(Path(folder).glob("*.bin")):
            output.move(path, path.name, "floating", element="f64", record_bytes=88, format="LAMMPS binary dump")
        for path in sorted(Path(folder).glob("*.dump")):
            output.move(path, path.name, "text", format="LAMMPS text dump")
        output.move(Path(folder) / "silicon.xyz", "silicon.xyz", "text", format="xyz")
        for path in sorted(Path(folder).glob("restart.*")):
            output.move(path, path.name, "mixed records", format="LAMMPS restart")


def gromacs_water(output):
    """Full and compressed trajectory, energies, checkpoint and coordinates of a box of water."""
    edge_nm = 2.2 if output.bytes < 4e6 else 4.2
    steps = max(30, int(output.bytes / 1e6 * (300 if edge_nm < 3 else 30)))
    with output.scratch() as name:
        folder = Path(name)
        run(folder, "gmx", "solvate", "-cs", "spc216", "-box", edge_nm, "-o", "box.gro")
        molecules = (int((folder / "box.gro").read_text().splitlines()[1])) // 3
        (folder / "water.top").write_text(f"{TOPOLOGY}SOL {molecules}\n")
        (folder / "water.mdp").write_text(
            f"{WATER.read_text()}nsteps = {steps}\ngen-seed = {output.seed}\nld-seed = 1\n"
        )
        run(
            folder,
            "gmx",
            "grompp",
            "-f",
            "water.mdp",
            "-c",
            "box.gro",
            "-p",
            "water.top",
            "-o",
            "water.tpr",
            "-maxwarn",
            3,
        )
        run(folder, "gmx", "mdrun", "-s", "water.tpr", "-deffnm", "water", "-nt", 1, "-reprod", "-cpt", 1000)
        atoms = [3 * molecules, 3]
        output.move(
            folder / "water.trr", "water.trr", "floating", element="f32", byte_order="big", shape=atoms, format="trr"
        )
        output.move(folder / "water.xtc", "water.xtc", "compressed", shape=atoms, format="xtc")
        output.move(folder / "water.edr", "water.edr", "mixed records", byte_order="big", format="edr")
        output.move(folder / "water.cpt", "water.cpt", "mixed records", byte_order="big", format="cpt")
        output.move(folder / "water.gro", "water.gro", "text", format="gro")


def quantum_espresso_silicon(output):
    """Wave functions and charge density of a crystal in plane waves: complex doubles in Fortran's records."""
    small = output.bytes < 2e6
    grid, cutoff = ("1 1 2", 16) if small else ("2 2 2", 36)
    with output.scratch() as name:
        folder = Path(name)
        settings = PLANE_WAVES.format(pseudopotentials=PSEUDOPOTENTIALS, grid=grid, cutoff=cutoff)
        (folder / "silicon.scf.in").write_text(settings)
        run(folder, "pw.x", "-in", "silicon.scf.in")
        for path in sorted((folder / "silicon.save").glob("wfc*.dat")):
            output.move(path, path.name, "floating", element="c128", format="Fortran unformatted")
        density = folder / "silicon.save" / "charge-density.dat"
        output.move(density, density.name, "mixed records", element="c128", format="Fortran unformatted")


def plasma_particles(output):
    """Checkpoints of examples/particles.c, written as GTC does: rows of ten doubles, two species, four ranks."""
    source = HERE.parents[1] / "examples" / "particles.c"
    particles = int(output.bytes / (2 * 4 * 2 * 80 * 1.15))
    with output.scratch() as name:
        folder = Path(name)
        run(folder, "mpicc.mpich", "-O2", "-std=gnu11", "-o", "particles", source, "-lm")
        (folder / "out").mkdir()
        settings = ["--particles", particles, "--attributes", 10, "--steps", 2, "--moving", 1, "--seed", output.seed]
        run(folder, "mpirun.mpich", "-n", 4, folder / "particles", *settings, "--out", "out")
        for path in sorted((folder / "out").iterdir()):
            output.move(path, path.name, "floating", element="f64", record_bytes=80, header_bytes=4096)


def run(folder, program, *words):
    """Runs a program there; a failure shows the end of what it wrote."""
    if shutil.which(program) is None:
        raise FileNotFoundError(f"{program} is not installed; as root run: ./install bench-codecs")
    done = subprocess.run([program, *map(str, words)], cwd=folder, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-2000:]
        raise RuntimeError(f"{program} failed in {folder} with {done.returncode}: {said}")
