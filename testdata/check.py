#!/usr/bin/env python3
"""Reads the golden files, knowing docs/format.md and nothing of the Rust code, and prints what it found.

Ends with an error at the first byte that is not as described. Standard library only: so LZ4, Zstandard and Pcodec payloads are not
decoded, and XXH3 and BLAKE3 are not compared. Run it alone, or with a folder: testdata/check.py [testdata/v0]
"""

import bisect
import pathlib
import struct
import sys
import tomllib

import blocks as lone_blocks

FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "v0")
MASK64 = (1 << 64) - 1


class Fields:
    """Fields one after the other; runs out with an error, and must end with its last."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        assert self.at + count <= len(self.data), "cut short"
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def u8(self):
        return self.number("B")

    def u16(self):
        return self.number("H")

    def u32(self):
        return self.number("I")

    def u64(self):
        return self.number("Q")

    def i64(self):
        return self.number("q")

    def bool(self):
        value = self.u8()
        assert value in (0, 1), f"{value} is no bool"
        return value == 1

    def bytes(self):
        return self.take(self.u32())

    def text(self):
        return self.bytes().decode()

    def path(self):
        path = self.bytes()
        names = path.split(b"/") if path else []
        assert len(path) <= 4096 and b"\0" not in path and not {b"", b".", b".."} & set(names), f"{path} is no path"
        return path

    def list(self, item):
        return [item() for _ in range(self.u32())]

    def option(self, item):
        return item() if self.bool() else None

    def place(self):
        return self.u64(), self.u32()

    def run(self):
        container, first, count = self.u64(), self.u32(), self.u32()
        assert first + count < 1 << 32
        return container, first, count

    def end(self):
        assert self.at == len(self.data), f"{len(self.data) - self.at} bytes left over"


def count(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


# Containers


def container_header(data):
    magic, version, fingerprint, cipher, _, number, store, _, _, _, rest, _ = struct.unpack(
        "<8sHBBIQ16sI4sI36sQ", data[:96]
    )
    assert magic == b"TWGCONT\0" and version == 0 and fingerprint <= 2 and cipher == 0 and not any(rest)
    return number, store.hex()


def part_header(data):
    """None where no part begins."""
    if len(data) < 96:
        return None
    magic, container, number, flags, labels, blocks, segments, zero, data_bytes, _, rest, _ = struct.unpack(
        "<8sQIIIIIIQQ32sQ", data[:96]
    )
    if magic != b"TWGPART\0":
        return None
    assert flags <= 1 and zero == 0 and not any(rest)
    index_bytes = 16 * labels + 64 * blocks + 36 * segments
    return dict(container=container, number=number, footer=flags == 1, labels=labels, blocks=blocks, segments=segments,
                data_bytes=data_bytes, bytes=96 + index_bytes + data_bytes)


def block_header(data):
    names = "kind codec cipher level filters key_id group record_length phase segments raw stored element zero offset sum rest"
    block = dict(zip(names.split(), struct.unpack("<BBBb4sIIIIIIIB3sQQQ", data)))
    assert block["kind"] <= 2 and block["codec"] <= 6 and block["cipher"] == 0 and max(block["filters"]) <= 7
    assert block["element"] in lone_blocks.ELEMENTS and not any(block["zero"]) and block["rest"] == 0
    assert block["segments"] > 0 and block["raw"] <= 64 << 20
    return block


def chunk(name, raw):
    """A chunk of HDF5 or Zarr, which decodes to these bytes."""
    data = (FOLDER / "chunks" / name).read_bytes()
    magic, version, segments = struct.unpack("<6sH24xI", data[:36])
    assert (magic, version, segments) == (b"TWGCHK", 0, 0)
    # Apart from these a block header of a container: with a segment, and with nothing at its end.
    block = block_header(data[8:32] + struct.pack("<I", 1) + data[36:64] + bytes(8))
    assert block["kind"] == 0 and block["offset"] == 0 and block["stored"] == len(data) - 72
    assert lone_blocks.unfiltered(block, lone_blocks.unpacked(block, data[72:])) == raw, name
    return lone_blocks.CODECS[block["codec"]]


def part(data, header):
    """The labels, and the blocks with their segments' lengths and their stored bytes."""
    fields = Fields(data[96 : header["bytes"] - header["data_bytes"]])
    payload = data[header["bytes"] - header["data_bytes"] : header["bytes"]]
    labels = [fields.run() for _ in range(header["labels"])]
    blocks = [block_header(fields.take(64)) for _ in range(header["blocks"])]
    segments = [(fields.take(32), fields.u32()) for _ in range(header["segments"])]
    fields.end()
    assert sum(label[2] for label in labels) == sum(block["segments"] for block in blocks) == len(segments)
    offset, rest = 0, segments
    for block in blocks:
        inside, rest = rest[: block["segments"]], rest[block["segments"] :]
        assert block["offset"] == offset and sum(length for _, length in inside) == block["raw"]
        block["payload"] = payload[offset : offset + block["stored"]]
        assert block["codec"] != 0 or block["stored"] == block["raw"]
        block["segments"] = inside
        offset += block["stored"]
    assert offset == header["data_bytes"]
    return labels, blocks


def footer_list(data):
    """(offset, bytes, segments) of each part the footer lists; None without a footer."""
    offset, length = struct.unpack("<QQ", data[-32:-16])
    header = part_header(data[offset:]) if offset + length == len(data) else None
    if not header or not header["footer"]:
        return None
    assert header["bytes"] == length and header["data_bytes"] % 32 == 0
    entries = [struct.unpack("<QQI12x", data[at : at + 32]) for at in range(offset + 96, len(data), 32)]
    assert entries[-1] == (offset, length, 0)
    return entries[:-1]


def container(name, store):
    """Prints what is in a container; returns its labels and blocks."""
    data = (FOLDER / name).read_bytes()
    number, of_store = container_header(data)
    assert of_store == store
    listed, offset, parts, labels, blocks = footer_list(data), 96, [], [], []
    while (header := part_header(data[offset:])) and not header["footer"]:
        if offset + header["bytes"] > len(data):
            break
        assert header["container"] == number and header["number"] == len(parts)
        some_labels, some_blocks = part(data[offset:], header)
        parts.append((offset, header["bytes"], header["segments"]))
        labels, blocks, offset = labels + some_labels, blocks + some_blocks, offset + header["bytes"]
    segments = sum(len(block["segments"]) for block in blocks)
    end = "a footer" if listed is not None else "no footer"
    torn = f", then {len(data) - offset} bytes that are no whole part" if listed is None else ""
    assert listed is None or listed == parts
    print(f"{name}: container {number}, {count(len(parts), 'part')} and {end}, {count(len(blocks), 'block')}, "
          f"{count(segments, 'segment')}{torn}")
    print("  labels", *(f"({container}, {first}..{first + many})" for container, first, many in labels))
    for block in blocks:
        kind, codec = ["data", "page", "journal"][block["kind"]], lone_blocks.CODECS[block["codec"]]
        print(f"  {kind}, {codec}: {len(block['segments'])} segments, {block['raw']} bytes as {block['stored']}")
    return blocks


# Manifest


def page(data):
    magic, version, level, zero, length, rest, entries = struct.unpack("<4sHBBQ12sI", data[:32])
    assert magic == b"TWGM" and version == 0 and zero == 0 and not any(rest) and len(data) == 32 + 64 * entries
    found, covered = [], 0
    for at in range(32, len(data), 64):
        bytes_, kind, where, first, many, skip, digest = struct.unpack("<QIQIII32s", data[at : at + 64])
        assert (kind == 3) == (level > 0)
        covered += bytes_
        if kind == 0:
            assert many > 0
            found.append(f"data {where}:{first}+{many}" + (f" skip {skip}" if skip else ""))
        elif kind == 3:
            assert many == 1 and skip == 0
            found.append(f"page {where}:{first}")
        elif kind == 4:
            assert (where, first, many) == (0, 0, 0)
            found.append(f"output {skip} of recipe {digest[:8].hex()}")
        else:
            assert (where, first, many, skip) == (0, 0, 0, 0) and not any(digest)
            found.append(["zero", "hole"][kind - 1])
    assert covered == length
    return f"level {level}, {length} bytes: {' '.join(found)}"


def root(fields):
    form = fields.u8()
    if form == 0:
        return "inline, " + page(fields.bytes())
    assert form == 1
    (where, ordinal), _digest = fields.place(), fields.take(32)
    return f"stored at {where}:{ordinal}"


# Attributes and journal


def attributes(fields):
    kind, mode = fields.u8(), fields.u32()
    fields.take(4 + 4)
    for _ in range(2):
        fields.i64()
        assert fields.u32() < 10**9
    fields.u64()
    target = fields.bytes()
    extended = fields.list(lambda: (fields.bytes(), fields.bytes()))
    assert kind <= 2 and extended == sorted(extended) and (kind == 2) == (target != b"")
    return f"{['regular', 'directory', 'symlink'][kind]}, mode {mode:o}, {len(extended)} extended"


def snapshot(data):
    fields = Fields(data)
    assert fields.u16() == 0
    host = fields.text()
    sources = fields.list(lambda: (fields.bytes(), fields.path()))
    tags = fields.list(fields.text)
    _, names, _, _ = (fields.u64() for _ in range(4))
    fields.end()
    assert sources == sorted(sources) and tags == sorted(set(tags))
    return f"host {host}, {count(len(sources), 'source')}, {count(len(tags), 'tag')}, {count(names, 'name')}"


def recipe(data):
    fields = Fields(data)
    assert fields.u16() == 0
    arguments = fields.list(fields.bytes)
    programs = fields.list(lambda: (fields.bytes(), fields.take(32), fields.u64(), fields.u32(), fields.bool()))
    environment = fields.list(lambda: (fields.bytes(), fields.bytes()))
    inputs = fields.list(lambda: (fields.bytes(), fields.path(), fields.u64(), fields.u64(), fields.u64(), fields.take(32)))
    not_kept = fields.list(fields.text)
    outputs = fields.list(
        lambda: (fields.bytes(), fields.path(), fields.u64(), fields.take(32), fields.option(lambda: tolerance(fields)))
    )
    fields.list(fields.bytes)
    fields.bool(), fields.u64(), fields.i64()
    assert fields.u32() < 10**9
    fields.text(), fields.u32()
    fields.end()
    assert arguments and outputs and environment == sorted(environment)
    kept, within = [one for one in programs if one[4]], [one for one in outputs if one[4]]
    return (
        f"{b' '.join(arguments).decode()}: {count(len(programs), 'program')}, {len(kept)} kept, "
        f"{count(len(environment), 'variable')}, {count(len(inputs), 'input')}, {len(not_kept)} not kept, "
        f"{count(len(outputs), 'output')}, {len(within)} with a tolerance"
    )


def tolerance(fields):
    element, relative = fields.text(), struct.unpack("<d", fields.take(8))[0]
    values, non_finite = fields.u64(), fields.u64()
    statistics = struct.unpack("<4d", fields.take(32))
    means = fields.list(lambda: struct.unpack("<d", fields.take(8))[0])
    assert 0 < relative < 1 and non_finite <= values and len(means) <= 64
    assert all(abs(value) < float("inf") for value in (*statistics, *means))
    return element, relative


def recipe_attribute(data, record):
    fields = Fields(data)
    assert fields.u16() == 0
    fields.take(32)
    assert fields.u64() == len(record)
    seconds, is_recomputable = fields.u64() / 1e9, fields.bool()
    fields.end()
    return f"{seconds} s, {'' if is_recomputable else 'not '}recomputable"


def listing(data):
    fields, found, last = Fields(data), [], b""
    while fields.at < len(fields.data):
        path = fields.path()
        kind = attributes(fields).split(",")[0]
        assert path > last
        last, shown = path, path.decode()
        if kind == "regular":
            fields.u64()
            fields.option(lambda: fields.take(32))
            file, number, shared = fields.u64(), fields.u64(), fields.u8()
            shown += f": version {number} of {file}, {['only', 'first', 'again'][shared]}"
        found.append(shown)
    return " ".join(found)


def version_record(fields):
    return root(fields), fields.u64(), fields.option(lambda: fields.take(32))


def change(fields):
    kind = fields.u8()
    fields.path()
    if kind == 0:
        attributes(fields), version_record(fields), fields.option(lambda: fields.option(lambda: fields.take(8 + 8)))
    elif kind in (1, 5):
        attributes(fields)
    elif kind in (2, 4):
        fields.path()
    elif kind == 3:
        fields.bool()
    elif kind == 6:
        fields.u64(), fields.list(fields.u64)
    else:
        assert kind == 7
        fields.u64(), fields.u64(), root(fields)
    return "write make link remove rename attributes forget manifest".split()[kind]


def journal(data):
    fields = Fields(data)
    assert fields.u16() == 0
    sequence, _committed, session = fields.u64(), fields.i64(), fields.u64()
    numbers = fields.list(lambda: (fields.u64(), fields.u64()))
    changes = fields.list(lambda: change(fields))
    fields.end()
    assert changes.count("write") == len(numbers)
    return f"sequence {sequence}, session {session}, {len(numbers)} numbers: {' '.join(changes)}"


# Model


def tree(fields, features, outputs):
    """The number of leaves. Children of the n-th split are the nodes 1 + 2n and 2 + 2n."""
    leaves, splits, depths = fields.u16(), 0, [0]
    assert 1 <= leaves <= 4096
    for number in range(2 * leaves - 1):
        feature = fields.u8()
        if feature != 255:
            threshold = fields.number("f")
            assert feature < features and threshold == threshold and depths[number] < 32
            depths += 2 * [depths[number] + 1]
            splits += 1
    assert splits == leaves - 1 and len(depths) == 2 * leaves - 1
    fields.take(2 * leaves * outputs)
    return leaves


def candidate(fields):
    codec, level, filters, element, _flags = struct.unpack("<Bb4sBB", fields.take(8))
    listed = filters.rstrip(b"\0")
    assert codec <= 6 and 0 not in listed and max(filters) <= 7 and element in lone_blocks.ELEMENTS
    return (lone_blocks.CODECS[codec] + (f":{level}" if level else "") + (f" {','.join(map(str, listed))}" if listed else "")
            + (f" of element {element}" if element else ""))


def model(data):
    magic, version, features_version, features, candidates, outputs, trees, zero = struct.unpack("<8sHHHHHHI", data[:24])
    assert magic == b"TWGMODL\0" and version == 0 and zero == 0 and len(data) <= 4 << 20
    assert 1 <= features <= 64 and 1 <= candidates <= 64 and 1 <= outputs <= 256 and 1 <= trees <= 64
    assert outputs % candidates == 0
    fields = Fields(data[24:-8])
    known = ", ".join(candidate(fields) for _ in range(candidates))
    leaves = ", ".join(str(tree(fields, features, outputs)) for _ in range(trees))
    fields.end()
    return f"{features} features of version {features_version}; {known}; {outputs} outputs, {trees} trees of {leaves} leaves"


# Table


def perhaps_in(key, seed, length, mask, limit, filter_bytes):
    h = (key + seed) & MASK64
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & MASK64
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & MASK64
    h ^= h >> 33
    f = (h ^ h >> 32) & 0xFF
    p0 = h * limit >> 64
    p1 = p0 + length ^ h >> 18 & mask
    p2 = p0 + 2 * length ^ h & mask
    return filter_bytes[p0] ^ filter_bytes[p1] ^ filter_bytes[p2] == f


def table_run(name, store):
    data = (FOLDER / name).read_bytes()
    magic, version, zero, of_store, entries, summary_bytes, summary_sum, _ = struct.unpack("<8sH6s16sQQQQ", data[:64])
    assert magic == b"TWGTABL\0" and version == 0 and not any(zero) and of_store.hex() == store
    index = 64 + 24 * entries
    assert len(data) == index + summary_bytes
    found = []
    for at in range(64, index, 24):
        prefix, packed = struct.unpack("<16sQ", data[at : at + 24])
        found.append((prefix, packed >> 24, packed & 0xFFFFFF))
    assert all(before < after for before, after in zip(found, found[1:]))
    fields = Fields(data[index:])
    for first in range(0, entries, 1 << 20):
        keys = [int.from_bytes(prefix[:8], "big") for prefix, _, _ in found[first : first + (1 << 20)]]
        fences = fields.list(fields.u64)
        assert fences == keys[::170]
        seed, length, mask, limit = fields.u64(), fields.u32(), fields.u32(), fields.u32()
        filter_bytes = fields.bytes()
        assert mask == length - 1 and not length & mask and limit % length == 0 < limit
        assert len(filter_bytes) == limit + 2 * length
        for at, key in enumerate(keys):
            pages = range(max(bisect.bisect_left(fences, key) - 1, 0), bisect.bisect_right(fences, key))
            assert at // 170 in pages and perhaps_in(key, seed, length, mask, limit, filter_bytes)
        strangers = sum(perhaps_in(key * 0x9E3779B97F4A7C15 & MASK64, seed, length, mask, limit, filter_bytes)
                        for key in range(1000))
        assert strangers < 40, f"{strangers} of 1000 strangers pass a filter of 8 bits"
    fields.end()
    print(f"{name}: {entries} entries, all found by fences and filter")
    return found, summary_sum


def run_list(name):
    records = [record[:3] for record in struct.iter_unpack("<QQQQ", (FOLDER / name).read_bytes())]
    print(f"{name}: {count(len(records), 'run')}:", *(f"{number:016x}" for number, _, _ in records))
    return records


# Frames


def commit(fields):
    session, references, _epoch = fields.u64(), fields.list(fields.u64), fields.u64()
    changes = fields.list(lambda: change(fields))
    checkpoints = fields.list(lambda: (fields.u64(), fields.u32(), fields.u64()))
    return f"session {session:x}, {len(references)} references, {len(changes)} changes, {len(checkpoints)} checkpoints"


def checkpoints(fields):
    def one():
        fields.take(8 + 4 + 8 + 8 + 8)
        root(fields), fields.u64(), fields.bool()
        fields.list(lambda: fields.take(8 + 4 + 8)), fields.list(lambda: fields.take(8 + 8 + 8))

    return f"{len(fields.list(one))} checkpoints, more {fields.bool()}"


def failed(fields):
    kind, text, path = fields.u16(), fields.text(), fields.option(fields.path)
    containers, head = fields.list(fields.u64), fields.option(lambda: (fields.u64(), fields.u64()))
    refusal, subject = fields.u16(), fields.option(lambda: (fields.text(), fields.u64(), fields.text()))
    return f"kind {kind}, {text!r}, path {path}, {len(containers)} containers, head {head}, refusal {refusal}, {subject}"


def segment_entry(fields):
    return fields.take(32), fields.u32()


def of_extents(fields, rest):
    """Session, stripe set, sequence, stamp, epoch; extents; and what comes after them."""
    fields.take(8 + 4 + 8 + 8 + 8)
    return f"{len(fields.list(lambda: fields.take(16)))} extents{rest()}"


def of_write(fields):
    fields.take(8 + 4 + 8 + 8 + 8)
    mode = fields.option(lambda: fields.take(1)[0])
    return f"mode {mode}, {len(fields.list(lambda: fields.take(16)))} extents"


BODIES = {
    1: lambda f: f"client {f.u64():x}, stream {f.u32()}, job {f.text()!r}, application {f.text()!r}",
    3: lambda f: f"nonce {f.take(32).hex()[:8]}…, proof {f.take(32).hex()[:8]}…",
    10: lambda f: f"owner {f.u64():x}, {len(f.list(lambda: f.take(32)))} fingerprints",
    12: lambda f: f"owner {f.u64():x}, {len((f.take(64), f.list(lambda: segment_entry(f)))[1])} segments",
    14: lambda f: f"run {f.run()}",
    23: commit,
    25: lambda f: f"directory {f.path()}, recursive {f.bool()}, after {f.option(f.path)}, limit {f.u32()}",
    26: lambda f: f"path {f.path()}, after {f.u64()}",
    27: lambda f: f"after {f.u64():x}",
    28: lambda f: f"session {f.u64():x}, after stripe set {f.u32()}, number {f.u64()}",
    40: lambda f: f"path {f.path()}, flags {f.u32()}, job {f.text()!r}, nodes {f.list(f.text)}, stripes of {f.u64()}, "
    f"key {f.take(16).hex()[:8]}…",
    41: lambda f: f"session {f.u64():x}, stripe set {f.u32()}, key {f.take(16).hex()[:8]}…",
    42: of_write,
    43: lambda f: of_extents(f, lambda: f", {len(f.list(lambda: f.take(32)))} fingerprints"),
    52: lambda f: f"session {f.u64():x}, key {f.take(16).hex()[:8]}…",
    56: lambda f: of_extents(f, lambda: f", names {f.take(32).hex()[:8]}…"),
    0x8001: failed,
    0x8002: lambda f: f"settings {f.text()!r}, holder {f.u64():x}",
    0x8004: lambda f: f"nonce {f.take(32).hex()[:8]}…",
    0x8005: lambda f: f"proof {f.take(32).hex()[:8]}…",
    0x8006: lambda f: f"progress {f.u64():x}",
    0x8026: checkpoints,
    0x8047: lambda f: f"session {f.u64():x}, stripe set {f.u32()}, sequence {f.u64()}, held {f.list(f.u64)}",
    0x8048: lambda f: f"sequence {f.u64()}, stamp {f.u64()}",
    0x8049: lambda f: f"session {f.u64():x}, stripe set {f.u32()}, {failed(f)}",
}


def frames():
    read = 0
    for path in sorted((FOLDER / "frames").iterdir()):
        data = path.read_bytes()
        magic, protocol, zero, kind, request, body, payload, _ = struct.unpack("<4sBBHQIIQ", data[:32])
        assert magic == b"TWGF" and protocol == 17 and zero == 0 and len(data) == 32 + body + payload, path
        unasked = kind in (0x8004, 0x8006, 0x8047, 0x8049)
        assert path.name.startswith(f"{kind:04x}-") and (request == 0) == unasked, path
        if kind in BODIES:
            fields = Fields(data[32 : 32 + body])
            print(f"  {path.stem}: {BODIES[kind](fields)}")
            fields.end()
            read += 1
    assert read == len(BODIES)
    print(f"frames: {read} messages read")


def exchange(name, tagged):
    data = (FOLDER / name).read_bytes()
    magic, version, flags, entries, gate, sequence = struct.unpack("<4sBBHQQ", data[:24])
    assert magic == b"TWGX" and version == 0 and flags == tagged and entries <= 85 and len(data) <= 1400
    assert len(data) == 24 + 16 * entries + 16 * tagged
    charged = [struct.unpack_from("<QQ", data, 24 + 16 * number) for number in range(entries)]
    print(f"{name}: gate {gate:x}, packet {sequence}, {[f'{name:016x}: {bytes}' for name, bytes in charged]}")
    return gate, sequence, charged


def main():
    settings = tomllib.loads((FOLDER / "store.toml").read_text())
    store = settings["id"]
    print(f"store.toml: format {settings['format']}, store {store}")
    blocks = container("container.twc", store)
    assert blocks[0]["payload"] == (FOLDER / "segments.bin").read_bytes()[:3000]
    assert blocks[3]["payload"] == b"".join((FOLDER / name).read_bytes() for name in ("page-leaf.bin", "page-interior.bin"))
    assert blocks[4]["payload"] == (FOLDER / "journal.bin").read_bytes()
    container("torn.twc", store), container("moved.twc", store)
    for name in ("page-leaf.bin", "page-interior.bin", "page-dropped.bin"):
        print(f"{name}: {page((FOLDER / name).read_bytes())}")
    for name, read in (("root-inline.bin", root), ("root-stored.bin", root), ("attributes.bin", attributes),
                       ("attributes-link.bin", attributes)):
        fields = Fields((FOLDER / name).read_bytes())
        print(f"{name}: {read(fields)}")
        fields.end()
    print("snapshot.bin:", snapshot((FOLDER / "snapshot.bin").read_bytes()))
    record = (FOLDER / "recipe.bin").read_bytes()
    print("recipe.bin:", recipe(record))
    print("recipe-attribute.bin:", recipe_attribute((FOLDER / "recipe-attribute.bin").read_bytes(), record))
    print("listing.bin:", listing((FOLDER / "listing.bin").read_bytes()))
    print("journal.bin:", journal((FOLDER / "journal.bin").read_bytes()))
    print("model.bin:", model((FOLDER / "model.bin").read_bytes()))
    entries, summary_sum = table_run("table.run", store)
    named = sorted((fingerprint[:16], 1, ordinal) for ordinal, (fingerprint, _) in
                   enumerate(segment for block in blocks for segment in block["segments"]))
    assert entries == named, "the table has what the container has"
    assert run_list("table-runs.bin") == [(1, len(entries), summary_sum)]
    lone_blocks.check(FOLDER, block_header)
    raw = (FOLDER / "records.bin").read_bytes()[40:5001]
    print("chunks:", *(chunk(path.name, raw) for path in sorted((FOLDER / "chunks").iterdir())))
    frames()
    assert exchange("exchange.bin", 0) == exchange("exchange-tagged.bin", 1)


if __name__ == "__main__":
    main()
