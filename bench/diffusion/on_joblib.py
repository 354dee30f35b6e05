"""joblib as its users write it: parallel processes of one machine, and joblib.Memory, a cache of results on disk.

SPDX-License-Identifier: Apache-2.0
"""

import functools

from diffusion import on_dask, reading, task, workloads
from diffusion.rival import Rival


class Joblib(Rival):
    name = "joblib.Memory"

    def start(self, folder, base):
        import joblib

        self.folder = folder
        self.parallel = joblib.Parallel(n_jobs=workloads.WORKERS)
        self.call = joblib.delayed
        # Its processes stay from one call to the next.
        self.parallel(self.call(on_dask.warm)(base) for _ in range(4 * workloads.WORKERS))

    def reader(self, run):
        return functools.partial(reading.from_joblib, str(self.folder / run))

    def run(self, workload, addresses, run):
        """[(number, sources)]."""
        read = self.reader(run)
        return self.parallel(
            self.call(task.run)(number, inputs, workload.task_s, read) for number, inputs in enumerate(addresses)
        )

    def close(self):
        pass
