"""A process whose memory is saved as a checkpoint of whole processes saves it: arrays, objects, heap.

The process is started for this, with an empty environment and fixed addresses, so that nothing of the user's is in the file.
SPDX-License-Identifier: Apache-2.0
"""

import subprocess
import sys
from pathlib import Path

import numpy


def snapshot(output):
    """The writable memory of a Python process with a field, an empty array and many small objects."""
    path = output.folder / "process.mem"
    command = ["setarch", "--addr-no-randomize", sys.executable, __file__, path, output.bytes, output.seed]
    subprocess.run(list(map(str, command)), check=True, env={"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"})
    output.add(path.name, "mixed records", format="memory of a process")


def fill_and_save(path, size_bytes, seed):
    """Three tenths of the bytes are a field of f64, a tenth zeros, the rest objects and the interpreter's own."""
    random = numpy.random.default_rng(seed)
    side = int((0.3 * size_bytes / 8) ** 0.5)
    kept = [random.standard_normal((side, side)).cumsum(0).cumsum(1), numpy.ones(size_bytes // 80) * 0]
    kept += [{"cell": n, "neighbours": [n - 1, n + 1], "name": f"cell-{n}"} for n in range(size_bytes // 900)]
    Path(path).write_bytes(b"".join(writable_regions(size_bytes)))


def writable_regions(most_bytes):
    """Private writable regions in the order of their addresses, without stacks, none longer than a third of the whole."""
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in maps.read().splitlines():
            addresses, rights, *rest = line.split()
            if not rights.startswith("rw-p") or rest[-1].startswith(("[stack", "[vvar", "[vsyscall")):
                continue
            start, end = (int(address, 16) for address in addresses.split("-"))
            memory.seek(start)
            region = memory.read(min(end - start, most_bytes // 3))
            most_bytes -= len(region)
            yield region


if __name__ == "__main__":
    fill_and_save(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
