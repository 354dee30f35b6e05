"""The back-end without a cluster: processes of this machine, which share one cache.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import platform
import queue
import threading
import time
from typing import Callable

from thalweg.diffusion.backend import LossHandler, UpdateHandler
from thalweg.diffusion.cache.worker_cache import WorkerCache
from thalweg.diffusion.coordinator import Coordinator
from thalweg.diffusion.messages import Report, Tasks
from thalweg.diffusion.options import Options
from thalweg.diffusion.worker.agent import Agent
from thalweg.diffusion.worker.execution import ProcessSlot
from thalweg.disk_cache.cache_dir_lock import CacheDirLock, default_base

_NAME = platform.node() or "localhost"
# Until a thread has ended, it is looked for its process this often.
_POLL_S = 0.1


class Local:
    """One thread has the coordinator; one for each slot has a process that runs tasks."""

    def __init__(self, options: Options, workers: int | None, on_updates: UpdateHandler, on_lost: LossHandler) -> None:
        self._on_updates, self._on_lost = on_updates, on_lost
        self._coordinator = Coordinator(options)
        self._inbox: queue.SimpleQueue[Callable[[float], None] | None] = queue.SimpleQueue()
        self._began = time.monotonic()
        self._cache_dir = CacheDirLock(options.cache_folder or default_base())
        cache = WorkerCache(
            self._cache_dir.folder,
            options.cache_bytes,
            token=options.token,
            storage_options=options.storage_options,
            stall_timeout_s=options.store_stall_timeout_s,
        )
        self._agent = Agent(cache, options, self._on_reports, os.path.join(self._cache_dir.folder, "scratch"))
        count = workers or len(os.sched_getaffinity(0))
        self._slots = [ProcessSlot(self._agent.values, options.timeout_s) for _ in range(count)]
        self._threads = [threading.Thread(target=self._coordinate, name="thalweg-coordinator", daemon=True)]
        for slot in self._slots:
            self._threads.append(threading.Thread(target=self._work, args=(slot,), name="thalweg-slot", daemon=True))
        self._on_reports([self._agent.hello(count)], False)
        for thread in self._threads:
            thread.start()

    def keep(self, digest: bytes, pickled: bytes) -> None:
        self._inbox.put(lambda now_s: self._coordinator.keep(digest, pickled))

    def forget(self, digests: list[bytes]) -> None:
        self._inbox.put(lambda now_s: self._coordinator.forget(digests))

    def cancel(self, numbers: list[int]) -> None:
        self._inbox.put(lambda now_s: self._coordinator.cancel(now_s, numbers))

    def submit(self, tasks: Tasks) -> None:
        self._inbox.put(lambda now_s: self._coordinator.submit(now_s, tasks))

    def check(self) -> None:
        """Has nothing to do: the thread reports by itself."""

    def close(self) -> None:
        self._inbox.put(None)
        self._agent.close()
        for thread in self._threads:
            while thread is not threading.current_thread() and thread.is_alive():
                # Also one that was started just now.
                for slot in self._slots:
                    slot.kill()
                thread.join(_POLL_S)
        for slot in self._slots:
            slot.close()
        self._cache_dir.release()

    def _on_reports(self, reports: list[Report], can_wait: bool) -> None:
        sent_s = time.monotonic()
        self._inbox.put(lambda now_s: self._coordinator.receive(now_s, _NAME, reports, sent_s))

    def _coordinate(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as error:
            self._on_lost(error)

    def _step(self) -> bool:
        """All that has come, or the time at which something is due; then what follows from it."""
        wake_s = self._coordinator.next_wake_s()
        try:
            event = self._inbox.get(timeout=None if wake_s is None else max(0.0, wake_s - self._now_s()))
            while True:
                if event is None:
                    return False
                event(self._now_s())
                event = self._inbox.get_nowait()
        except queue.Empty:
            pass
        orders, updates = self._coordinator.collect(self._now_s())
        self._agent.receive(orders.get(_NAME, []))
        if updates:
            self._on_updates(updates)
        return True

    def _now_s(self) -> float:
        return time.monotonic() - self._began

    def _work(self, slot: ProcessSlot) -> None:
        """A slot that cannot work would have its job wait for ever: the run ends."""
        try:
            while (job := self._agent.take()) is not None:
                self._agent.finish(job, slot.run(job.calling()))
        except BaseException as error:
            # Closing kills processes that are just being started.
            if not self._agent.is_closed:
                self._on_lost(error)
