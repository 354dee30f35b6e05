"""The memory that an ended task leaves behind, that of the process that has client and coordinator, over a run of
many short tasks on local processes, arguments read as tasks end.

    bench/diffusion/run --growth 1000000

SPDX-License-Identifier: Apache-2.0
"""

import gc
import os
import tempfile
import time
from pathlib import Path

from thalweg.diffusion import Diffusion

_SHOWN = 10


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def nothing(number: int) -> int:
    return number


def measure(tasks: int) -> None:
    begun = time.monotonic()
    print(f"{'tasks':>10}  {'s':>7}  {'MiB':>7}", flush=True)
    with tempfile.TemporaryDirectory() as folder, Diffusion(workers=2, cache_folder=folder) as run:
        for ended, _ in enumerate(run.map(nothing, iter(range(tasks))), 1):
            if ended % (tasks // _SHOWN) == 0:
                gc.collect()
                print(f"{ended:>10}  {time.monotonic() - begun:7.1f}  {resident_bytes() / 2**20:7.1f}", flush=True)
