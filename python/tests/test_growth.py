"""Tasks that have ended leave nothing behind. SPDX-License-Identifier: Apache-2.0"""

import gc
import tracemalloc

from diffusion_tasks import double

from thalweg.diffusion import Diffusion

# Enough for all tables to have the size that tasks known ahead need.
WARM = MEASURED = 16_000
# A number, its entry in a dict and half a pointer are more.
MAX_BYTES_A_TASK = 24


def traced_bytes(run, tasks):
    """Bytes that Python holds when so many more tasks have come and gone."""
    assert sum(1 for _ in run.map(double, iter(range(tasks)))) == tasks
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_a_run_does_not_grow_with_the_tasks_that_have_ended(tmp_path):
    with Diffusion(workers=1, cache_folder=tmp_path / "cache") as run:
        tracemalloc.start()
        try:
            before = traced_bytes(run, WARM)
            after = traced_bytes(run, MEASURED)
        finally:
            tracemalloc.stop()
    assert (after - before) / MEASURED < MAX_BYTES_A_TASK
