"""Arrays of every type, for what stores chunks of them. SPDX-License-Identifier: Apache-2.0"""

import numpy

COMPOUND = numpy.dtype([("id", "<i4"), ("at", "<f8", (3,)), ("tag", "S3")])
BIG_COMPOUND = numpy.dtype([("one", ">f4"), ("other", ">f4")])

NUMBERS = [
    "u1",
    "i1",
    "?",
    *(order + kind for order in "<>" for kind in ("u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8")),
]
DTYPES = [*NUMBERS, "<c8", ">c16", "S5", COMPOUND, BIG_COMPOUND]

# Arrays and their chunks: whole, odd, of one value, longer than the array where it is one piece.
SHAPES = [((40, 30), (40, 30)), ((41, 29), (7, 13)), ((5, 3), (1, 1)), ((999,), (1000,)), ((3, 4, 5), (2, 3, 4))]


def smooth(shape, dtype, seed=1):
    """Values that compress."""
    dtype = numpy.dtype(dtype)
    numbers = numpy.random.default_rng(seed).integers(-1, 2, shape).cumsum(axis=0) + 20
    if dtype.fields is None:
        return (numbers % 2 == 0) if dtype.kind == "b" else numbers.astype(dtype)
    array = numpy.zeros(shape, dtype)
    for name, member in dtype.fields.items():
        numbers_of_item = numbers.reshape(*shape, *(1 for _ in member[0].shape))
        array[name] = numpy.broadcast_to(numbers_of_item, array[name].shape).astype(member[0].base)
    return array


def bits(shape, dtype, seed=1):
    """Whatever bits: of floats also NaNs of all kinds."""
    dtype = numpy.dtype(dtype)
    length = int(numpy.prod(shape)) * dtype.itemsize
    raw = numpy.random.default_rng(seed).bytes(length)
    array = numpy.frombuffer(raw, dtype).reshape(shape).copy()
    if dtype.kind == "f":
        # Quiet and signalling NaNs with payloads, by their bits.
        unsigned = array.view(dtype.str.replace("f", "u")).reshape(-1)
        exponent = numpy.array(numpy.inf, dtype).view(unsigned.dtype)
        unsigned[::3] |= exponent
    return array


def same(one, other):
    """Whether two arrays have the same dtype, shape and bits."""
    one, other = numpy.asarray(one), numpy.asarray(other)
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
