"""Decaying turbulence: the incompressible Navier–Stokes equations in a periodic box, pseudo-spectral.

SPDX-License-Identifier: Apache-2.0
"""

import numpy

SNAPSHOTS = 3
STEPS_BETWEEN = 12


def snapshots(output):
    """The velocity as raw arrays of f32, one file a component and snapshot."""
    side = 2 * round((output.bytes / (SNAPSHOTS * 3 * 4)) ** (1 / 3) / 2)
    box = Box(side, output.random)
    for number in range(SNAPSHOTS):
        box.run(STEPS_BETWEEN)
        for axis, velocity in zip("xyz", box.velocities()):
            output.write(f"velocity-{axis}-{number:02}.f32", velocity.astype("f4"), "floating")


class Box:
    def __init__(self, side, random):
        self.side = side
        k = [numpy.fft.fftfreq(side, 1 / side)] * 2 + [numpy.fft.rfftfreq(side, 1 / side)]
        self.k = numpy.stack(numpy.meshgrid(*k, indexing="ij"))
        self.squared = (self.k**2).sum(0)
        self.kept = (abs(self.k) < side / 3).all(0)
        self.viscosity = 0.4 * (side / 3) ** (-4 / 3)
        length = numpy.maximum(self.squared, 1) ** 0.5
        # Energy as k^(-5/3) in shells of area k² gives amplitudes as k^(-11/6).
        amplitude = length ** (-11 / 6) * numpy.exp(-((length / (0.25 * side)) ** 2))
        noise = numpy.fft.rfftn(random.standard_normal((3, side, side, side)), axes=(1, 2, 3))
        self.waves = self.solenoidal(noise * amplitude)
        self.waves /= self.velocities().std()
        self.step = 0.3 * 2 * numpy.pi / side / 3

    def velocities(self):
        return numpy.fft.irfftn(self.waves, s=(self.side,) * 3, axes=(1, 2, 3))

    def solenoidal(self, waves):
        along = (self.k * waves).sum(0) / numpy.maximum(self.squared, 1)
        return (waves - self.k * along) * (self.kept & (self.squared > 0))

    def run(self, steps):
        """Midpoint rule; viscosity exactly."""
        decay = numpy.exp(-self.viscosity * self.squared * self.step / 2)
        for _ in range(steps):
            middle = decay * (self.waves + self.step / 2 * self.advection(self.waves))
            self.waves = decay * (decay * self.waves + self.step * self.advection(middle))

    def advection(self, waves):
        """Velocity × vorticity, without its gradient part."""

        def real(field):
            return numpy.fft.irfftn(field, s=(self.side,) * 3, axes=(1, 2, 3))

        vorticity = real(1j * numpy.cross(self.k, waves, axis=0))
        product = numpy.cross(real(waves), vorticity, axis=0)
        return self.solenoidal(numpy.fft.rfftn(product, axes=(1, 2, 3)))
