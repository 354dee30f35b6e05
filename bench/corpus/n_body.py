"""Particles under gravity: dark matter from small perturbations by the particle-mesh method.

SPDX-License-Identifier: Apache-2.0
"""

import numpy

MESH = 64
SNAPSHOTS = 4
STEPS_BETWEEN = 15
RECORD = numpy.dtype([(name, "f8") for name in ("x", "y", "z", "vx", "vy", "vz", "mass")])


def snapshots(output):
    """Arrays of structures of seven doubles, 56 bytes a particle, one file a snapshot."""
    side = round((output.bytes / (SNAPSHOTS * RECORD.itemsize)) ** (1 / 3))
    positions, velocities = perturbed_grid(side, output.random)
    masses = output.random.choice([1.0, 1.5, 8.0], len(positions), p=[0.7, 0.25, 0.05])
    for number in range(SNAPSHOTS):
        for _ in range(STEPS_BETWEEN):
            velocities += 0.08 * accelerations(positions, masses)
            positions = (positions + 0.08 * velocities) % MESH
        records = numpy.empty(len(positions), RECORD)
        for axis, name in enumerate("xyz"):
            records[name], records["v" + name] = positions[:, axis], velocities[:, axis]
        records["mass"] = masses
        output.write(f"particles-{number:02}.bin", records, "floating", element="f64")


def perturbed_grid(side, random):
    """Zel'dovich's start: displaced along the gradient of a potential, and moving that way."""
    waves = numpy.fft.fftn(random.standard_normal((side,) * 3))
    k = numpy.stack(numpy.meshgrid(*[2 * numpy.pi * numpy.fft.fftfreq(side)] * 3, indexing="ij"))
    squared = (k**2).sum(0)
    squared[0, 0, 0] = 1
    shifts = numpy.fft.ifftn(1j * k * waves * squared**-1.3, axes=(1, 2, 3)).real
    shifts *= 0.6 / shifts.std()
    grid = numpy.stack(numpy.meshgrid(*[numpy.arange(side) + 0.5] * 3, indexing="ij"))
    scale = MESH / side
    positions = ((grid + shifts) * scale % MESH).reshape(3, -1).T.copy()
    return positions, (0.5 * shifts * scale).reshape(3, -1).T.copy()


def accelerations(positions, masses):
    """From the masses to the mesh, its potential, and the forces back, each by the nearest eight cells."""
    cells, weights = nearest_cells(positions)
    density = sum(numpy.bincount(cell, weight * masses, MESH**3) for cell, weight in zip(cells, weights)).reshape(
        (MESH,) * 3
    )
    density = density / density.mean() - 1
    k = [2 * numpy.pi * numpy.fft.fftfreq(MESH)] * 2 + [2 * numpy.pi * numpy.fft.rfftfreq(MESH)]
    kx, ky, kz = numpy.meshgrid(*k, indexing="ij")
    squared = kx**2 + ky**2 + kz**2
    squared[0, 0, 0] = 1
    potential = -numpy.fft.rfftn(density) / squared
    found = numpy.zeros_like(positions)
    for axis, wave in enumerate((kx, ky, kz)):
        force = numpy.fft.irfftn(-1j * wave * potential, s=density.shape).ravel()
        found[:, axis] = sum(force[cell] * weight for cell, weight in zip(cells, weights))
    return found


def nearest_cells(positions):
    corner = numpy.floor(positions).astype(int)
    part = positions - corner
    cells, weights = [], []
    for shift in numpy.ndindex(2, 2, 2):
        x, y, z = ((corner + shift) % MESH).T
        cells.append((x * MESH + y) * MESH + z)
        weights.append(numpy.prod(numpy.where(shift, part, 1 - part), axis=1))
    return cells, weights
