"""`Diffusion`: what users hold of a run. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, KeysView, Sized, ValuesView
from functools import partial
from typing import Any, TypeVar

from thalweg.diffusion.after_collection import when_collected
from thalweg.diffusion.backend import Backend, LossHandler, UpdateHandler
from thalweg.diffusion.calls import Apart, packed
from thalweg.diffusion.futures import Scattered, TaskFuture
from thalweg.diffusion.journal import Journal
from thalweg.diffusion.options import Options, at_least, positive
from thalweg.diffusion.report.record import Record
from thalweg.diffusion.results import Results, Sink
from thalweg.diffusion.run import Calls, Run
from thalweg.diffusion.worker.local import Local
from thalweg.disk_cache.limit import parse_bytes
from thalweg.error_code import misuse

_MB = 10**6
# Iterables whose elements are there all along: an element is one value, however often it comes.
_HOLDERS = (list, tuple, range, dict, set, frozenset, KeysView, ValuesView, itertools.repeat)


T = TypeVar("T")


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
        Processes, without a cluster; as many as there are cores that may be used by default.
    slots:
        Tasks at once on each Dask worker; its threads by default.
    run_folder:
        Holds the journal, the events and the report. A run that is started again there skips what is done.
    version:
        With another one, calls that the journal has run again: for changes that the journal cannot notice.
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
    store_timeout_s:
        How long a store that fails is asked again before tasks fail with `StoreGone`. One that says nothing for half of
        that has failed.
    cache_folder:
        Where the caches are, on each machine: by default `thalweg/diffusion` in the user's cache directory
        (`$XDG_CACHE_HOME` or `~/.cache`), on Dask beside the worker's own directory. A local disk is best.
    progress:
        A progress bar on standard error.
    page:
        A live page of the run: `True`, or its port.

    Examples
    --------
    >>> from thalweg.diffusion import Diffusion, File
    >>> with Diffusion(cache="1 GB", workers=2) as d:
    ...     for r in d.map(os.path.isfile, [File("/etc/hosts"), File("/etc/passwd")]).in_order():
    ...         print(r.index, r.value)
    0 True
    1 True
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
        version: str = "",
        timeout_s: float | None = None,
        retries: int = 0,
        seed: int = 0,
        peer_mb_s: float | None = None,
        store_mb_s: float | None = None,
        storage_options: dict[str, Any] | None = None,
        store_timeout_s: float = 60.0,
        cache_folder: str | os.PathLike[str] | None = None,
        progress: bool = False,
        page: bool | int = False,
    ) -> None:
        at_least("workers", workers, 1)
        if cluster is not None and workers is not None:
            raise misuse(ValueError, "workers is for processes of this machine; a cluster has its own")
        positive("store_timeout_s", store_timeout_s)
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
            store_timeout_s=store_timeout_s,
            store_stall_timeout_s=store_timeout_s / 2,
            cache_folder=None if cache_folder is None else os.path.abspath(cache_folder),
            version=version,
            is_journaled=run_folder is not None,
            is_watched=run_folder is not None or page is not False,
        )
        self._folder = None if run_folder is None else os.fspath(run_folder)
        journal = None if run_folder is None else Journal(run_folder)
        self._record = Record(run_folder, self._options, progress=progress, page=page)
        try:
            self._run = Run(self._options, self._record, journal, partial(_begin, cluster, self._options, workers))
        except BaseException:
            self._record.close()
            if journal is not None:
                journal.close()
            raise
        self._closing = when_collected(self, self._run.close, at_exit=True)

    @property
    def page(self) -> str:
        """Where the live page is, "" without one."""
        return self._record.page

    def map(self, function: Callable[..., Any], /, *iterables: Iterable[Any], **keywords: Any) -> Results:
        """Runs `function` with each of the arguments, and gives results as they come.

        Parameters
        ----------
        function:
            It and what it captured are taken as they are now.
        *iterables:
            One: each of its elements is the argument, or, if it is a tuple, the arguments. Several: one argument of
            each, until the shortest ends. Lists are submitted at once, ordered so that neighbours share input;
            iterators are read in the background, some way ahead of the tasks that end.
        **keywords:
            The same for all.

        Returns
        -------
        Results
            As they come; `in_order()` gives them in the order of the arguments. When they are dropped before the last
            was read (`break`, `del`), tasks without outputs are cancelled, and no more arguments are read. Results
            that are dropped before the first was read are not wanted at all: their tasks run for what they do.

        Examples
        --------
        >>> with Diffusion(workers=2) as d:
        ...     print(sum(r.value for r in d.map(pow, range(10), [2] * 10)))
        285
        """
        run, sink = self._run, Sink()
        if not iterables:
            raise misuse(TypeError, "map needs at least one iterable of arguments")
        for one in iterables:
            _check_iterable(one)
        length = min(map(len, iterables)) if all(isinstance(one, Sized) for one in iterables) else None  # type: ignore[arg-type]
        is_held = tuple(isinstance(one, _HOLDERS) for one in iterables)
        calls = Calls(sink, run.function(function), dict(keywords), Apart(), is_held)
        # Large keywords are pickled once.
        packed((), calls.keywords, calls.apart)
        results = Results(self, sink, run.check, run.cancel, run.leave, length)
        numbered = _numbered(iterables)
        if length is None:
            run.feed(calls, numbered)
        else:
            run.map(calls, numbered)
        return results

    def submit(self, function: Callable[..., T], /, *arguments: Any, **keywords: Any) -> TaskFuture[T]:
        """Runs one task.

        Parameters
        ----------
        function:
            It and what it captured are taken as they are now.
        *arguments, **keywords:
            Also futures of other tasks of this run, which stand for their results. Dask's are refused.

        Returns
        -------
        TaskFuture
            A `concurrent.futures.Future` that coroutines can await, too.

        Examples
        --------
        >>> with Diffusion(workers=2) as d:
        ...     four = d.submit(pow, 2, 2)
        ...     print(d.submit(pow, four, 2).result())
        16
        """
        run = self._run
        future: TaskFuture[T] = TaskFuture(self, run.cancel)
        run.submit(future, run.function(function), arguments, keywords)
        return future

    def scatter(self, value: Any) -> Scattered:
        """Sends a value to each worker once, for the tasks that get it as an argument.

        What is large and equal in several tasks travels once anyway; a scattered value is also pickled only once, and
        the tasks of one slot have the same object, which they must not change.

        Examples
        --------
        >>> with Diffusion(workers=2) as d:
        ...     table = d.scatter({number: number**2 for number in range(1000)})
        ...     print(d.submit(len, table).result())
        1000
        """
        return self._run.scatter(value)

    def wait(self) -> None:
        """Waits until all that was submitted has ended, well or not.

        Raises what an iterator of arguments raised, if the program has not read the results up to there.

        Examples
        --------
        >>> with Diffusion(workers=2) as d:
        ...     results = d.map(pow, range(10), range(10))
        ...     d.wait()
        """
        self._run.wait()

    def close(self) -> None:
        """Ends the run; what has not ended is given up.

        Examples
        --------
        >>> d = Diffusion(workers=2)
        >>> d.close()
        """
        self._closing.detach()
        self._run.close()

    def __repr__(self) -> str:
        state = "closed" if self._run.is_closed else "lost" if self._run.is_lost else "running"
        folder = "" if self._folder is None else f", run_folder={self._folder!r}"
        return f"<Diffusion {self._options.run}: {state}{folder}>"

    def __reduce__(self) -> Any:
        raise misuse(TypeError, "a Diffusion cannot be sent to tasks: they cannot submit others")

    def __enter__(self) -> Diffusion:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None and not self._run.is_lost and not self._run.is_closed:
                self._run.wait(is_end=True)
        finally:
            self.close()


def _begin(
    cluster: Any, options: Options, workers: int | None, on_updates: UpdateHandler, on_lost: LossHandler
) -> Backend:
    if cluster is None:
        return Local(options, workers, on_updates, on_lost)
    from thalweg.diffusion.dask.client import OnDask

    return OnDask(cluster, options, on_updates, on_lost)


def _check_iterable(value: Any) -> None:
    try:
        iter(value)
    except TypeError:
        raise misuse(
            TypeError, f"map takes iterables of arguments, which {value!r} is not; submit takes arguments"
        ) from None


def _numbered(iterables: tuple[Iterable[Any], ...]) -> Iterator[tuple[int, tuple[Any, ...], Any]]:
    """Each call's place, its arguments, and what they are for who reads results."""
    if len(iterables) > 1:
        for index, arguments in enumerate(zip(*iterables)):
            yield index, arguments, arguments
        return
    for index, one in enumerate(iterables[0]):
        # Named tuples are values.
        yield index, one if type(one) is tuple else (one,), one
