"""Files of records: structures of integers and floats, of widths from 20 to 48 bytes.

SPDX-License-Identifier: Apache-2.0
"""

import numpy


def sensors(output):
    """A data logger: time in microseconds and three readings, 20 bytes a record; the next day by columns."""
    record = numpy.dtype([("time_us", "i8"), ("temperature", "f4"), ("pressure", "f4"), ("vibration", "f4")])
    half = int(output.bytes / record.itemsize / 2)
    for number in range(2):
        rows = numpy.empty(half, record)
        jitter = output.random.normal(0, 40, half).astype("i8")
        rows["time_us"] = 1_795_000_000_000_000 + number * 86_400_000_000 + 10_000 * numpy.arange(half) + jitter
        wander = output.random.standard_normal(half).cumsum()
        rows["temperature"] = numpy.round(21 + 0.003 * wander + output.random.normal(0, 0.02, half), 2)
        rows["pressure"] = 1013.25 + 0.01 * output.random.standard_normal(half).cumsum()
        rows["vibration"] = output.random.standard_t(4, half) * (1 + numpy.sin(numpy.arange(half) / 5000))
        if number == 0:
            output.write("log.bin", rows, "mixed records")
            continue
        output.write("time.i64", rows["time_us"].copy(), "integer")
        for name in ("temperature", "pressure", "vibration"):
            output.write(f"{name}.f32", rows[name].copy(), "floating")


def halos(output):
    """A catalogue of clumps of matter: id, parent and kind as integers, the rest as f32, 48 bytes a record."""
    record = numpy.dtype(
        [("id", "i8"), ("parent", "i8"), ("kind", "i4"), ("position", "f4", 3), ("velocity", "f4", 3), ("mass", "f4")]
    )
    count = int(output.bytes / record.itemsize)
    rows = numpy.empty(count, record)
    groups = numpy.repeat(numpy.arange(count), output.random.zipf(1.9, count).clip(1, 5000))[:count]
    starts = numpy.flatnonzero(numpy.diff(groups, prepend=-1))
    first = starts[numpy.searchsorted(starts, numpy.arange(count), side="right") - 1]
    rows["id"] = 10**10 + numpy.cumsum(output.random.integers(1, 40, count))
    rows["parent"] = numpy.where(first == numpy.arange(count), -1, rows["id"][first])
    rows["kind"] = numpy.where(rows["parent"] < 0, 0, output.random.integers(1, 4, count))
    centres = output.random.uniform(0, 500, (count, 3))[first]
    rows["position"] = (centres + output.random.normal(0, 0.4, (count, 3))) % 500
    rows["velocity"] = output.random.normal(0, 300, (count, 3))[first] + output.random.normal(0, 90, (count, 3))
    rows["mass"] = 1e10 * output.random.pareto(0.9, count).clip(0.02, 1e5)
    output.write("halos.bin", rows, "mixed records")


def lidar(output):
    """Points of a laser scanner as in LAS, format 1: 28 bytes of small integers and the time as a double."""
    record = numpy.dtype(
        [("x", "i4"), ("y", "i4"), ("z", "i4"), ("intensity", "u2"), ("returns", "u1"), ("kind", "u1")]
        + [("angle", "i1"), ("user", "u1"), ("source", "u2"), ("gps_time", "f8")]
    )
    count = int(output.bytes / record.itemsize)
    rows = numpy.zeros(count, record)
    pulse = numpy.arange(count)
    sweep, line = (pulse % 1000) / 500 - 1, pulse // 1000
    x, y = 30_000 * sweep + output.random.normal(0, 8, count), 45 * line + output.random.normal(0, 8, count)
    ground = 900 * numpy.sin(x / 9000) * numpy.cos(y / 14000) + 250 * numpy.sin(x / 1500 + y / 2100)
    tree = output.random.random(count) < 0.35 * (numpy.sin(x / 5000) * numpy.sin(y / 6000) > 0.1)
    height = tree * output.random.gamma(6, 180, count)
    rows["x"], rows["y"] = 51_234_000 + x, 712_800_000 + y
    rows["z"] = 41_000 + ground + height + output.random.normal(0, 3, count)
    rows["intensity"] = (output.random.gamma(9, 12, count) * numpy.where(tree, 5, 12)).clip(0, 65535)
    rows["returns"] = numpy.where(tree, 0b00_010_001, 0b00_001_001) | (line % 2 << 6)
    rows["kind"] = numpy.where(tree, 5, 2)
    rows["angle"] = 30 * sweep
    rows["source"] = 17
    rows["gps_time"] = 312_000_000 + pulse * 5e-6 + line * 2e-4
    output.write("strip.las-points", rows, "mixed records", format="LAS points, format 1")


def photons(output):
    """The particle bank of a Monte Carlo transport code: integers of 2 and 4 bytes and f32, 40 bytes a record."""
    record = numpy.dtype(
        [
            ("id", "u4"),
            ("cell", "i4"),
            ("collisions", "i2"),
            ("state", "i2"),
            ("position", "f4", 3),
            ("direction", "f4", 3),
            ("energy", "f4"),
        ]
    )
    count = int(output.bytes / record.itemsize / 3)
    rows = numpy.zeros(count, record)
    rows["id"] = numpy.arange(count)
    rows["energy"] = 2.5
    rows["direction"] = unit_vectors(output.random, count)
    for census in range(3):
        for _ in range(4):
            fly(rows, output.random)
        output.write(f"bank-{census}.bin", rows, "mixed records")


def fly(rows, random):
    """Moves all photons to their next collision. The source replaces those that are absorbed or leave the box."""
    count = len(rows)
    rows["position"] += rows["direction"] * random.exponential(1.3, count)[:, None].astype("f4")
    gone = (random.random(count) < 0.12) | (abs(rows["position"]) > 10).any(1)
    rows["collisions"] += 1
    rows["energy"] *= random.uniform(0.55, 1, count)
    rows["direction"] = unit_vectors(random, count)
    for name, value in (("position", 0), ("collisions", 0), ("energy", 2.5)):
        rows[name][gone] = value
    rows["state"] = gone
    cell = numpy.floor((rows["position"] + 10) / 2).astype("i4").clip(0, 9)
    rows["cell"] = (cell[:, 0] * 10 + cell[:, 1]) * 10 + cell[:, 2]


def unit_vectors(random, count):
    vectors = random.standard_normal((count, 3))
    return vectors / numpy.linalg.norm(vectors, axis=1)[:, None]


def network_flows(output):
    """Flow records as routers export them, NetFlow 5: 48 bytes, big-endian, nothing but integers."""
    names = "src dst hop in out packets octets first last sport dport pad flags proto tos src_as dst_as src_mask dst_mask pad2"
    types = ">u4 >u4 >u4 >u2 >u2 >u4 >u4 >u4 >u4 >u2 >u2 u1 u1 u1 u1 >u2 >u2 u1 u1 >u2"
    record = numpy.dtype(list(zip(names.split(), types.split())))
    count, random = int(output.bytes / record.itemsize), output.random
    rows = numpy.zeros(count, record)
    hosts = random.integers(0x0A000000, 0x0AFFFFFF, 4000)
    rows["src"] = hosts[(random.zipf(1.4, count) - 1) % 4000]
    rows["dst"] = numpy.where(
        random.random(count) < 0.6, hosts[random.integers(0, 40, count)], random.integers(1 << 24, 0xDFFFFFFF, count)
    )
    rows["hop"], rows["in"], rows["out"] = 0x0A000001, random.choice([1, 2, 7], count), random.choice([1, 3], count)
    rows["packets"] = random.zipf(1.7, count).clip(1, 10**6)
    rows["octets"] = rows["packets"] * random.choice([40, 64, 576, 1420, 1500], count)
    rows["first"] = 86_400_000 + numpy.sort(random.integers(0, 3_600_000, count))
    rows["last"] = rows["first"] + random.exponential(3000, count)
    rows["sport"], rows["dport"] = (
        random.integers(32768, 61000, count),
        random.choice([443, 443, 443, 80, 53, 22, 2049], count),
    )
    rows["flags"], rows["proto"] = random.choice([0x1B, 0x12, 0x02], count), random.choice([6, 6, 6, 17], count)
    rows["src_as"], rows["dst_as"] = 64512, random.choice([15169, 13335, 680, 20965], count)
    rows["src_mask"], rows["dst_mask"] = 24, random.choice([16, 20, 24], count)
    output.write("flows.netflow5", rows, "mixed records", byte_order="big", format="NetFlow 5 records")
