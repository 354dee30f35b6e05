"""Smooth fields, the same for the same seed: sums of waves over one to three axes, and a heated plate.

SPDX-License-Identifier: Apache-2.0
"""

import numpy

SEED = 96
SHAPES = {"waves, 1-D": (1 << 21,), "waves, 2-D": (1448, 1448), "waves, 3-D": (128, 128, 128)}
PLATE = (1024, 1024)


def fields():
    """Sums of waves about 3, and temperatures of a plate some time after it was heated at random places."""
    random = numpy.random.default_rng(SEED)
    for name, shape in SHAPES.items():
        yield name, waves(random, shape)
    yield "heat, 2-D", plate(random, 20)
    yield "heat, 2-D, early", plate(random, 80)
    yield "heat about 0, 2-D", plate(random, 20) - 293


def waves(random, shape, count=12, most=60):
    """Waves of up to 60 periods along a line, fewer where there are more axes."""
    axes = numpy.meshgrid(*(numpy.linspace(0, 1, length) for length in shape), indexing="ij", sparse=True)
    field = numpy.full(shape, 3.0)
    for _ in range(count):
        turns = random.uniform(-1, 1, len(shape)) * most ** (1 / len(shape))
        phase = sum(turn * axis for turn, axis in zip(turns, axes))
        field += random.uniform(0.3, 1) / (1 + numpy.abs(turns).sum()) * numpy.sin(2 * numpy.pi * (phase + random.uniform()))
    return field


def plate(random, spread):
    """The heat equation on a torus, solved by Fourier's series: noise whose waves have faded as they do; fewer of them later."""
    spectrum = numpy.fft.rfft2(random.standard_normal(PLATE))
    squares = numpy.fft.fftfreq(PLATE[0], 1 / PLATE[0])[:, None] ** 2 + numpy.fft.rfftfreq(PLATE[1], 1 / PLATE[1]) ** 2
    faded = numpy.fft.irfft2(spectrum * numpy.exp(-squares / (2 * spread**2)), PLATE)
    return 293 + 20 * faded / numpy.abs(faded).max()
