"""LZO over the same blocks, by its library's Python module: for comparison with the lecture's table.

SPDX-License-Identifier: Apache-2.0
"""

import time

try:
    import lzo
except ImportError:
    lzo = None

BLOCK_BYTES = 256 << 10
MIN_FILE_BYTES = 4096
QUICK_SECONDS = 0.003


def measure(paths, wanted, found):
    """A reference as `thalweg codecs` has them; none without the module."""
    if lzo is None:
        print("lzo is not measured: there is no module python3-lzo")
        return []
    raw_bytes, stored, compress, decompress = 0, 0, 0.0, 0.0
    for block in blocks(paths, wanted):
        seconds, encoded = timed(lambda: lzo.compress(block, 1, False))
        decoding, decoded = timed(lambda: lzo.decompress(encoded, False, len(block)))
        assert decoded == block
        raw_bytes += len(block)
        stored += min(len(encoded), len(block)) + found["header_bytes_per_block"]
        compress, decompress = compress + seconds, decompress + decoding
    assert raw_bytes == found["original_bytes"], "other blocks than those of thalweg codecs"
    return [reference(f"lzo1x ({lzo.LZO_VERSION_STRING.decode()})", raw_bytes, stored, compress, decompress)]


def reference(name, raw_bytes, stored, compress, decompress):
    rates = {
        "compress_mb_per_s": raw_bytes / compress / 1e6,
        "decompress_mb_per_s": raw_bytes / decompress / 1e6,
        "ratio": raw_bytes / stored,
    }
    seconds = {"compress_seconds": compress, "decompress_seconds": decompress}
    return {"name": name, "stored_bytes": stored, **rates, **seconds, "energy_j_per_gb": None}


def timed(work):
    """Processor time of this thread; what is quick is taken twice, as caches are cold the first time."""
    seconds, made = once(work)
    return (min(seconds, once(work)[0]) if seconds < QUICK_SECONDS else seconds), made


def once(work):
    begin = time.thread_time()
    made = work()
    return time.thread_time() - begin, made


def blocks(paths, wanted):
    """The blocks that the laboratory draws (crates/laboratory/src/blocks.rs)."""
    files = [path for place in paths for path in regular_files(place)]
    files = [(path, path.stat().st_size) for path in files if path.stat().st_size >= MIN_FILE_BYTES]
    total = sum(length for _, length in files)
    for path, length in files:
        whole = -(-length // BLOCK_BYTES)
        count = min(max(wanted * length // total, 1), whole)
        with open(path, "rb") as file:
            for number in range(count):
                file.seek((number * whole // count + whole // count // 2) * BLOCK_BYTES)
                yield file.read(BLOCK_BYTES)


def regular_files(place):
    if place.is_file():
        return [place]
    entries = sorted(place.iterdir(), key=lambda entry: entry.name.encode())
    return [path for entry in entries if not entry.is_symlink() for path in regular_files(entry)]
