"""Flow past cylinders by the lattice Boltzmann method: D2Q9, one relaxation time, single precision.

SPDX-License-Identifier: Apache-2.0
"""

import h5py
import numpy

VELOCITIES = numpy.array([(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)])
WEIGHTS = numpy.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, dtype="f4")
OPPOSITE = [0, 3, 4, 1, 2, 7, 8, 5, 6]
INFLOW = 0.1
RELAXATION = 1.85
SNAPSHOTS = 3
STEPS_BETWEEN = 350


def snapshots(output):
    """Populations, density and velocities in HDF5, chunked and not compressed, f32, one file a snapshot."""
    rows = int((output.bytes / (SNAPSHOTS * 12 * 4 * 3)) ** 0.5)
    flow = Flow(rows, 3 * rows, output.random)
    for number in range(SNAPSHOTS):
        for _ in range(STEPS_BETWEEN):
            flow.step()
        name = f"flow-{number:02}.h5"
        density, u, v = flow.moments()
        with h5py.File(output.folder / name, "w") as file:
            for field, values in {"populations": flow.populations, "density": density, "u": u, "v": v}.items():
                chunks = (*(1,) * (values.ndim - 2), min(64, rows), min(64, 3 * rows))
                file.create_dataset(field, data=values, chunks=chunks)
        output.add(name, "floating", element="f32", shape=[12, rows, 3 * rows], format="HDF5")


class Flow:
    def __init__(self, rows, columns, random):
        y, x = numpy.mgrid[:rows, :columns]
        self.solid = (y == 0) | (y == rows - 1)
        for _ in range(6):
            centre_y, centre_x = random.uniform(0.1, 0.9) * rows, random.uniform(0.1, 0.7) * columns
            self.solid |= (y - centre_y) ** 2 + (x - centre_x) ** 2 < (rows * random.uniform(0.02, 0.07)) ** 2
        u = numpy.full((rows, columns), INFLOW, "f4") * (1 + 0.01 * random.standard_normal((rows, columns), dtype="f4"))
        self.populations = equilibrium(numpy.ones_like(u), u, numpy.zeros_like(u))
        self.inflow = equilibrium(*(numpy.full((rows, 1), value, "f4") for value in (1, INFLOW, 0)))

    def moments(self):
        f = self.populations
        density = f.sum(0)
        u = (f[1] + f[5] + f[8] - f[3] - f[6] - f[7]) / density
        v = (f[2] + f[5] + f[6] - f[4] - f[7] - f[8]) / density
        return density, u, v

    def step(self):
        before = self.populations
        after = before + numpy.float32(RELAXATION) * (equilibrium(*self.moments()) - before)
        after[:, self.solid] = before[OPPOSITE][:, self.solid]
        for number, (dx, dy) in enumerate(VELOCITIES):
            self.populations[number] = numpy.roll(after[number], (dy, dx), (0, 1))
        self.populations[:, :, :1] = self.inflow
        self.populations[:, :, -1] = self.populations[:, :, -2]


def equilibrium(density, u, v):
    squared = numpy.float32(1.5) * (u * u + v * v)
    found = numpy.empty((9, *density.shape), "f4")
    for number, (dx, dy) in enumerate(VELOCITIES):
        along = numpy.float32(3) * (numpy.float32(dx) * u + numpy.float32(dy) * v)
        found[number] = WEIGHTS[number] * density * (1 + along + along * along / 2 - squared)
    return found
