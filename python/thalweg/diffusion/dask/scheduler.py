"""The coordinator beside Dask's scheduler: a plugin there, which speaks with workers and client over Dask's own comms.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import time
from functools import partial
from typing import Any

from distributed import Scheduler
from distributed.core import Status
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.scheduler import WorkerState

from thalweg.diffusion.coordinator import Coordinator
from thalweg.diffusion.dask.demand import Demand
from thalweg.diffusion.dask.worker import channel
from thalweg.diffusion.messages import Update
from thalweg.diffusion.options import Options

# Orders and updates go out at most so often: a message costs Dask's event loop more than what is in it.
_TICK_S = 0.004
_UPDATES_TICK_S = 0.02

# How the names of Dask's reasons begin when it closes a worker that nothing has happened to.
_ORDERLY = ("retire-workers", "worker-close-gracefully")

_log = logging.getLogger("thalweg.diffusion")


def _dismiss(scheduler: Scheduler, name: str, worker: str = "", **_: Any) -> None:
    """Answers what comes after the end of a run."""
    stream = scheduler.stream_comms.get(worker)
    if stream is not None and not stream.closed():
        stream.send({"op": name, "orders": None})


class DiffusionPlugin(SchedulerPlugin):
    """All of it happens in the scheduler's event loop. A run ends with its client."""

    idempotent = True

    def __init__(self, options: Options, client: str) -> None:
        self.options = options
        self.client = client
        self.name = channel(options.run)

    async def start(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._began = time.monotonic()
        self._coordinator = Coordinator(self.options, len(scheduler.workers))
        self._is_due = self._is_ended = False
        self._delivered_s = self._updates_sent_s = -1.0
        self._are_updates_due = False
        self._updates: list[Update] = []
        self._alarm: Any = None
        # Workers that know this run's messages.
        self._known_workers: set[str] = set()
        # Dask holds tasks of others back until a worker has a thread to spare, which workers do not see.
        self._are_others_queued = False
        # Those that Dask is closing. It may think better of it.
        self._leaving: set[str] = set()
        scheduler.stream_handlers[self.name] = self._on_message
        Demand.of(scheduler).join(self.wanted_workers)
        for address, state in scheduler.workers.items():
            self._welcome(address, state.nthreads)

    # Dask's events.

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        self._welcome(worker, scheduler.workers[worker].nthreads)

    def remove_worker(self, scheduler: Scheduler, worker: str, **details: Any) -> None:
        self._known_workers.discard(worker)
        self._leaving.discard(worker)
        why = str(details.get("stimulus_id", ""))
        self._coordinator.gone(self._now_s(), worker, why, why.startswith(_ORDERLY))
        self._send_to_client({"lost": worker})
        self._soon()

    def transition(self, key: Any, start: str, finish: str, *arguments: Any, **details: Any) -> None:
        if start == "queued" or finish == "queued":
            self._soon()

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        if client == self.client:
            self._end()

    def valid_workers_downscaling(self, scheduler: Scheduler, workers: list[WorkerState]) -> list[WorkerState]:
        """Those without a task. Of equals Dask closes the last first: the one whose leaving costs all caches least."""
        costs = {state: self._coordinator.last_copy_bytes(state.address) for state in workers}
        spare = [state for state in workers if self._coordinator.is_idle(state.address)]
        return sorted(spare, key=costs.__getitem__, reverse=True)

    def wanted_workers(self, drain_s: float, guess_s: float) -> int:
        self._let_leave()
        return self._coordinator.wanted_workers(drain_s, guess_s)

    def _end(self) -> None:
        """Workers end their runners; what they still say is not heard."""
        if self._is_ended:
            return
        self._is_ended = True
        if self._alarm is not None:
            self._alarm.cancel()
        for address in self._known_workers:
            self._send_to_worker(address, orders=None)
        self._scheduler.plugins.pop(self.name, None)
        Demand.of(self._scheduler).leave(self.wanted_workers)
        # Runners that come only now are sent away; and Dask closes a worker's stream over a message without a handler.
        self._scheduler.stream_handlers[self.name] = partial(_dismiss, self._scheduler, self.name)

    # Messages.

    def _on_message(self, worker: str | None = None, client: str | None = None, **message: Any) -> None:
        """From a worker or the client; Dask's streams do not survive an exception."""
        if self._is_ended:
            return
        try:
            self._take(worker, **message)
        except Exception:
            _log.exception("a message of a run of data diffusion was not understood")
            self._send_to_client({"error": "the coordinator failed; see the scheduler's log"})
        self._soon()

    def _take(self, worker: str | None, **message: Any) -> None:
        now_s = self._now_s()
        if worker is not None:
            if worker not in self._known_workers:
                self._known_workers.add(worker)
                self._send_to_worker(worker, queued=self._are_others_queued)
            if "runners" in message:
                self._send_to_client({"runners": message["runners"], "worker": worker})
                return
            self._coordinator.receive(now_s, worker, pickle.loads(message["reports"]), message["sent_s"])
        elif "end" in message:
            self._end()
        elif "keep" in message:
            self._coordinator.keep(message["digest"], message["keep"])
        elif "forget" in message:
            self._coordinator.forget(message["forget"])
        elif "cancel" in message:
            self._coordinator.cancel(now_s, message["cancel"])
        elif "tasks" in message:
            self._coordinator.submit(now_s, pickle.loads(message["tasks"]))

    def _soon(self) -> None:
        """Sends the messages that follow from all reports that came together."""
        if not self._is_due:
            self._is_due = True
            delay_s = max(0.0, self._delivered_s + _TICK_S - self._now_s())
            asyncio.get_running_loop().call_later(delay_s, self._deliver)

    def _deliver(self) -> None:
        self._is_due = False
        if self._is_ended:
            return
        self._delivered_s = self._now_s()
        self._let_leave()
        self._tell_of_queue()
        try:
            orders, updates = self._coordinator.collect(self._now_s())
        except Exception:
            _log.exception("the coordinator of a run of data diffusion failed")
            self._send_to_client({"error": "the coordinator failed; see the scheduler's log"})
            return
        for address, messages in orders.items():
            self._send_to_worker(address, orders=pickle.dumps(messages, protocol=5))
        self._updates += updates
        if self._updates and not self._are_updates_due:
            self._are_updates_due = True
            delay_s = max(0.0, self._updates_sent_s + _UPDATES_TICK_S - self._delivered_s)
            asyncio.get_running_loop().call_later(delay_s, self._deliver_updates)
        self._set_alarm()

    def _let_leave(self) -> None:
        """Workers that are to close get nothing more."""
        for address in list(self._known_workers):
            if self._is_leaving(address):
                self._known_workers.discard(address)
                self._leaving.add(address)
                self._coordinator.gone(self._now_s(), address, "retired", True)
                self._send_to_worker(address, orders=None)
                self._send_to_client({"lost": address})
        for address in [address for address in self._leaving if not self._is_leaving(address)]:
            self._leaving.discard(address)
            self._welcome(address, self._scheduler.workers[address].nthreads)

    def _tell_of_queue(self) -> None:
        are_queued = bool(self._scheduler.queued)
        if are_queued != self._are_others_queued:
            self._are_others_queued = are_queued
            for address in self._known_workers:
                self._send_to_worker(address, queued=are_queued)

    def _is_leaving(self, address: str) -> bool:
        state = self._scheduler.workers.get(address)
        return state is not None and state.status not in (Status.running, Status.paused)

    def _deliver_updates(self) -> None:
        self._are_updates_due = False
        self._updates_sent_s = self._now_s()
        updates, self._updates = self._updates, []
        if not self._is_ended:
            self._send_to_client({"updates": pickle.dumps(updates, protocol=5)})

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        wake_s = self._coordinator.next_wake_s()
        if wake_s is not None:
            delay_s = max(0.0, wake_s - self._now_s())
            self._alarm = asyncio.get_running_loop().call_later(delay_s, self._soon)

    def _welcome(self, address: str, slots: int) -> None:
        """The client sends runners there."""
        self._send_to_client({"joined": address, "slots": slots})

    def _send_to_worker(self, address: str, **message: Any) -> None:
        stream = self._scheduler.stream_comms.get(address)
        if stream is not None and not stream.closed():
            stream.send({"op": self.name, **message})

    def _send_to_client(self, message: dict[str, Any]) -> None:
        stream = self._scheduler.client_comms.get(self.client)
        if stream is not None and not stream.closed():
            stream.send({"op": self.name, "message": message})

    def _now_s(self) -> float:
        return time.monotonic() - self._began
