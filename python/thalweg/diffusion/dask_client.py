"""The back-end on a Dask cluster, seen from the client. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import itertools
import pickle
import threading
from functools import partial
from typing import Any

from distributed import Client, Future, KilledWorker, wait

from thalweg.diffusion.backend import Listener, Mourner
from thalweg.diffusion.dask_scheduler import DiffusionPlugin
from thalweg.diffusion.dask_worker import agent, channel
from thalweg.diffusion.messages import Tasks
from thalweg.diffusion.options import Options

# Agents get so long to end.
_DISMISSAL_S = 5.0


def _unheard(**_: Any) -> None:
    """What comes after the end of a run."""


class OnDask:
    """`cluster` is a Dask client or cluster, or a scheduler's address."""

    def __init__(self, cluster: Any, options: Options, listener: Listener, mourner: Mourner) -> None:
        if not isinstance(cluster, (str, Client)) and not hasattr(cluster, "scheduler_address"):
            raise TypeError(f"a Dask client, a cluster or a scheduler's address is needed, not {cluster!r}")
        self._own = not isinstance(cluster, Client)
        self._client = Client(cluster) if self._own else cluster
        self._options = options
        self._listener, self._mourner = listener, mourner
        self._name = channel(options.run)
        # Of each worker's agents those that Dask has not ended.
        self._agents: dict[str, set[Future[None]]] = {}
        self._turn = threading.Lock()
        self._slots: dict[str, int] = {}
        self._numbers = itertools.count()
        self._is_closed = False
        # Dask calls handlers of its streams by name.
        self._client._stream_handlers[self._name] = self._hear
        self._comm = self._client.scheduler_comm
        self._client.register_plugin(DiffusionPlugin(options, self._client.id))

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
            self._mourner(ConnectionError("Dask's scheduler is gone"))

    def close(self) -> None:
        self._is_closed = True
        if self._client.status == "running":
            self._dismiss()
        self._agents.clear()
        # Dask's client stops listening at a message that nobody takes.
        self._client._stream_handlers[self._name] = _unheard
        if self._own:
            self._client.close()

    def _dismiss(self) -> None:
        """Agents end by themselves when the coordinator does, as soon as they have ended their tasks."""
        try:
            self._send(end=True)
            with self._turn:
                agents = [future for futures in self._agents.values() for future in futures]
            wait(agents, timeout=_DISMISSAL_S)
        except Exception:
            # The scheduler is gone, or a worker, or a task takes long: the run has ended anyway.
            pass
        for future in [future for futures in list(self._agents.values()) for future in list(futures)]:
            future.release()

    def _send(self, **message: Any) -> None:
        self._client._send_to_scheduler({"op": self._name, **message})

    def _hear(self, message: dict[str, Any]) -> None:
        """In the client's event loop."""
        if self._is_closed:
            return
        if "news" in message:
            self._listener(pickle.loads(message["news"]))
        elif "joined" in message:
            self._join(message["joined"], message["slots"])
        elif "agents" in message:
            self._start_agents(message["worker"], message["agents"])
        elif "lost" in message:
            with self._turn:
                lost = self._agents.pop(message["lost"], set())
            for future in lost:
                future.release()
        elif "error" in message:
            self._mourner(RuntimeError(message["error"]))

    def _join(self, address: str, threads: int) -> None:
        """One agent for each slot, until it is known what there is to do."""
        with self._turn:
            self._slots[address] = self._options.slots or threads
            self._agents[address] = set()
        self._start_agents(address, min(self._slots[address], threads))

    def _start_agents(self, address: str, count: int) -> None:
        """Each is a Dask task that stays as long as it has something to run."""
        for _ in range(count):
            if self._is_closed or address not in self._agents:
                return
            future = self._client.submit(
                agent,
                self._options,
                self._slots[address],
                key=f"{self._name}-{address}-{next(self._numbers)}",
                workers=[address],
                allow_other_workers=False,
                pure=False,
                retries=0,
            )
            with self._turn:
                self._agents.setdefault(address, set()).add(future)
            future.add_done_callback(partial(self._agent_ended, address))

    def _agent_ended(self, address: str, future: Future[None]) -> None:
        """One that failed leaves its slot to nobody, and is mostly not the only one: no room, or a folder that cannot be
        written. The run would wait for ever."""
        with self._turn:
            self._agents.get(address, set()).discard(future)
        if not self._is_closed and future.status == "error":
            error = future.exception()
            if not isinstance(error, KilledWorker):
                self._mourner(RuntimeError(f"{address} cannot run tasks: {type(error).__name__}: {error}"))
        future.release()
