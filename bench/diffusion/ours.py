"""Thalweg's data diffusion: on the same Dask cluster as the rivals, and on local processes.

SPDX-License-Identifier: Apache-2.0
"""

import json
import tempfile
from pathlib import Path

from diffusion import on_dask, striped, task, workloads


class Thalweg(on_dask.Dask):
    name = "thalweg"
    policy = "thalweg"
    workers_a_cache = 1

    def prepare(self, workload, run):
        from thalweg.diffusion import Diffusion

        # A second run has caches of the first, and a folder of its own: otherwise its calls would not run again.
        self.run_folder = Path(tempfile.mkdtemp(prefix="run-", dir=self.folder))
        self.diffusion = Diffusion(
            self.client, cache_folder=self.folder / run, cache=workload.cache_bytes * self.workers_a_cache, policy=self.policy,
            workers=None if self.client else workloads.WORKERS, peer_mb_s=striped.PEER_BYTES_PER_S / 1e6, run_folder=self.run_folder,
        )
        # A worker is there when it has run something.
        for _ in self.diffusion.map(task.wait, [(0.05,)] * 4 * workloads.WORKERS):
            pass

    def run(self, workload, addresses, run):
        from thalweg.diffusion import File

        tasks = [
            (number, inputs, workload.task_s, *map(File, inputs)) for number, inputs in enumerate(addresses)
        ]
        return [(result.value, ()) for result in self.diffusion.map(task.on_paths, tasks)]

    def finish(self):
        self.diffusion.close()

    def sources(self, results):
        """Of each input of an attempt that counted, as its own events have them."""
        with open(self.run_folder / "events.jsonl") as file:
            for record in map(json.loads, file):
                if record.get("kind") == "done":
                    yield from (source for source, _ in record["inputs"])


class ThalwegInLittleMemory(Thalweg):
    name = "thalweg, little memory"
    memory_limit = workloads.LITTLE_MEMORY_BYTES


class ThalwegFirstAvailable(Thalweg):
    """The source's baseline on our own machinery: no caches, no index."""

    name = "thalweg, first-available"
    policy = "fa"


class ThalwegLocal(Thalweg):
    """Without Dask: all processes share one cache, as large as eight, and there are no peers."""

    name = "thalweg, local processes"
    workers_a_cache = workloads.WORKERS

    def start(self, folder, base):
        self.folder, self.client = folder, None
        on_dask.warm(base)

    def close(self):
        pass
