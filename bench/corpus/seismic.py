"""Seismograms: acoustic waves from shots at the surface of layered ground, recorded along it.

SPDX-License-Identifier: Apache-2.0
"""

import numpy

SIDE = 240
SAMPLES = 1200
SPACING_M = 10.0
STEP_S = 0.0012
FREQUENCY_HZ = 14.0


def shots(output):
    """Traces of f32, receiver by receiver, one file a shot; and the pressure in the ground at the end of each."""
    count = max(1, round(output.bytes / (4 * SIDE * (SAMPLES + SIDE))))
    speeds = layers(output.random)
    for shot in range(count):
        traces, pressure = fire(speeds, (shot + 1) * SIDE // (count + 1))
        noise = 1e-4 * traces.std() * output.random.standard_normal(traces.shape, dtype="f4")
        output.write(f"shot-{shot}.traces.f32", traces + noise, "floating")
        output.write(f"shot-{shot}.pressure.f32", pressure.astype("f4"), "floating")


def layers(random):
    """Metres a second: bent layers, each faster than the one above, with small scatterers."""
    depth = numpy.arange(SIDE)[:, None] + 6 * numpy.sin(numpy.arange(SIDE) / 25)[None, :]
    borders = numpy.sort(random.uniform(0.1, 0.95, 7)) * SIDE
    speeds = 1500.0 + 380.0 * (depth[..., None] > borders).sum(-1)
    return speeds * (1 + 0.01 * random.standard_normal((SIDE, SIDE)))


def fire(speeds, column):
    """Fourth order in space, second in time; a margin damps what leaves the model."""
    courant = (speeds * STEP_S / SPACING_M) ** 2
    inside = numpy.minimum(numpy.arange(SIDE), numpy.arange(SIDE)[::-1]).clip(0, 30)
    damping = 1 - 0.0005 * (30 - inside) ** 1.3
    damping = numpy.minimum(damping[:, None], damping[None, :])
    now, before = numpy.zeros((2, SIDE, SIDE))
    traces = numpy.empty((SAMPLES, SIDE), "f4")
    for sample in range(SAMPLES):
        phase = (numpy.pi * FREQUENCY_HZ * (sample * STEP_S - 0.1)) ** 2
        after = (2 * now - before * damping + courant * laplacian(now)) * damping
        after[3, column] += (1 - 2 * phase) * numpy.exp(-phase)
        now, before = after, now
        traces[sample] = now[4]
    return traces.T, now


def laplacian(field):
    total = numpy.zeros_like(field)
    inner = field[2:-2, 2:-2]
    near = field[1:-3, 2:-2] + field[3:-1, 2:-2] + field[2:-2, 1:-3] + field[2:-2, 3:-1]
    far = field[:-4, 2:-2] + field[4:, 2:-2] + field[2:-2, :-4] + field[2:-2, 4:]
    total[2:-2, 2:-2] = (16 * near - far - 60 * inner) / 12
    return total
