"""Reaction and diffusion: the Gray–Scott equations in three dimensions, as in the example of ADIOS2.

SPDX-License-Identifier: Apache-2.0
"""

import numpy

SNAPSHOTS = 4
STEPS_BETWEEN = 150
DIFFUSION_U, DIFFUSION_V, FEED, KILL, NOISE = 0.2, 0.1, 0.02, 0.048, 1e-7


def snapshots(output):
    """Both species as raw arrays of f64, one file a species and snapshot."""
    side = round((output.bytes / (SNAPSHOTS * 2 * 8)) ** (1 / 3))
    u, v = seeded(side, output.random)
    for number in range(1, SNAPSHOTS + 1):
        for _ in range(STEPS_BETWEEN):
            step(u, v, output.random)
        output.write(f"u-{number * STEPS_BETWEEN:04}.raw", u, "floating")
        output.write(f"v-{number * STEPS_BETWEEN:04}.raw", v, "floating")


def seeded(side, random):
    """All fuel but for a few cubes."""
    u, v = numpy.ones((side,) * 3), numpy.zeros((side,) * 3)
    for corner in random.integers(0, side - 8, (4, 3)):
        cube = tuple(slice(start, start + 8) for start in corner)
        u[cube], v[cube] = 0.25, 0.33
    return u, v


def step(u, v, random):
    reaction = u * v * v
    noise = NOISE * (random.random(u.shape, dtype=numpy.float32) - 0.5)
    change_u = DIFFUSION_U * laplacian(u) - reaction + FEED * (1 - u) + noise
    v += DIFFUSION_V * laplacian(v) + reaction - (FEED + KILL) * v
    u += change_u


def laplacian(field):
    """Divided by six, periodic."""
    total = -6 * field
    for axis in range(3):
        total += numpy.roll(field, 1, axis)
        total += numpy.roll(field, -1, axis)
    return total / 6
