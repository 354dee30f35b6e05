"""Ray as rivals use it: as it is, and with fsspec's cache of files in each worker process, the node of a small machine.

SPDX-License-Identifier: Apache-2.0
"""

import logging
import os
import time

from diffusion import on_dask, task, workloads
from diffusion.rival import Rival, WithFilecache


class Ray(Rival):
    name = "ray"

    def start(self, folder, base):
        import ray

        os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
        self.ray, self.folder = ray, folder
        ray.init(
            num_cpus=workloads.WORKERS, include_dashboard=False, object_store_memory=200_000_000,
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


class RayWithFilecache(WithFilecache, Ray):
    name = "ray + filecache"


def _warm(base):
    """Long enough that each worker gets one."""
    on_dask.warm(base)
    time.sleep(1)
