"""Samples of instruments: detector images, waveforms, visibilities, sky images, stations' readings, random walks.

SPDX-License-Identifier: Apache-2.0
"""

import numpy

from corpus.integers import smooth


def detector(output):
    """Diffraction images of a detector of 16 bits: rings, spots, Poisson noise, a pedestal a pixel and dead pixels."""
    side = 1024 if output.bytes > 5e6 else 384
    random = output.random
    y, x = numpy.mgrid[:side, :side] - side / 2
    radius = numpy.hypot(y, x)
    rings = sum(
        a * numpy.exp(-(((radius / side - r) / 0.006) ** 2))
        for a, r in zip(random.uniform(3, 40, 9), random.uniform(0.08, 0.6, 9))
    )
    background = 18 * numpy.exp(-radius / (0.25 * side)) + rings
    pedestal = random.normal(100, 3, (side, side))
    dead = random.random((side, side)) < 2e-4
    for number in range(max(1, output.bytes // (2 * side * side))):
        signal = background.copy()
        for spot_y, spot_x in random.integers(4, side - 4, (150, 2)):
            signal[spot_y - 2 : spot_y + 3, spot_x - 2 : spot_x + 3] += random.pareto(1.2) * 60
        image = random.poisson(signal) * 4 + random.normal(pedestal, 1.2)
        output.write(f"frame-{number:02}.u16", numpy.where(dead, 65535, image).clip(0, 65535).astype("u2"), "integer")


def oscilloscope(output):
    """Waveforms of a digitiser of 14 bits in i16, eight channels interleaved: baseline, pulses with tails, hum, pile-up."""
    samples = int(output.bytes / 2 / 8 / 2)
    kernel = numpy.exp(-numpy.arange(400) / 60) - numpy.exp(-numpy.arange(400) / 6)
    for number in range(2):
        channels = numpy.empty((samples, 8), "i2")
        for channel in range(8):
            hits = output.random.poisson(2e-4 * (channel + 1), samples) * output.random.exponential(2500, samples)
            pulses = numpy.convolve(hits, kernel)[:samples]
            hum = 12 * numpy.sin(numpy.arange(samples) * 2 * numpy.pi / 5000 + channel)
            wave = 800 + 30 * channel + pulses + hum + output.random.normal(0, 2.5, samples)
            channels[:, channel] = wave.clip(0, 16383)
        output.write(f"run-{number}.i16", channels, "integer")


def visibilities(output):
    """A radio interferometer's samples: complex f32 of point sources over the tracks of 28 antennas, weights, and flags."""
    random = output.random
    antennas = random.normal(0, 300, (28, 3)) * [1, 1, 0.05]
    first, second = numpy.triu_indices(28, 1)
    baselines = antennas[first] - antennas[second]
    channels = 32
    times = max(1, int(output.bytes / (len(baselines) * channels * (8 + 4 + 1))))
    sources = random.normal(0, 0.01, (12, 2)), random.pareto(1.2, 12) + 0.1
    angle = numpy.linspace(0, 0.8, times)[:, None]
    u = baselines[:, 0] * numpy.cos(angle) + baselines[:, 1] * numpy.sin(angle)
    v = -baselines[:, 0] * numpy.sin(angle) + baselines[:, 1] * numpy.cos(angle)
    scale = numpy.linspace(4.6, 5.0, channels)
    data = sum(
        flux * numpy.exp(-2j * numpy.pi * (u * east + v * north)[..., None] * scale)
        for (east, north), flux in zip(*sources)
    )
    data = data + 0.3 * (random.standard_normal(data.shape) + 1j * random.standard_normal(data.shape))
    flags = (random.random(data.shape) < 0.01) | (numpy.isin(numpy.arange(channels), [0, 1, 17, 30, 31]))
    data[flags] = 0
    output.write("visibilities.c64", data.astype("c8"), "floating")
    output.write(
        "weights.f32",
        numpy.broadcast_to(random.gamma(50, 0.02, (1, len(baselines), 1)), data.shape).astype("f4"),
        "floating",
    )
    output.write("flags.u8", flags.astype("u1"), "integer")


def telescope(output):
    """Sky images in FITS: stars, nebulae and photon noise as big-endian f32, and raw frames as big-endian i16."""
    side = int((output.bytes / 2 / 6) ** 0.5)
    for number in range(2):
        image = exposure(side, output.random)
        write_fits(output, f"sky-{number}.fits", image.astype(">f4"), -32, "floating")
        raw = numpy.round(output.random.poisson(image.clip(0)) / 1.6 + output.random.normal(300, 4, image.shape))
        write_fits(output, f"raw-{number}.fits", raw.clip(0, 32767).astype(">i2"), 16, "integer")


def exposure(side, random):
    image = 120 + 40 * numpy.exp(smooth((side, side), random, 1.8))
    shape = numpy.exp(-(numpy.square(numpy.mgrid[-7:8, -7:8]).sum(0)) / 6)
    for y, x in random.integers(8, side - 8, (max(20, side * side // 1200), 2)):
        image[y - 7 : y + 8, x - 7 : x + 8] += shape * (random.pareto(1.1) + 0.1) * 80
    return image + random.normal(0, image**0.5)


def write_fits(output, name, image, bits, kind):
    """Cards of 80 characters in blocks of 2880 bytes, then the image, padded."""
    cards = {
        "SIMPLE": "T",
        "BITPIX": bits,
        "NAXIS": 2,
        "NAXIS1": image.shape[1],
        "NAXIS2": image.shape[0],
        "EXPTIME": 300.0,
    }
    header = "".join(f"{key:<8}= {value:>20}".ljust(80) for key, value in cards.items()) + "END"
    content = header.ljust(2880).encode() + image.tobytes()
    element = {
        "element": "f32" if bits == -32 else "i16",
        "shape": list(image.shape),
        "byte_order": "big",
        "format": "FITS",
    }
    output.write(name, content + bytes(-len(content) % 2880), kind, header_bytes=2880, **element)


def stations(output):
    """Weather stations' readings as doubles with one or two decimals, a column a quantity, gaps as NaN."""
    hours = int(output.bytes / 8 / 4 / 40)
    hour = numpy.arange(hours)
    season, day = numpy.cos(hour * 2 * numpy.pi / 8766), numpy.cos((hour % 24 - 14) * 2 * numpy.pi / 24)
    columns = {"temperature": [], "pressure": [], "wind": [], "rain": []}
    for _ in range(40):
        slow = red_noise(output.random, hours, 0.99)
        temperature = 9 - 10 * season + 4 * day + 3 * slow + output.random.normal(0, 0.3, hours)
        temperature[output.random.random(hours) < 0.003] = numpy.nan
        columns["temperature"].append(numpy.round(temperature, 1))
        columns["pressure"].append(numpy.round(1013.2 + 9 * red_noise(output.random, hours, 0.995), 1))
        columns["wind"].append(numpy.round(abs(3.5 + 2.5 * red_noise(output.random, hours, 0.9)), 1))
        wet = red_noise(output.random, hours, 0.9) > 1.2
        columns["rain"].append(numpy.round(wet * output.random.gamma(0.7, 1.1, hours), 2))
    for name, series in columns.items():
        output.write(f"{name}.f64", numpy.stack(series), "floating")


def red_noise(random, count, memory):
    """Autoregressive noise of unit variance, by blocks: the filter's impulse response, cut where it has died."""
    response = memory ** numpy.arange(int(8 / (1 - memory)))
    size = count + len(response)
    shocks = random.standard_normal(size)
    length = 1 << (2 * size).bit_length()
    noise = numpy.fft.irfft(numpy.fft.rfft(shocks, length) * numpy.fft.rfft(response, length), length)
    return noise[len(response) : size] * (1 - memory**2) ** 0.5


def random_walks(output):
    """Random walks in f64: Brownian motion, a geometric one, and one whose steps have heavy tails."""
    count = int(output.bytes / 8 / 3)
    random = output.random
    output.write("brownian.f64", random.standard_normal(count).cumsum(), "floating")
    output.write("geometric.f64", 100 * numpy.exp(1e-4 * random.standard_normal(count).cumsum()), "floating")
    output.write("heavy-tailed.f64", random.standard_t(2.5, count).cumsum(), "floating")
