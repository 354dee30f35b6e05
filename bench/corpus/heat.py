"""Heat conduction: a laser melts its way over a plate of grains with different conductivities.

SPDX-License-Identifier: Apache-2.0
"""

import h5py
import numpy

SNAPSHOTS = 6
STEPS_BETWEEN = 150


def snapshots(output):
    """Temperature and its flux in HDF5, contiguous, f64, one file a snapshot."""
    side = int((output.bytes / (SNAPSHOTS * 3 * 8)) ** 0.5)
    plate = Plate(side, output.random)
    for number in range(SNAPSHOTS):
        plate.run(STEPS_BETWEEN)
        name = f"plate-{number:02}.h5"
        with h5py.File(output.folder / name, "w") as file:
            file["temperature"] = plate.temperature
            file["flux_x"], file["flux_y"] = plate.flux(1), plate.flux(0)
        output.add(name, "floating", element="f64", shape=[3, side, side], format="HDF5")


class Plate:
    def __init__(self, side, random):
        self.side = side
        self.temperature = 293.15 + 0.5 * random.standard_normal((side, side)).cumsum(0).cumsum(1) / side
        grains = random.integers(0, side, (2, 60))
        y, x = numpy.mgrid[:side, :side]
        nearest = ((y[..., None] - grains[0]) ** 2 + (x[..., None] - grains[1]) ** 2).argmin(-1)
        self.conductivity = 0.2 * random.uniform(0.3, 1.0, 60)[nearest]
        self.time = 0

    def run(self, steps):
        y, x = numpy.ogrid[: self.side, : self.side]
        for _ in range(steps):
            progress = self.time / (SNAPSHOTS * STEPS_BETWEEN)
            spot_y = self.side * (0.5 + 0.35 * numpy.sin(9 * progress))
            spot_x = self.side * (0.1 + 0.8 * progress)
            wide = (self.side / 40) ** 2
            laser = numpy.exp(-((y - spot_y) ** 2) / wide) * numpy.exp(-((x - spot_x) ** 2) / wide)
            loss = 1e-4 * (self.temperature - 293.15)
            self.temperature += 40.0 * laser - loss - self.divergence()
            self.time += 1

    def flux(self, axis):
        """Through the faces behind the cells; none at the edge."""
        between = numpy.diff(self.temperature, axis=axis, append=numpy.take(self.temperature, [-1], axis))
        return -self.conductivity * between

    def divergence(self):
        return sum(numpy.diff(self.flux(axis), axis=axis, prepend=0) for axis in (0, 1))
