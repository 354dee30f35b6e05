"""`Diffusion`: what users hold of a run. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import itertools
import os
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Future
from typing import Any

import cloudpickle

from thalweg.cache import parse_bytes
from thalweg.diffusion.arguments import Call, label
from thalweg.diffusion.backend import Backend
from thalweg.diffusion.failure import Failure
from thalweg.diffusion.journal import Journal
from thalweg.diffusion.local import Local
from thalweg.diffusion.messages import Event, Failed, News, Result, Task, Tasks
from thalweg.diffusion.options import Options, at_least, positive
from thalweg.diffusion.record import Record
from thalweg.diffusion.results import Results, TaskResult

# Tasks in a message; in the first one few, that somebody begins while the others are made ready.
_CHUNK = 2000
_FIRST_CHUNK = 100
# Tasks of arguments that come one by one, submitted before the first of them has ended.
_LOOK_AHEAD = 10_000
_MB = 10**6


class RunLost(ConnectionError):
    """The coordinator is gone, with Dask's scheduler or by a fault of ours; a new start with the same run folder goes
    on where this one ended."""


class _Waiter:
    """Where a task's result goes, and its name in the journal."""

    __slots__ = ("sink", "index", "arguments", "name")

    def __init__(self, sink: Results | Future[Any], index: int, arguments: Any, name: bytes | None) -> None:
        self.sink = sink
        self.index = index
        self.arguments = arguments
        self.name = name

    def resolve(self, attempts: int, pickled: bytes | None, failure: Failure | None) -> None:
        result = TaskResult(self.index, self.arguments, attempts, pickled, failure)
        if isinstance(self.sink, Results):
            self.sink.put(result)
        elif failure is not None:
            self.sink.set_exception(failure.exception())
        else:
            try:
                self.sink.set_result(result.value)
            except Exception as error:
                self.sink.set_exception(error)

    def abandon(self, error: BaseException) -> None:
        if isinstance(self.sink, Results):
            self.sink.put(error)
        elif not self.sink.done():
            self.sink.set_exception(error)


class Diffusion:
    """Runs tasks where their input already lies.

    Parameters
    ----------
    cluster:
        A Dask client or cluster, or a scheduler's address; without one, processes of this machine.
    cache:
        What each worker keeps of inputs at most, as in `20 GB`.
    policy:
        `thalweg`, or one of the source's: `fa`, `mch`, `mcu`, `gcc`.
    eviction:
        What leaves a full cache: `lru`, `lfu`, `fifo`, `random` (drawn from `seed`) or `size-aware`.
    workers:
        Processes, without a cluster; as many as there are cores by default.
    slots:
        Tasks at once on each Dask worker; its threads by default.
    run_folder:
        Holds the journal, the events and the report. A run that is started again there skips what is done.
    timeout_s:
        A task that takes longer is ended, with its process (which each slot gets for this on Dask, too), and fails.
    retries:
        How often a task that failed runs again. One whose worker or process died runs again anyway.
    peer_mb_s:
        MB a second that a worker serves its peers at most.
    store_mb_s:
        What the store gives to all together, if that is known: no more readers than it bears.
    storage_options:
        fsspec's, for all URLs.
    store_patience_s:
        How long a store that fails is asked again before tasks fail with `StoreGone`. One that says nothing for half of
        that has failed.
    cache_folder:
        Where the caches are, on each machine.
    progress:
        A progress bar on standard error.
    page:
        A live page of the run: `True`, or its port.
    """

    def __init__(
        self,
        cluster: Any = None,
        *,
        cache: int | str = "20 GB",
        policy: str = "thalweg",
        eviction: str = "lru",
        workers: int | None = None,
        slots: int | None = None,
        run_folder: str | os.PathLike[str] | None = None,
        timeout_s: float | None = None,
        retries: int = 0,
        seed: int = 0,
        peer_mb_s: float | None = None,
        store_mb_s: float | None = None,
        storage_options: dict[str, Any] | None = None,
        store_patience_s: float = 60.0,
        cache_folder: str | os.PathLike[str] | None = None,
        progress: bool = False,
        page: bool | int = False,
    ) -> None:
        at_least("workers", workers, 1)
        positive("store_patience_s", store_patience_s)
        peer_rate, store_rate = positive("peer_mb_s", peer_mb_s), positive("store_mb_s", store_mb_s)
        self._options = Options(
            cache_bytes=parse_bytes(cache),
            policy=policy,
            eviction=eviction,
            slots=at_least("slots", slots, 1),
            timeout_s=positive("timeout_s", timeout_s),
            retries=at_least("retries", retries, 0) or 0,
            seed=seed,
            peer_bytes_per_s=None if peer_rate is None else max(1, int(peer_rate * _MB)),
            store_bytes_per_s=None if store_rate is None else store_rate * _MB,
            storage_options=dict(storage_options or {}),
            store_patience_s=store_patience_s,
            store_silence_s=store_patience_s / 2,
            cache_folder=None if cache_folder is None else os.path.abspath(cache_folder),
        )
        self._turn = threading.Condition()
        self._waiters: dict[int, _Waiter] = {}
        self._functions: dict[int, tuple[int, Callable[..., Any]]] = {}
        self._repeats: dict[bytes, int] = {}
        self._numbers = itertools.count()
        self._lost: BaseException | None = None
        self._is_closed = False
        self._journal = None if run_folder is None else Journal(run_folder)
        self._record = Record(run_folder, self._options, progress=progress, page=page)
        try:
            self._backend = self._begin(cluster, workers)
        except BaseException:
            self._end_folder()
            raise

    def _begin(self, cluster: Any, workers: int | None) -> Backend:
        if cluster is None:
            return Local(self._options, workers, self._hear, self._mourn)
        from thalweg.diffusion.dask_client import OnDask

        return OnDask(cluster, self._options, self._hear, self._mourn)

    @property
    def page(self) -> str:
        """Where the live page is, "" without one."""
        return self._record.page

    def map(
        self, function: Callable[..., Any], arguments: Iterable[Any], *, ordered: bool = False, **keywords: Any
    ) -> Results:
        """Runs `function` with each of `arguments`, a tuple or a single one, and gives results as they come.

        All of a list is submitted at once and ordered so that neighbours share input; an iterator is read as tasks end.
        """
        number = self._function(function)
        name = label(function)
        numbered = enumerate(arguments)
        if isinstance(arguments, Sized):
            results = Results(self._check, ordered, None)
            self._submit(results, number, name, numbered, keywords)
            return results

        def feed(results: Results) -> bool:
            wanted = min(_CHUNK, _LOOK_AHEAD - results.outstanding)
            if wanted < min(_CHUNK, _LOOK_AHEAD // 10) and results.outstanding:
                return True
            before = results.submitted
            self._submit(results, number, name, itertools.islice(numbered, wanted), keywords)
            return results.submitted > before

        return Results(self._check, ordered, feed)

    def submit(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Future[Any]:
        """One task."""
        number = self._function(function)
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self._submit(future, number, label(function), iter([(0, arguments)]), keywords)
        return future

    def _submit(
        self,
        sink: Results | Future[Any],
        function: int,
        name: str,
        numbered: Iterator[tuple[int, Any]],
        keywords: dict[str, Any],
    ) -> None:
        self._check()
        chunk: list[Task] = []
        limit = _FIRST_CHUNK
        for index, one in numbered:
            if isinstance(sink, Results):
                sink.submitted += 1
            call = Call.of(one if isinstance(one, tuple) else (one,), keywords)
            task = self._enter(_Waiter(sink, index, one, self._name(call, name)), call, function, name)
            if task is None:
                continue
            if len(chunk) == limit:
                self._backend.submit(Tasks(chunk, False))
                chunk = []
                limit = min(2 * limit, _CHUNK)
            chunk.append(task)
        if chunk:
            self._backend.submit(Tasks(chunk, True))

    def _enter(self, waiter: _Waiter, call: Call, function: int, name: str) -> Task | None:
        """Nothing is to be done for what the journal has."""
        result = self._journal.result(waiter.name) if self._journal is not None and waiter.name is not None else None
        if result is not None:
            waiter.resolve(0, result, None)
            return None
        number = next(self._numbers)
        with self._turn:
            self._waiters[number] = waiter
        return Task(number, function, name, call.payload, call.inputs, call.outputs)

    def _name(self, call: Call, function: str) -> bytes | None:
        """Of equal calls, the first, the second, … of a run are the same ones when it is started again."""
        if self._journal is None:
            return None
        name = call.name(function)
        repeat = self._repeats.get(name, 0)
        self._repeats[name] = repeat + 1
        return name + struct.pack("<I", repeat)

    def _function(self, function: Callable[..., Any]) -> int:
        self._check()
        known = self._functions.get(id(function))
        if known is None:
            known = self._functions[id(function)] = (len(self._functions), function)
            self._backend.function(known[0], cloudpickle.dumps(function, protocol=5))
        return known[0]

    # From the back-end, in its thread.

    def _hear(self, news: list[News]) -> None:
        done: list[tuple[bytes, bytes]] = []
        ended: list[tuple[_Waiter, Result | Failed]] = []
        for one in news:
            if isinstance(one, Event):
                self._record.event(one)
                continue
            with self._turn:
                waiter = self._waiters.pop(one.number, None)
            if waiter is not None:
                ended.append((waiter, one))
                if isinstance(one, Result) and waiter.name is not None:
                    done.append((waiter.name, one.result))
        if self._journal is not None and done:
            self._journal.write(done)
        for waiter, one in ended:
            if isinstance(one, Result):
                waiter.resolve(one.attempts, one.result, None)
            else:
                waiter.resolve(one.attempts, None, one.failure)
        with self._turn:
            self._turn.notify_all()

    def _mourn(self, error: BaseException) -> None:
        with self._turn:
            self._lost = RunLost(f"the run ended early: {error}")
            self._lost.__cause__ = error
            waiters, self._waiters = list(self._waiters.values()), {}
            self._turn.notify_all()
        for waiter in waiters:
            waiter.abandon(self._lost)

    def _check(self) -> None:
        """Raises if nobody is there to run anything any more."""
        if self._is_closed:
            raise RuntimeError("this run has ended")
        if self._lost is None:
            self._backend.check()
        if self._lost is not None:
            raise self._lost

    # The end.

    def wait(self) -> None:
        """Until all that was submitted has ended, well or not."""
        while True:
            with self._turn:
                if self._turn.wait_for(lambda: not self._waiters, timeout=1.0):
                    return
            self._check()

    def close(self) -> None:
        """What has not ended is given up."""
        if self._is_closed:
            return
        self._is_closed = True
        self._backend.close()
        with self._turn:
            waiters, self._waiters = list(self._waiters.values()), {}
        for waiter in waiters:
            waiter.abandon(RuntimeError("the run was closed before this task ended"))
        self._end_folder()

    def _end_folder(self) -> None:
        self._record.close()
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> Diffusion:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None and self._lost is None:
                self.wait()
        finally:
            self.close()
