"""Decodes the golden blocks that stand alone, as docs/format.md says, plainly and slowly. Standard library only: LZ4, Zstandard
and Pcodec are not decoded."""

import lzma
import operator
import zlib

CODECS = ["none", "lz4", "zstd", "zero-run", "zlib", "xz", "pco"]
FILTERS = [None, "shuffle", "bit shuffle", "delta", "xor delta", "byte delta", "columns", "byte swap"]
ELEMENTS = {0: 1, 1: 2, 2: 4, 3: 8, 5: 2, 6: 4, 7: 8, 9: 2, 10: 4, 11: 8}


def check(folder, read_header):
    """Decodes what can be, and compares it with the raw bytes it was made of; prints how many blocks there were."""
    records, text, decoded = (folder / "records.bin").read_bytes(), (folder / "segments.bin").read_bytes(), 0
    for path in sorted((folder / "blocks").iterdir()):
        data = path.read_bytes()
        block = read_header(data[:64])
        stored = data[64 + 36 * block["segments"] :]
        assert len(stored) == block["stored"], path
        if CODECS[block["codec"]] in ("lz4", "zstd", "pco"):
            continue
        raw = unfiltered(block, unpacked(block, stored))
        assert len(raw) == block["raw"], path
        if any(block["filters"]):
            assert raw == records[40:5001], path
        elif block["kind"] == 0:
            assert raw in text, path
        decoded += 1
    print(f"blocks: {decoded} decoded")


def unpacked(block, stored):
    codec = CODECS[block["codec"]]
    if codec == "none":
        return stored
    if codec == "zero-run":
        return zero_run(stored, block["raw"])
    if codec == "zlib":
        return zlib.decompress(stored)
    dictionary = {"id": lzma.FILTER_LZMA2, "dict_size": max(4096, block["raw"])}
    return lzma.decompress(stored, lzma.FORMAT_RAW, filters=[dictionary])


def zero_run(stored, length):
    raw, at = b"", 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            at, byte = at + 1, stored[at]
            value, shift = value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while len(raw) < length:
        zeros, literals = number(), number()
        raw, at = raw + bytes(zeros) + stored[at : at + literals], at + literals
    assert at == len(stored)
    return raw


def unfiltered(block, data):
    filters = [FILTERS[number] for number in block["filters"] if number]
    element = ELEMENTS[block["element"]]
    for number in reversed(range(len(filters))):
        unit = element if "columns" in filters[:number] else block["record_length"] or element
        units = (len(data) - block["phase"]) // unit
        head, tail = block["phase"], block["phase"] + units * unit
        data = data[:head] + UNDO[filters[number]](data[head:tail], unit, units, element) + data[tail:]
    return data


def turned(data, height, width, size=1):
    """Rows become columns, of pieces of `size` bytes."""
    piece = lambda row, column: data[(row * width + column) * size :][:size]
    return b"".join(piece(row, column) for column in range(width) for row in range(height))


def added(data, size, distance, add):
    numbers = [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]
    for at in range(distance, len(numbers)):
        numbers[at] = add(numbers[at], numbers[at - distance]) % (1 << 8 * size)
    return b"".join(number.to_bytes(size, "little") for number in numbers)


def each_plane(data, units, undo):
    return b"".join(undo(data[at : at + units]) for at in range(0, len(data), units))


def bits_joined(plane):
    width = len(plane) // 8
    bit = lambda at, number: plane[number * width + at // 8] >> at % 8 & 1
    joined = bytes(sum(bit(at, number) << number for number in range(8)) for at in range(8 * width))
    return joined + plane[8 * width :]


UNDO = {
    "shuffle": lambda data, unit, units, element: turned(data, unit, units),
    "bit shuffle": lambda data, unit, units, element: each_plane(data, units, bits_joined),
    "delta": lambda data, unit, units, element: added(data, element, unit // element, operator.add),
    "xor delta": lambda data, unit, units, element: added(data, element, unit // element, operator.xor),
    "byte delta": lambda data, unit, units, element: each_plane(data, units, lambda plane: added(plane, 1, 1, operator.add)),
    "columns": lambda data, unit, units, element: turned(data, unit // element, units, element),
    "byte swap": lambda data, unit, units, element: b"".join(
        data[at : at + element][::-1] for at in range(0, len(data), element)
    ),
}
