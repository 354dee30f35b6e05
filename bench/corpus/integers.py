"""Arrays of integers, and the arrays of floats that go with them: labels, sparse matrices, meshes, graphs, counts, spins.

SPDX-License-Identifier: Apache-2.0
"""

import numpy


def smooth(shape, random, slope):
    """A random field, periodic, whose amplitudes fall with this power of the wave number."""
    waves = numpy.fft.rfftn(random.standard_normal(shape))
    k = [numpy.fft.fftfreq(n, 1 / n) for n in shape[:-1]] + [numpy.fft.rfftfreq(shape[-1], 1 / shape[-1])]
    length = sum(numpy.square(axis) for axis in numpy.meshgrid(*k, indexing="ij")) ** 0.5
    field = numpy.fft.irfftn(waves / numpy.maximum(length, 1) ** slope, s=shape, axes=range(len(shape)))
    return (field - field.mean()) / field.std()


def label_fields(output):
    """A segmented volume: grains as i32, phases as u8 and a mask of one byte a voxel."""
    side = round((output.bytes / 6) ** (1 / 3))
    phase = smooth((side,) * 3, output.random, 2.5)
    centres = output.random.uniform(0, side, (220, 3))
    labels = numpy.empty((side,) * 3, "i4")
    y, x = numpy.mgrid[:side, :side]
    for z in range(side):
        near = centres[numpy.argsort(abs(centres[:, 0] - z))[:60]]
        numbers = numpy.argsort(abs(centres[:, 0] - z))[:60]
        away = (near[:, 0] - z) ** 2 + (y[..., None] - near[:, 1]) ** 2 + (x[..., None] - near[:, 2]) ** 2
        labels[z] = numbers[away.argmin(-1)] + 1
    mask = phase > -0.4
    output.write("grains.i32", labels * mask, "integer")
    output.write("phases.u8", numpy.digitize(phase, [-0.4, 0.3, 1.2]).astype("u1"), "integer")
    output.write("mask.u8", mask.astype("u1"), "integer")


def sparse_matrix(output):
    """A finite-volume Laplacian in compressed rows: i64 offsets, i32 columns, f64 values."""
    side = round((output.bytes / (7 * 12 + 8 + 8)) ** (1 / 3))
    cells = numpy.arange(side**3, dtype="i4").reshape((side,) * 3)
    conductivity = numpy.exp(2 * smooth((side,) * 3, output.random, 2.2))
    rows, columns, values = [], [], []
    for axis in range(3):
        here, there = (numpy.delete(cells, end, axis).ravel() for end in (-1, 0))
        a, b = (numpy.delete(conductivity, end, axis).ravel() for end in (-1, 0))
        between = -2 * a * b / (a + b)
        rows += [here, there]
        columns += [there, here]
        values += [between, between]
    rows, columns, values = map(numpy.concatenate, (rows, columns, values))
    diagonal = 1e-6 - numpy.bincount(rows, values, side**3)
    rows, columns = numpy.append(rows, cells.ravel()), numpy.append(columns, cells.ravel())
    values = numpy.append(values, diagonal)
    order = numpy.lexsort((columns, rows))
    offsets = numpy.append(0, numpy.bincount(rows, minlength=side**3).cumsum())
    output.write("offsets.i64", offsets.astype("i8"), "integer")
    output.write("columns.i32", columns[order].astype("i4"), "integer")
    output.write("values.f64", values[order], "floating")
    output.write("right-side.f64", output.random.standard_normal(side**3) * conductivity.ravel(), "floating")


def graph(output):
    """A social graph: sorted lists of neighbours (i64) and degrees (i32); and the sorted keys of a table (u64)."""
    edges = int(output.bytes / 8 * 0.7)
    nodes = max(1000, edges // 12)
    ends = (nodes * output.random.power(0.4, (2, edges))).astype("i8")
    near = output.random.random(edges) < 0.5
    ends[1, near] = (ends[0, near] + output.random.geometric(0.02, near.sum())) % nodes
    order = numpy.lexsort((ends[1], ends[0]))
    keys = numpy.sort(output.random.integers(0, 2**63, int(output.bytes / 8 * 0.25), dtype="u8"))
    output.write("neighbours.i64", ends[1][order], "integer")
    output.write("degrees.i32", numpy.bincount(ends[0], minlength=nodes).astype("i4"), "integer")
    output.write("keys.u64", keys, "integer")


def tetrahedral_mesh(output):
    """A mesh of tetrahedra: corners as i32, positions as f64, one material a cell as i32."""
    side = round((output.bytes / (6 * 16 + 6 * 4 + 24)) ** (1 / 3))
    grid = numpy.stack(numpy.meshgrid(*[numpy.arange(side + 1.0)] * 3, indexing="ij"), -1)
    bend = 3 * numpy.sin(grid[..., ::-1] * 2 * numpy.pi / side) + 0.15 * output.random.standard_normal(grid.shape)
    points = (grid + bend) * 0.01
    numbers = numpy.arange((side + 1) ** 3, dtype="i4").reshape((side + 1,) * 3)
    steps = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    cells = numpy.stack([numpy.stack(path(numbers, order), -1) for order in steps], 3).reshape(-1, 4)
    centre = points.reshape(-1, 3)[cells].mean(1)
    material = (numpy.floor(centre[:, 2] * 9 / (side * 0.01)) % 4).astype("i4")
    output.write("cells.i32", cells, "integer")
    output.write("points.f64", points.reshape(-1, 3), "floating")
    output.write("material.i32", material, "integer")


def path(numbers, order):
    """Returns the corners of one of six tetrahedra: from the first corner of each cube along three edges to the last."""
    at = [0, 0, 0]
    corners = [numbers[:-1, :-1, :-1]]
    for axis in order:
        at[axis] = 1
        corners.append(numbers[tuple(slice(1, None) if up else slice(None, -1) for up in at)])
    return corners


def histograms(output):
    """Counts of detector hits: u32 by energy and channel, mostly small, and i64 sums over time."""
    channels, energies = 512, int(output.bytes / 512 / 6)
    energy = numpy.linspace(0, 1, energies)[None, :]
    rate = 30 * numpy.exp(-4 * energy) * output.random.gamma(4, 0.25, (channels, 1))
    for _ in range(12):
        rate = rate + output.random.uniform(20, 400) * numpy.exp(-(((energy - output.random.random()) / 0.004) ** 2))
    output.write("spectra.u32", output.random.poisson(rate).astype("u4"), "integer")
    totals = output.random.poisson(rate[:128]).cumsum(1) + output.random.integers(0, 10**9, (128, 1))
    output.write("totals.i64", totals.astype("i8"), "integer")


def ising(output):
    """Spins of one byte near the critical temperature by the checkerboard Metropolis method, and as packed bits."""
    side = 2 * int((output.bytes / (3 * 1.125)) ** 0.5 / 2)
    spins = numpy.where(smooth((side, side), output.random, 1.0) > 0, 1, -1).astype("i1")
    black = numpy.indices((side, side)).sum(0) % 2 == 0
    accept = {4: 0.0294, 8: 0.00086}
    for number in range(3):
        for _ in range(12):
            for colour in (black, ~black):
                around = sum(numpy.roll(spins, shift, axis) for shift in (1, -1) for axis in (0, 1))
                cost = 2 * spins * around
                chance = numpy.select([cost <= 0, cost == 4], [1.0, accept[4]], accept[8])
                spins[colour & (output.random.random((side, side), dtype="f4") < chance)] *= -1
        output.write(f"spins-{number}.i8", spins, "integer")
        output.write(f"spins-{number}.bits", numpy.packbits(spins > 0, axis=1), "integer")
