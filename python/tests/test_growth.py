"""Tasks that have ended leave nothing behind. SPDX-License-Identifier: Apache-2.0"""

import gc
import itertools
import tracemalloc

from diffusion_tasks import double

from thalweg.diffusion import Diffusion

WARM, MEASURED = 4_000, 8_000
# A number, its entry in a dict and half a pointer are more.
MOST_BYTES_A_TASK = 24


def test_a_run_without_end_does_not_grow(tmp_path):
    with Diffusion(workers=1, cache_folder=tmp_path / "cache") as run:
        # More than are known ahead: what waits is the same at both ends of what is measured.
        results = run.map(double, itertools.count())
        for _ in range(WARM):
            next(results)
        tracemalloc.start()
        for _ in range(WARM):
            next(results)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(MEASURED):
            next(results)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        run.close()
    assert (after - before) / MEASURED < MOST_BYTES_A_TASK
