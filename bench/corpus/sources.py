"""The list of sources: name, split, how much at full size, about how long, and the function that makes it.

A program or a physics stands in one split only, but for LAMMPS. README.md says why each stands where it does.
SPDX-License-Identifier: Apache-2.0
"""

from collections.abc import Callable
from dataclasses import dataclass

from corpus import (
    containers,
    double_gyre,
    gray_scott,
    heat,
    images,
    integers,
    lattice_boltzmann,
    molecules,
    n_body,
    process_memory,
    records,
    seismic,
    shallow_water,
    signals,
    text,
    turbulence,
    weights,
)


@dataclass(frozen=True)
class Source:
    name: str
    split: str
    megabytes: float
    seconds: float
    make: Callable


def training(name, megabytes, seconds, make):
    return Source(name, "training", megabytes, seconds, make)


def held_out(name, megabytes, seconds, make):
    return Source(name, "held-out", megabytes, seconds, make)


SOURCES = [
    # Simulations.
    training("lammps-melt", 14, 6, molecules.lammps_melt),
    training("quantum-espresso-silicon", 12, 17, molecules.quantum_espresso_silicon),
    training("shallow-water", 12, 40, shallow_water.snapshots),
    training("gray-scott", 16, 9, gray_scott.snapshots),
    training("n-body", 16, 9, n_body.snapshots),
    training("turbulence", 16, 20, turbulence.snapshots),
    training("seismic", 8, 9, seismic.shots),
    held_out("lammps-silicon", 14, 9, molecules.lammps_silicon),
    held_out("gromacs-water", 16, 9, molecules.gromacs_water),
    held_out("plasma-particles", 14, 3, molecules.plasma_particles),
    held_out("double-gyre", 12, 9, double_gyre.snapshots),
    held_out("heat", 12, 2, heat.snapshots),
    held_out("lattice-boltzmann", 12, 9, lattice_boltzmann.snapshots),
    # Integers and what goes with them.
    training("label-fields", 10, 6, integers.label_fields),
    training("sparse-matrix", 14, 3, integers.sparse_matrix),
    training("histograms", 8, 3, integers.histograms),
    training("ising", 8, 5, integers.ising),
    held_out("graph", 10, 3, integers.graph),
    held_out("tetrahedral-mesh", 10, 3, integers.tetrahedral_mesh),
    # Records.
    training("sensors", 12, 3, records.sensors),
    training("halos", 10, 3, records.halos),
    training("network-flows", 8, 3, records.network_flows),
    held_out("lidar", 10, 3, records.lidar),
    held_out("photons", 10, 3, records.photons),
    # Instruments.
    training("detector", 14, 5, signals.detector),
    training("visibilities", 12, 4, signals.visibilities),
    training("random-walks", 10, 2, signals.random_walks),
    held_out("oscilloscope", 10, 4, signals.oscilloscope),
    held_out("telescope", 10, 4, signals.telescope),
    held_out("stations", 8, 4, signals.stations),
    # Neural networks.
    training("language-model", 24, 6, weights.language_model),
    held_out("trained-network", 14, 6, weights.trained_network),
    # Text.
    training("headers", 10, 4, text.headers),
    training("server-log", 8, 6, text.server_log),
    training("job-records", 8, 6, text.job_records),
    held_out("python-sources", 10, 4, text.python_sources),
    held_out("tables", 8, 3, text.tables),
    held_out("xml", 6, 3, text.unstructured_grid),
    held_out("sequences", 6, 4, text.sequences),
    # Pictures.
    training("scenes", 12, 6, images.scenes),
    training("encoded-scenes", 6, 6, images.encoded_scenes),
    held_out("photographs", 14, 3, images.photographs),
    held_out("drawings", 8, 3, images.drawings),
    # Programs, archives, mixtures.
    training("shared-libraries", 16, 2, containers.shared_libraries),
    training("gzip-archives", 8, 5, containers.gzip_archives),
    training("encrypted", 6, 1, containers.encrypted),
    training("sparse-files", 8, 1, containers.sparse_files),
    training("pickles", 8, 3, containers.pickles),
    training("process-memory", 10, 2, process_memory.snapshot),
    held_out("programs", 12, 2, containers.programs),
    held_out("zstd-archives", 8, 6, containers.zstd_archives),
    held_out("random-bytes", 6, 1, containers.random_bytes),
    held_out("half-random", 10, 1, containers.half_random),
    held_out("numpy-archive", 8, 2, containers.numpy_archive),
    held_out("database", 8, 3, containers.database),
]
