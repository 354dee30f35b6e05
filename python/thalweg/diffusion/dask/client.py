"""The back-end on a Dask cluster, seen from the client. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import itertools
import pickle
import threading
import weakref
from functools import partial
from typing import Any

from distributed import Client, Future, KilledWorker, wait

from thalweg.diffusion.backend import LossHandler, UpdateHandler
from thalweg.diffusion.dask.scheduler import DiffusionPlugin
from thalweg.diffusion.dask.worker import channel, runner
from thalweg.diffusion.messages import Tasks
from thalweg.diffusion.options import Options
from thalweg.error_code import RUN_LOST, code_of, coded, misuse

# Between two looks at the scheduler's connection.
_WATCH_S = 1.0
# Runners get so long to end.
_DISMISSAL_S = 5.0


def _watch(backend: weakref.ref[OnDask], ended: threading.Event) -> None:
    """Dask tells nobody that its scheduler is gone: who waits for a result would wait for ever."""
    while not ended.wait(_WATCH_S) and (found := backend()) is not None:
        found.check()
        del found


def _ignore(**_: Any) -> None:
    """Drops messages after the end of a run."""


class OnDask:
    """`cluster` is a Dask client or cluster, or a scheduler's address."""

    def __init__(self, cluster: Any, options: Options, on_updates: UpdateHandler, on_lost: LossHandler) -> None:
        if not isinstance(cluster, (str, Client)) and not hasattr(cluster, "scheduler_address"):
            raise misuse(TypeError, f"a Dask client, a cluster or a scheduler's address is needed, not {cluster!r}")
        if getattr(cluster, "asynchronous", False):
            raise misuse(
                TypeError,
                f"{type(cluster).__name__} with asynchronous=True: Diffusion waits for the answers of Dask's scheduler, which "
                "would stop the event loop that gets them; make it without, or give the scheduler's address, in a thread if "
                "the scheduler is in this event loop: await asyncio.to_thread(Diffusion, cluster.scheduler_address)",
            )
        self._own = not isinstance(cluster, Client)
        self._client = Client(cluster) if self._own else cluster
        self._options = options
        self._on_updates, self._on_lost = on_updates, on_lost
        self._name = channel(options.run)
        # Of each worker's runners those that Dask has not ended.
        self._runners: dict[str, set[Future[None]]] = {}
        self._mutex = threading.Lock()
        self._slots: dict[str, int] = {}
        self._numbers = itertools.count()
        self._is_closed = False
        self._ended = threading.Event()
        # Dask calls handlers of its streams by name.
        self._client._stream_handlers[self._name] = self._on_message
        self._comm = self._client.scheduler_comm
        self._client.register_plugin(DiffusionPlugin(options, self._client.id))
        watched = (weakref.ref(self), self._ended)
        threading.Thread(target=_watch, args=watched, name="thalweg-scheduler", daemon=True).start()

    def keep(self, digest: bytes, pickled: bytes) -> None:
        self._send(keep=pickled, digest=digest)

    def forget(self, digests: list[bytes]) -> None:
        self._send(forget=digests)

    def cancel(self, numbers: list[int]) -> None:
        self._send(cancel=numbers)

    def submit(self, tasks: Tasks) -> None:
        self._send(tasks=pickle.dumps(tasks, protocol=5))

    def check(self) -> None:
        """A client that had to connect anew lost its run: the scheduler was started again, or gave it up."""
        if self._client.status != "running" or self._client.scheduler_comm is not self._comm:
            self._on_lost(ConnectionError("Dask's scheduler is gone"))

    def close(self) -> None:
        self._is_closed = True
        self._ended.set()
        if self._client.status == "running":
            self._dismiss()
        self._runners.clear()
        # Dask's client stops listening at a message without a handler.
        self._client._stream_handlers[self._name] = _ignore
        if self._own:
            self._client.close()

    def _dismiss(self) -> None:
        """Runners end by themselves when the coordinator does, as soon as they have ended their tasks."""
        try:
            self._send(end=True)
            with self._mutex:
                runners = [future for futures in self._runners.values() for future in futures]
            wait(runners, timeout=_DISMISSAL_S)
        except Exception:
            # The scheduler is gone, or a worker, or a task takes long: the run has ended anyway.
            pass
        for future in [future for futures in list(self._runners.values()) for future in list(futures)]:
            future.release()

    def _send(self, **message: Any) -> None:
        self._client._send_to_scheduler({"op": self._name, **message})

    def _on_message(self, message: dict[str, Any]) -> None:
        """In the client's event loop."""
        if self._is_closed:
            return
        if "updates" in message:
            self._on_updates(pickle.loads(message["updates"]))
        elif "joined" in message:
            self._join(message["joined"], message["slots"])
        elif "runners" in message:
            self._start_runners(message["worker"], message["runners"])
        elif "lost" in message:
            with self._mutex:
                lost = self._runners.pop(message["lost"], set())
            for future in lost:
                future.release()
        elif "error" in message:
            self._on_lost(RuntimeError(message["error"]))

    def _join(self, address: str, threads: int) -> None:
        """One runner for each slot, until it is known what there is to do."""
        with self._mutex:
            self._slots[address] = self._options.slots or threads
            self._runners[address] = set()
        self._start_runners(address, min(self._slots[address], threads))

    def _start_runners(self, address: str, count: int) -> None:
        """Each is a Dask task that stays as long as it has something to run."""
        for _ in range(count):
            if self._is_closed or address not in self._runners:
                return
            future = self._client.submit(
                runner,
                self._options,
                self._slots[address],
                key=f"{self._name}-{address}-{next(self._numbers)}",
                workers=[address],
                allow_other_workers=False,
                pure=False,
                retries=0,
            )
            with self._mutex:
                self._runners.setdefault(address, set()).add(future)
            future.add_done_callback(partial(self._runner_ended, address))

    def _runner_ended(self, address: str, future: Future[None]) -> None:
        """Handles a runner that failed: its slot stays empty, and it is mostly not the only one: no room, or a folder that cannot be
        written. The run would wait for ever."""
        with self._mutex:
            self._runners.get(address, set()).discard(future)
        if not self._is_closed and future.status == "error":
            error = future.exception()
            if not isinstance(error, KilledWorker):
                why = f"{address} cannot run tasks: {type(error).__name__}: {error}"
                self._on_lost(coded(RuntimeError(why), code_of(error, RUN_LOST)))
        future.release()
