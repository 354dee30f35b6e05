"""Weather-like output: the shallow-water equations on a sphere between walls at 65° north and south.

Two unstable jets over mountains, a tracer that is stirred by them, and random height anomalies of planetary scale. Centred
differences, Runge–Kutta of third order, and a sixth-order filter along both axes.
SPDX-License-Identifier: Apache-2.0
"""

import netCDF4
import numpy

RADIUS_M = 6.371e6
GRAVITY = 9.81
ROTATION = 7.292e-5
DEPTH_M = 2000.0
SNAPSHOTS = 8
VARIABLES = {"height": "m", "u": "m s-1", "v": "m s-1", "vorticity": "s-1", "tracer": "kg kg-1"}


def snapshots(output):
    """A forecast of two days in NetCDF classic, f32, one file for six hours."""
    rows = int((output.bytes / (SNAPSHOTS * len(VARIABLES) * 4 * 2)) ** 0.5)
    flow = Flow(rows, 2 * rows, output.random)
    for number in range(SNAPSHOTS):
        flow.run(6 * 3600.0)
        write(output, f"forecast-{number:02}.nc", flow)


class Flow:
    def __init__(self, rows, columns, random):
        self.latitude = numpy.radians(numpy.linspace(-65, 65, rows))[:, None]
        self.longitude = numpy.linspace(0, 2 * numpy.pi, columns, endpoint=False)[None, :]
        self.cosine = numpy.cos(self.latitude)
        self.coriolis = 2 * ROTATION * numpy.sin(self.latitude)
        self.dx = RADIUS_M * self.cosine * 2 * numpy.pi / columns
        self.dy = RADIUS_M * numpy.radians(130) / (rows - 1)
        self.ground = 600.0 * smooth_noise(rows, columns, random).clip(0)
        self.state = self.jets(random)
        fastest_m_s = (GRAVITY * DEPTH_M) ** 0.5 + 80
        self.step_s = 0.8 * min(self.dx.min(), self.dy) / fastest_m_s

    def jets(self, random):
        """Height, u, v, tracer: jets in balance with the height, and anomalies that break it."""
        lat, lon = self.latitude, self.longitude
        u = 35.0 * numpy.exp(-(((abs(lat) - 0.7) / 0.15) ** 2)) + 0 * lon
        balance = -(self.coriolis + u * numpy.tan(lat) / RADIUS_M) * u * self.dy / GRAVITY
        height = DEPTH_M + numpy.cumsum(balance, axis=0)
        height += DEPTH_M - height.mean() + 40.0 * smooth_noise(*height.shape, random)
        tracer = numpy.exp(-((lat / 0.5) ** 2)) + 0.05 * smooth_noise(*height.shape, random)
        return numpy.stack([height - self.ground, u, 0 * u, tracer])

    def run(self, seconds):
        steps = int(numpy.ceil(seconds / self.step_s))
        for _ in range(steps):
            first = self.state + seconds / steps / 3 * self.tendency(self.state)
            second = self.state + seconds / steps / 2 * self.tendency(first)
            self.state = self.filtered(self.state + seconds / steps * self.tendency(second))

    def tendency(self, state):
        depth, u, v, tracer = state
        pressure = GRAVITY * (depth + self.ground)
        turning = self.coriolis + u * numpy.tan(self.latitude) / RADIUS_M
        return numpy.stack(
            [
                -(self.east(depth * u) + self.north(depth * v * self.cosine) / self.cosine),
                turning * v - u * self.east(u) - v * self.north(u) - self.east(pressure),
                -turning * u - u * self.east(v) - v * self.north(v) - self.north(pressure),
                -u * self.east(tracer) - v * self.north(tracer),
            ]
        )

    def east(self, field):
        return (numpy.roll(field, -1, 1) - numpy.roll(field, 1, 1)) / (2 * self.dx)

    def north(self, field):
        return numpy.gradient(field, self.dy, axis=0)

    def filtered(self, state):
        """Takes out the shortest waves; nothing flows through the walls."""
        padded = numpy.pad(state, ((0, 0), (3, 3), (0, 0)), mode="edge")
        n = state.shape[1]
        sixth = -20 * state
        for distance, weight in ((1, 15), (2, -6), (3, 1)):
            sixth += weight * (padded[:, 3 + distance : 3 + distance + n] + padded[:, 3 - distance : 3 - distance + n])
        state = state + 0.01 * sixth
        sixth = -20 * state
        for distance, weight in ((1, 15), (2, -6), (3, 1)):
            sixth += weight * (numpy.roll(state, distance, 2) + numpy.roll(state, -distance, 2))
        state += 0.01 * sixth
        state[2, [0, -1]] = 0
        return state


def smooth_noise(rows, columns, random):
    """A random field of unit variance with planetary scales, periodic along the second axis."""
    waves = numpy.fft.rfft2(random.standard_normal((2 * rows, columns)))
    k = numpy.hypot(numpy.fft.fftfreq(2 * rows, 1 / (2 * rows))[:, None], numpy.fft.rfftfreq(columns, 1 / columns))
    field = numpy.fft.irfft2(waves * (1 + (k / 5) ** 2) ** -1.75, s=(2 * rows, columns))[:rows]
    return (field - field.mean()) / field.std()


def write(output, name, flow):
    depth, u, v, tracer = flow.state
    vorticity = flow.east(v) - flow.north(u * flow.cosine) / flow.cosine
    fields = [depth + flow.ground, u, v, vorticity, tracer]
    with netCDF4.Dataset(output.folder / name, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("latitude", depth.shape[0])
        file.createDimension("longitude", depth.shape[1])
        for (variable, unit), field in zip(VARIABLES.items(), fields):
            made = file.createVariable(variable, "f4", ("latitude", "longitude"))
            made.units = unit
            made[:] = field
    shape = [len(fields), *depth.shape]
    output.add(name, "floating", element="f32", byte_order="big", shape=shape, format="NetCDF classic")
