"""Ray as rivals use it: as it is, with each file loaded once into its object store, and with fsspec's cache of files in each worker process, the node of a small machine.

SPDX-License-Identifier: Apache-2.0
"""

import itertools
import logging
import os
import time

from diffusion import on_dask, reading, task, workloads
from diffusion.rival import Rival, WithFilecache


class Ray(Rival):
    name = "ray"
    object_store_bytes = 200_000_000

    def start(self, folder, base):
        import ray

        os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
        self.ray, self.folder = ray, folder
        ray.init(
            num_cpus=workloads.WORKERS, include_dashboard=False, object_store_memory=self.object_store_bytes,
            logging_level=logging.ERROR, log_to_driver=False,
        )
        self.task = ray.remote(num_cpus=1)(task.run)
        warm = ray.remote(num_cpus=1)(_warm)
        ray.get([warm.remote(base) for _ in range(workloads.WORKERS)])

    def run(self, workload, addresses, run):
        """[(number, sources)]."""
        read = self.ray.put(self.reader(run))
        return self.ray.get(
            [self.task.remote(number, inputs, workload.task_s, read) for number, inputs in enumerate(addresses)]
        )

    def close(self):
        self.ray.shutdown()


class RayWithObjects(Ray):
    """As Ray's own documentation advises."""

    name = "ray, objects"
    object_store_bytes = 2_000_000_000

    def run(self, workload, addresses, run):
        load, work = (self.ray.remote(num_cpus=1)(function) for function in (reading.load, task.on_contents))
        unique = dict.fromkeys(itertools.chain.from_iterable(addresses))
        loaded = {address: load.remote(address) for address in unique}
        return self.ray.get([
            work.remote(number, inputs, workload.task_s, *(loaded[address] for address in inputs))
            for number, inputs in enumerate(addresses)
        ])


class RayWithObjectsInLittleMemory(RayWithObjects):
    """As much for objects as Dask's workers have in sum; Ray writes others to its folder."""

    name = "ray, objects, little memory"
    object_store_bytes = workloads.WORKERS * workloads.LITTLE_MEMORY_BYTES * 3 // 10


class RayWithFilecache(WithFilecache, Ray):
    name = "ray + filecache"


def _warm(base):
    """Long enough that each worker gets one."""
    on_dask.warm(base)
    time.sleep(1)
