"""Dask as rivals use it: as it is, with each file loaded once by a task whose future the others take, with fsspec's cache
of files in each worker, and with each file's tasks pinned to the worker that its hash names.

SPDX-License-Identifier: Apache-2.0
"""

import itertools
import os

from diffusion import placing, reading, task, workloads
from diffusion.rival import Rival, WithFilecache


class Dask(Rival):
    name = "dask"
    memory_limit = 0  # bytes of a worker; 0: none

    def start(self, folder, base):
        from distributed import Client, LocalCluster

        self.folder = folder
        self.cluster = LocalCluster(
            n_workers=workloads.WORKERS, processes=True, threads_per_worker=1, memory_limit=self.memory_limit,
            dashboard_address=None, local_directory=str(folder),
        )
        self.client = Client(self.cluster)
        self.client.run(warm, base)

    def run(self, workload, addresses, run):
        """[(number, sources)]."""
        numbers, seconds = range(len(addresses)), [workload.task_s] * len(addresses)
        read = [self.reader(run)] * len(addresses)
        return self.client.gather(self.client.map(task.run, numbers, addresses, seconds, read, pure=False))

    def close(self):
        self.client.close()
        self.cluster.close()


class DaskWithFutures(Dask):
    """As Dask's own documentation advises: results stay in the workers' memory, and workers send them to each other."""

    name = "dask, futures"

    def run(self, workload, addresses, run):
        unique = list(dict.fromkeys(itertools.chain.from_iterable(addresses)))
        loaded = dict(zip(unique, self.client.map(reading.load, unique, pure=False)))
        futures = [
            self.client.submit(
                task.on_contents, number, inputs, workload.task_s, *(loaded[address] for address in inputs), pure=False
            )
            for number, inputs in enumerate(addresses)
        ]
        return self.client.gather(futures)


class DaskWithFuturesInLittleMemory(DaskWithFutures):
    """A worker keeps some 90 MB of objects beside itself; Dask writes others to its folder."""

    name = "dask, futures, little memory"
    memory_limit = workloads.LITTLE_MEMORY_BYTES


class DaskWithFilecache(WithFilecache, Dask):
    name = "dask + filecache"


class DaskPinned(DaskWithFilecache):
    """The same, and a task goes to the worker that the hash of its first file names."""

    name = "dask, hash-pinned"

    def run(self, workload, addresses, run):
        places = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        pinned = [[] for _ in places]
        for number, inputs in enumerate(addresses):
            pinned[placing.owner(inputs[0], len(places))].append((number, inputs, workload.task_s, self.reader(run)))
        futures = []
        for place, tasks in zip(places, pinned):
            if tasks:
                futures += self.client.map(task.run, *zip(*tasks), workers=[place], pure=False)
        return self.client.gather(futures)


def warm(base):
    """All that a first task would load."""
    from diffusion import content

    address = content.address(base, "warm", 1000, str(os.getpid()))
    content.check(address, reading.from_store(address)[0])
