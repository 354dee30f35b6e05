"""Dask's side of a worker: agents, which are tasks in Dask's eyes and run ours one after another.

An agent has its slot while there is something to run: it leaves when there has been nothing for half a second, and for
a turn when others wait for the slot, other runs or Dask's own tasks. The station stays, and asks for agents when it has
work again. One station serves all agents of a worker process and speaks with the coordinator over the comm that Dask keeps between
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

from thalweg.diffusion.berth import Berth
from thalweg.diffusion.execution import ProcessSlot, ThreadSlot
from thalweg.diffusion.messages import Report
from thalweg.diffusion.options import Options
from thalweg.diffusion.shelf import Shelf, Tls
from thalweg.diffusion.station import Station


def channel(run: str) -> str:
    """The name of the run's messages in Dask's streams."""
    return f"thalweg-diffusion-{run}"


def _unheard(**_: Any) -> None:
    """What comes after the end of a run: Dask closes the stream over a message that nobody takes."""


# Messages cost the scheduler more than what is in them: what can wait does so for others, this long.
_GATHER_S = 0.05
# How often an agent that has nothing to do looks whether its worker is to close; and when it leaves its slot.
_LOOK_S = 0.25
_IDLE_S = 0.5
# An agent has its slot for so long before it makes room for others.
_TURN_S = 0.5


def _host(address: str) -> str:
    """Where peers find this worker. Workers that are threads of one process (`inproc`) have no address of a machine."""
    scheme, _, rest = address.rpartition("://")
    return "127.0.0.1" if scheme == "inproc" else rest.rsplit(":", 1)[0].strip("[]")


def _tls(worker: Worker) -> Tls | None:
    """What Dask's workers speak with each other."""
    if not worker.address.startswith("tls://"):
        return None
    server = worker.security.get_listen_args("worker")["ssl_context"]
    return Tls(server, worker.security.get_connection_args("worker")["ssl_context"])


class Post:
    """A station in a Dask worker, and how many agents it still has."""

    def __init__(self, worker: Worker, options: Options, slots: int) -> None:
        self._worker = worker
        self._channel = channel(options.run)
        self._slots = slots
        base = options.cache_folder or os.path.join(os.path.dirname(worker.local_directory), "thalweg-cache")
        self._berth = Berth(base)
        host = _host(worker.address)
        shelf = Shelf(
            self._berth.folder,
            options.cache_bytes,
            token=options.token,
            serve=host,
            peer_bytes_per_s=options.peer_bytes_per_s,
            storage_options=options.storage_options,
            silence_s=options.store_silence_s,
            tls=_tls(worker),
        )
        self.station = Station(shelf, options, self._send, os.path.join(self._berth.folder, "scratch"))
        self._values = self.station.values
        self._timeout_s = options.timeout_s
        # Those that are here, and those that were asked for; not more than Dask has threads for.
        self._agents = 0
        self._max_agents = min(slots, worker.state.nthreads)
        self._coming = self._max_agents
        self._spare: list[ThreadSlot | ProcessSlot] = []
        self._turn = threading.Lock()
        self._unsent: list[Report] = []
        # The event loop knows that there is something to send.
        self._is_told = False

    def join(self) -> None:
        self.station.on_ready = self._ask_for_agents
        self._worker.plugins[self._channel] = _Teardown(self)
        self._worker.stream_handlers[self._channel] = self._receive
        self._send([self.station.hello(self._slots)], False)

    def agent_came(self) -> ThreadSlot | ProcessSlot:
        """What it runs tasks in: from one that has left, with all that is loaded there."""
        with self._turn:
            self._agents += 1
            self._coming = max(0, self._coming - 1)
            if self._spare:
                return self._spare.pop()
        return ThreadSlot(self._values) if self._timeout_s is None else ProcessSlot(self._values, self._timeout_s)

    def agent_left(self, slot: ThreadSlot | ProcessSlot) -> None:
        with self._turn:
            self._agents -= 1
            self._spare.append(slot)
        self._ask_for_agents()

    @property
    def has_agents(self) -> bool:
        return self._agents > 0

    def _ask_for_agents(self) -> None:
        """As many as there are jobs for."""
        runnable = min(self.station.runnable(), self._max_agents)
        with self._turn:
            count = runnable - self._agents - self._coming
            if count <= 0 or self.station.is_closed:
                return
            self._coming += count
        self._worker.loop.add_callback(self._send_message, {"agents": count})

    def _send_message(self, message: dict[str, Any]) -> None:
        stream = self._worker.batched_stream
        if stream is not None and not stream.closed():
            stream.send({"op": self._channel, **message})

    def others_wait(self) -> bool:
        """Whether Dask has tasks for this worker's threads that are not this run's agents."""
        try:
            return any(not str(task.key).startswith(self._channel) for task in self._worker.state.ready)
        except RuntimeError:
            # They changed meanwhile: there are some.
            return True

    def close(self) -> None:
        self.station.close()
        with self._turn:
            spare, self._spare = self._spare, []
        for slot in spare:
            slot.close()
        self._berth.leave()
        self._worker.stream_handlers[self._channel] = _unheard
        self._worker.plugins.pop(self._channel, None)

    def _receive(self, orders: bytes | None) -> None:
        """In the worker's event loop."""
        if orders is None:
            self.station.close()
            _close_if_left(self._worker, self)
        else:
            self.station.receive(pickle.loads(orders))

    def _send(self, reports: list[Report], can_wait: bool) -> None:
        with self._turn:
            self._unsent += reports
            is_told, self._is_told = self._is_told, True
        if not can_wait:
            self._worker.loop.add_callback(self._send_all)
        elif not is_told:
            self._worker.loop.add_callback(self._send_later)

    def _send_later(self) -> None:
        self._worker.loop.call_later(_GATHER_S, self._send_all)

    def _send_all(self) -> None:
        with self._turn:
            reports, self._unsent = self._unsent, []
            self._is_told = False
        if reports:
            self._send_message({"reports": pickle.dumps(reports, protocol=5), "sent_s": time.monotonic()})


class _Teardown(WorkerPlugin):
    """Dask closes the worker."""

    def __init__(self, post: Post) -> None:
        self._post = post

    def teardown(self, worker: Worker) -> None:
        self._post.station.close()
        _close_if_left(worker, self._post)


_turn = threading.Lock()
_posts: weakref.WeakKeyDictionary[Worker, dict[str, Post]] = weakref.WeakKeyDictionary()


def _post(worker: Worker, options: Options, slots: int) -> tuple[Post, ThreadSlot | ProcessSlot]:
    with _turn:
        posts = _posts.setdefault(worker, {})
        post = posts.get(options.run)
        if post is None or post.station.is_closed:
            post = posts[options.run] = Post(worker, options, slots)
            post.join()
        return post, post.agent_came()


def _close_if_left(worker: Worker, post: Post) -> None:
    """After the end of a run, with its last agent."""
    with _turn:
        if post.has_agents or not post.station.is_closed:
            return
        posts = _posts.get(worker, {})
        for run in [run for run, other in posts.items() if other is post]:
            del posts[run]
    post.close()


def agent(options: Options, slots: int) -> None:
    """A task of Dask's: has a slot while there is something to run and it is this run's turn."""
    worker: Any = get_worker()
    post, slot = _post(worker, options, slots)
    begun = idle_since = time.monotonic()
    try:
        while not post.station.is_closed and worker.status == Status.running:
            job = post.station.take(_LOOK_S)
            now = time.monotonic()
            if job is not None:
                post.station.finish(job, slot.run(job.calling()))
                now = idle_since = time.monotonic()
            elif now - idle_since > _IDLE_S:
                return
            if now - begun > _TURN_S and post.others_wait():
                return
    finally:
        post.agent_left(slot)
        _close_if_left(worker, post)
