"""Ocean-like output: the barotropic vorticity equation in a closed basin that wind drives into two gyres.

It starts with eddies, so that the boundary currents meet them within days and not years. Arakawa's Jacobian, sine
transforms for the stream function, Adams–Bashforth.
SPDX-License-Identifier: Apache-2.0
"""

import netCDF4
import numpy

SIDE_M = 3.0e6
BETA = 2e-11
STEP_S = 1500.0
WIND = 4e-12
SNAPSHOTS = 6
STEPS_BETWEEN = 120


def snapshots(output):
    """Stream function, vorticity, velocities and kinetic energy in uncompressed NetCDF-4, f64, one file for two days."""
    side = int((output.bytes / (SNAPSHOTS * 5 * 8)) ** 0.5)
    basin = Basin(side, output.random)
    for number in range(SNAPSHOTS):
        basin.run(STEPS_BETWEEN)
        write(output, f"gyre-{number:02}.nc", basin)


class Basin:
    def __init__(self, side, random):
        self.spacing_m = SIDE_M / (side + 1)
        modes = numpy.arange(1, side + 1) * numpy.pi / SIDE_M
        self.laplacian = -(modes[:, None] ** 2 + modes[None, :] ** 2)
        y = numpy.linspace(0, 1, side)[:, None]
        self.wind = -WIND * numpy.sin(2 * numpy.pi * y)
        self.viscosity = 0.02 * self.spacing_m**2 / STEP_S
        wavelengths_m = 2 * numpy.pi / (-self.laplacian) ** 0.5
        spectrum = numpy.exp(-((numpy.log(wavelengths_m / 4e5)) ** 2) * 2)
        self.vorticity = sine_transform(random.standard_normal((side, side)) * spectrum)
        self.vorticity *= 8e-6 / self.vorticity.std()
        self.solve()
        self.before = None

    def solve(self):
        self.stream = sine_transform(sine_transform(self.vorticity) / self.laplacian)

    def run(self, steps):
        for _ in range(steps):
            now = self.tendency()
            before = now if self.before is None else self.before
            self.vorticity += STEP_S * (1.5 * now - 0.5 * before)
            self.before = now
            self.solve()

    def tendency(self):
        psi, zeta = numpy.pad(self.stream, 1), numpy.pad(self.vorticity, 1)
        beta = BETA * (psi[1:-1, 2:] - psi[1:-1, :-2]) / (2 * self.spacing_m)
        spread = zeta[1:-1, 2:] + zeta[1:-1, :-2] + zeta[2:, 1:-1] + zeta[:-2, 1:-1] - 4 * zeta[1:-1, 1:-1]
        friction = self.viscosity * spread / self.spacing_m**2 - 1e-7 * self.vorticity
        return -jacobian(psi, zeta) / self.spacing_m**2 - beta + self.wind + friction

    def velocities(self):
        psi = numpy.pad(self.stream, 1)
        u = -(psi[2:, 1:-1] - psi[:-2, 1:-1]) / (2 * self.spacing_m)
        v = (psi[1:-1, 2:] - psi[1:-1, :-2]) / (2 * self.spacing_m)
        return u, v


def jacobian(p, q):
    """Arakawa 1966, equation 46: keeps energy and enstrophy. Axis 1 is x."""

    def at(field, dy, dx):
        rows, columns = field.shape
        return field[1 + dy : rows - 1 + dy, 1 + dx : columns - 1 + dx]

    pe, pw, pn, ps = at(p, 0, 1), at(p, 0, -1), at(p, 1, 0), at(p, -1, 0)
    qe, qw, qn, qs = at(q, 0, 1), at(q, 0, -1), at(q, 1, 0), at(q, -1, 0)
    pne, pnw, pse, psw = at(p, 1, 1), at(p, 1, -1), at(p, -1, 1), at(p, -1, -1)
    qne, qnw, qse, qsw = at(q, 1, 1), at(q, 1, -1), at(q, -1, 1), at(q, -1, -1)
    plain = (pe - pw) * (qn - qs) - (pn - ps) * (qe - qw)
    in_p = pe * (qne - qse) - pw * (qnw - qsw) - pn * (qne - qnw) + ps * (qse - qsw)
    in_q = qn * (pne - pnw) - qs * (pse - psw) - qe * (pne - pse) + qw * (pnw - psw)
    return (plain + in_p + in_q) / 12


def sine_transform(field):
    """The two-dimensional sine transform, its own inverse."""
    for axis in (0, 1):
        field = numpy.moveaxis(field, axis, -1)
        side = field.shape[-1]
        odd = numpy.zeros((*field.shape[:-1], 2 * side + 2))
        odd[..., 1 : side + 1], odd[..., side + 2 :] = field, -field[..., ::-1]
        field = -numpy.fft.rfft(odd).imag[..., 1 : side + 1] / (2 * side + 2) ** 0.5
        field = numpy.moveaxis(field, -1, axis)
    return field


def write(output, name, basin):
    u, v = basin.velocities()
    fields = {
        "stream_function": basin.stream,
        "vorticity": basin.vorticity,
        "u": u,
        "v": v,
        "energy": (u * u + v * v) / 2,
    }
    with netCDF4.Dataset(output.folder / name, "w", format="NETCDF4") as file:
        file.createDimension("y", u.shape[0])
        file.createDimension("x", u.shape[1])
        for variable, field in fields.items():
            file.createVariable(variable, "f8", ("y", "x"))[:] = field
    output.add(name, "floating", element="f64", shape=[len(fields), *u.shape], format="NetCDF-4")
