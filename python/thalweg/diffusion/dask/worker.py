"""Dask's side of a worker: runners, which are tasks in Dask's eyes and run ours one after another.

A runner has its slot while there is something to run: it leaves when there has been nothing for half a second, and for
a turn when others wait for the slot, other runs or Dask's own tasks. The agent stays, and asks for runners when it has
work again. One agent serves all runners of a worker process and speaks with the coordinator over the comm that Dask keeps between
worker and scheduler. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import pickle
import threading
import time
import weakref
from typing import Any

from distributed import Worker, get_worker
from distributed.core import Status
from distributed.diagnostics.plugin import WorkerPlugin

from thalweg.diffusion.cache.worker_cache import Tls, WorkerCache
from thalweg.diffusion.failure import Failure
from thalweg.diffusion.messages import Report
from thalweg.diffusion.options import Options
from thalweg.diffusion.worker.agent import Agent, Job
from thalweg.diffusion.worker.execution import Outcome, ProcessSlot, ThreadSlot
from thalweg.disk_cache.cache_dir_lock import CacheDirLock


def channel(run: str) -> str:
    """The name of the run's messages in Dask's streams."""
    return f"thalweg-diffusion-{run}"


def _ignore(**_: Any) -> None:
    """Drops messages after the end of a run: Dask closes the stream over a message without a handler."""


# Messages cost the scheduler more than what is in them: what can wait does so for others, this long.
_GATHER_S = 0.05
# How often a runner that has nothing to do looks whether its worker is to close; and when it leaves its slot, also to others
# that wait for it: not at once, as the next task may be on its way.
_POLL_S = 0.05
_IDLE_TIMEOUT_S = 0.5
_SHARED_IDLE_TIMEOUT_S = 0.1
# A runner has its slot for so long before it makes room for others.
_TURN_S = 0.5


def _host(address: str) -> str:
    """Where peers find this worker. Workers that are threads of one process (`inproc`) have no address of a machine."""
    scheme, _, rest = address.rpartition("://")
    return "127.0.0.1" if scheme == "inproc" else rest.rsplit(":", 1)[0].strip("[]")


def _tls(worker: Worker) -> Tls | None:
    """The protocol that Dask's workers use with each other."""
    if not worker.address.startswith("tls://"):
        return None
    server = worker.security.get_listen_args("worker")["ssl_context"]
    return Tls(server, worker.security.get_connection_args("worker")["ssl_context"])


class DaskAgent:
    """An agent in a Dask worker, and how many runners it still has."""

    def __init__(self, worker: Worker, options: Options, slots: int) -> None:
        self._worker = worker
        self._channel = channel(options.run)
        self._slots = slots
        base = options.cache_folder or os.path.join(os.path.dirname(worker.local_directory), "thalweg-cache")
        self._cache_dir = CacheDirLock(base)
        host = _host(worker.address)
        cache = WorkerCache(
            self._cache_dir.folder,
            options.cache_bytes,
            token=options.token,
            serve=host,
            peer_bytes_per_s=options.peer_bytes_per_s,
            storage_options=options.storage_options,
            stall_timeout_s=options.store_stall_timeout_s,
            tls=_tls(worker),
        )
        self.agent = Agent(cache, options, self._send, os.path.join(self._cache_dir.folder, "scratch"))
        self._values = self.agent.values
        self._timeout_s = options.timeout_s
        # Those that are here, and those that were asked for; not more than Dask has threads for.
        self._runners = 0
        self._max_runners = min(slots, worker.state.nthreads)
        self._coming = self._max_runners
        self._spare: list[ThreadSlot | ProcessSlot] = []
        # Dask's scheduler holds tasks back until a thread is free; and until when runners leave theirs to these.
        self._are_others_queued = False
        self._gives_way_until = 0.0
        # Its last runner has gone, and closes it.
        self.is_left = False
        self._mutex = threading.Lock()
        self._unsent: list[Report] = []
        # The event loop knows that there is something to send.
        self._is_send_due = False

    def join(self) -> None:
        self.agent.on_ready = self._ask_for_runners
        self._worker.plugins[self._channel] = _Teardown(self)
        self._worker.stream_handlers[self._channel] = self._receive
        self._send([self.agent.hello(self._slots)], False)

    def runner_started(self) -> ThreadSlot | ProcessSlot:
        """The processes it runs tasks in: from a runner that has left, with all that is loaded there."""
        with self._mutex:
            self._runners += 1
            self._coming = max(0, self._coming - 1)
            if self._spare:
                return self._spare.pop()
        return ThreadSlot(self._values) if self._timeout_s is None else ProcessSlot(self._values, self._timeout_s)

    def runner_ended(self, slot: ThreadSlot | ProcessSlot, is_turn_over: bool) -> None:
        """At the end of its turn there is more to run, for which others go first."""
        with self._mutex:
            self._runners -= 1
            self._spare.append(slot)
            gives_way = is_turn_over and self._are_others_queued
            if gives_way:
                self._gives_way_until = time.monotonic() + _TURN_S
        if gives_way:
            self._worker.loop.add_callback(self._worker.loop.call_later, _TURN_S + _GATHER_S, self._ask_for_runners)
        else:
            self._ask_for_runners()

    @property
    def has_runners(self) -> bool:
        return self._runners > 0

    def _ask_for_runners(self) -> None:
        """As many as there are jobs for."""
        runnable = min(self.agent.runnable(), self._max_runners)
        with self._mutex:
            count = runnable - self._runners - self._coming
            if count <= 0 or self.agent.is_closed or time.monotonic() < self._gives_way_until:
                return
            self._coming += count
        self._worker.loop.add_callback(self._send_message, {"runners": count})

    def _send_message(self, message: dict[str, Any]) -> None:
        stream = self._worker.batched_stream
        if stream is not None and not stream.closed():
            stream.send({"op": self._channel, **message})

    def others_wait(self) -> bool:
        """Whether Dask has tasks for this worker's threads that are not this run's runners."""
        try:
            return self._are_others_queued or any(
                not str(task.key).startswith(self._channel) for task in self._worker.state.ready
            )
        except RuntimeError:
            # They changed meanwhile: there are some.
            return True

    def close(self) -> None:
        self.agent.close()
        with self._mutex:
            spare, self._spare = self._spare, []
        for slot in spare:
            slot.close()
        self._cache_dir.release()
        self._worker.stream_handlers[self._channel] = _ignore
        self._worker.plugins.pop(self._channel, None)

    def _receive(self, orders: bytes | None = b"", queued: bool | None = None) -> None:
        """In the worker's event loop."""
        if queued is not None:
            self._hear_of_queue(queued)
        elif orders is None:
            self.agent.close()
            _close_if_left(self._worker, self)
        elif orders:
            self.agent.receive(pickle.loads(orders))

    def _hear_of_queue(self, are_queued: bool) -> None:
        with self._mutex:
            self._are_others_queued = are_queued
            self._gives_way_until = self._gives_way_until if are_queued else 0.0
        if not are_queued:
            self._ask_for_runners()

    def _send(self, reports: list[Report], can_wait: bool) -> None:
        with self._mutex:
            self._unsent += reports
            is_send_due, self._is_send_due = self._is_send_due, True
        if not can_wait:
            self._worker.loop.add_callback(self._send_all)
        elif not is_send_due:
            self._worker.loop.add_callback(self._send_later)

    def _send_later(self) -> None:
        self._worker.loop.call_later(_GATHER_S, self._send_all)

    def _send_all(self) -> None:
        with self._mutex:
            reports, self._unsent = self._unsent, []
            self._is_send_due = False
        if reports:
            self._send_message({"reports": pickle.dumps(reports, protocol=5), "sent_s": time.monotonic()})


class _Teardown(WorkerPlugin):
    """Dask closes the worker."""

    def __init__(self, dask_agent: DaskAgent) -> None:
        self._dask_agent = dask_agent

    def teardown(self, worker: Worker) -> None:
        self._dask_agent.agent.close()
        _close_if_left(worker, self._dask_agent)


_mutex = threading.Lock()
_dask_agents: weakref.WeakKeyDictionary[Worker, dict[str, DaskAgent]] = weakref.WeakKeyDictionary()
# Making an agent waits for its disk, and not with the mutex: Dask's event loop takes that.
_openings: weakref.WeakKeyDictionary[Worker, threading.Lock] = weakref.WeakKeyDictionary()


def _dask_agent(worker: Worker, options: Options, slots: int) -> tuple[DaskAgent, ThreadSlot | ProcessSlot]:
    with _mutex:
        opening = _openings.setdefault(worker, threading.Lock())
    with opening:
        with _mutex:
            dask_agent = _dask_agents.setdefault(worker, {}).get(options.run)
            if dask_agent is not None and not dask_agent.agent.is_closed:
                return dask_agent, dask_agent.runner_started()
        dask_agent = DaskAgent(worker, options, slots)
        with _mutex:
            _dask_agents[worker][options.run] = dask_agent
            dask_agent.join()
            return dask_agent, dask_agent.runner_started()


def _close_if_left(worker: Worker, dask_agent: DaskAgent) -> None:
    """After the end of a run, with its last runner."""
    with _mutex:
        if dask_agent.has_runners or not dask_agent.agent.is_closed or dask_agent.is_left:
            return
        # Two runners that end together both find that there are no others.
        dask_agent.is_left = True
        dask_agents = _dask_agents.get(worker, {})
        for run in [run for run, other in dask_agents.items() if other is dask_agent]:
            del dask_agents[run]
    dask_agent.close()


def _outcome(slot: ThreadSlot | ProcessSlot, job: Job) -> Outcome:
    """Other workers may have what this one misses to start a process."""
    try:
        return slot.run(job.calling())
    except Exception as error:
        return Outcome(None, Failure.of(error, died=True))


def runner(options: Options, slots: int) -> None:
    """A task of Dask's: has a slot while there is something to run and it is this run's turn."""
    worker: Any = get_worker()
    dask_agent, slot = _dask_agent(worker, options, slots)
    begun = idle_since = time.monotonic()
    is_turn_over = False
    try:
        while not dask_agent.agent.is_closed and worker.status == Status.running:
            job = dask_agent.agent.take(_POLL_S)
            now = time.monotonic()
            if job is not None:
                dask_agent.agent.finish(job, _outcome(slot, job))
                now = idle_since = time.monotonic()
                is_turn_over = now - begun > _TURN_S and dask_agent.others_wait()
                if is_turn_over:
                    return
            elif now - idle_since > (_SHARED_IDLE_TIMEOUT_S if dask_agent.others_wait() else _IDLE_TIMEOUT_S):
                return
    finally:
        dask_agent.runner_ended(slot, is_turn_over)
        _close_if_left(worker, dask_agent)
