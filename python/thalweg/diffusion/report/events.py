"""Events of a run, one JSON object a line: the source of the report, the live page and the progress bar.

`t` is seconds since the run began, by the clock of who writes; durations are the workers'. A run that goes on after an
interruption writes another `run`. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable

from thalweg.diffusion.report.failure_groups import normalised
from thalweg.diffusion.report.markup import shortened

FILE = "events.jsonl"

# Lines are written when there are so many, or with the next one after so long.
_MAX_LINES = 1000
_FLUSH_INTERVAL_S = 1.0
# Longer texts lose their middle.
_MAX_TRACEBACK = 20_000
_MAX_ERROR = 1000
_MAX_NAME = 200
# Failures of one kind with their tracebacks, and kinds that are distinguished.
_MAX_TRACEBACKS = 3
_MAX_KINDS = 1000

Record = dict[str, Any]
Input = tuple[str, int]


class Events:
    """Appends to `events.jsonl` in the run folder, if there is one, and passes each record to the listeners."""

    def __init__(
        self, run_folder: str | os.PathLike[str] | None, listeners: Sequence[Callable[[Record], None]] = ()
    ) -> None:
        self._listeners = list(listeners)
        self._mutex = threading.Lock()
        self._lines: list[str] = []
        self._written_at = time.monotonic()
        # Tracebacks written, by the kind of failure.
        self._tracebacks: dict[str, int] = {}
        self._descriptor = -1 if run_folder is None else _open(os.fspath(run_folder))

    def run(self, began: float, policy: str, cache_bytes: int | None = None) -> None:
        """`began`: Unix time."""
        self._add(kind="run", t=0.0, began=began, policy=policy, cache_bytes=cache_bytes)

    def submitted(self, t: float, count: int) -> None:
        """Tasks joined the queue."""
        self._add(kind="submitted", t=t, count=count)

    def joined(self, t: float, worker: str, slots: int) -> None:
        self._add(kind="joined", t=t, worker=worker, slots=slots)

    def left(self, t: float, worker: str, why: str = "") -> None:
        self._add(kind="left", t=t, worker=worker, why=why)

    def usage(
        self,
        t: float,
        worker: str,
        seconds: float,
        cores: float,
        memory_bytes: int | None,
        running: int,
        longest: Iterable[Record] = (),
    ) -> None:
        """The usage of a worker's processes in the last `seconds`: processors on average, and memory now. `running` are its
        tasks, `longest` those of them that it runs longest."""
        used = {"seconds": round(seconds, 3), "cores": round(cores, 3), "memory_bytes": memory_bytes}
        self._add(kind="usage", t=t, worker=worker, **used, running=running, longest=list(longest))

    def done(
        self,
        t: float,
        worker: str,
        task: int | str,
        attempt: int,
        name: str,
        seconds: float,
        fetch_s: float,
        inputs: Iterable[Input],
        arguments: str = "",
    ) -> None:
        """An attempt that counts. It had the slot for `seconds`, of which it waited `fetch_s` for its inputs; these are
        pairs of where one came from ("local", "peer" or "store") and its bytes. `arguments` are a short text."""
        self._add(kind="done", **_spent(t, worker, task, attempt, name, seconds, fetch_s, inputs, arguments))

    def failed(
        self,
        t: float,
        worker: str,
        task: int | str,
        attempt: int,
        name: str,
        seconds: float,
        fetch_s: float,
        inputs: Iterable[Input],
        error: str,
        traceback: str,
        final: bool,
        arguments: str = "",
        was_done: bool = False,
    ) -> None:
        """An attempt that does not count; `final` when no other follows. `worker` is empty when none ran it. One that
        `was_done` could not write its outputs to where they belong."""
        record = _spent(t, worker, task, attempt, name, seconds, fetch_s, inputs, arguments)
        record.update(error=shortened(error, _MAX_ERROR), traceback=self._kept(error, traceback), final=final)
        if was_done:
            record["was_done"] = True
        self._add(kind="failed", **record)

    def cancelled(self, t: float, count: int) -> None:
        """Tasks left the queue without having run, or nothing comes of what they did."""
        self._add(kind="cancelled", t=t, count=count)

    def fetch_failed(self, t: float, worker: str, item_key: str, source: str, error: str) -> None:
        """A peer or the store did not give an item."""
        item, error = shortened(item_key, _MAX_ERROR), shortened(error, _MAX_ERROR)
        self._add(kind="fetch_failed", t=t, worker=worker, item=item, source=source, error=error)

    def ended(self, t: float) -> None:
        self._add(kind="ended", t=t)

    def close(self) -> None:
        with self._mutex:
            self._write()
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def _kept(self, error: str, traceback: str) -> str:
        """The traceback of the first few failures of a kind: a hundred thousand of them are no use to anybody."""
        kind = normalised(error)
        with self._mutex:
            count = self._tracebacks.get(kind, 0)
            if count >= _MAX_TRACEBACKS or (not count and len(self._tracebacks) >= _MAX_KINDS):
                return ""
            self._tracebacks[kind] = count + 1
        return shortened(traceback, _MAX_TRACEBACK)

    def _add(self, **record: Any) -> None:
        with self._mutex:
            if self._descriptor >= 0:
                self._lines.append(json.dumps(record, separators=(",", ":"), default=str))
                if len(self._lines) >= _MAX_LINES or time.monotonic() - self._written_at > _FLUSH_INTERVAL_S:
                    self._write()
            for listen in self._listeners:
                listen(record)

    def _write(self) -> None:
        if self._lines:
            os.write(self._descriptor, ("\n".join(self._lines) + "\n").encode(errors="replace"))
        self._lines.clear()
        self._written_at = time.monotonic()


def read(run_folder: str | os.PathLike[str]) -> Iterator[Record]:
    """The records of a run; without lines that were cut off when a run was killed."""
    with open(os.path.join(run_folder, FILE), encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and "kind" in record:
                yield record


def _open(run_folder: str) -> int:
    os.makedirs(run_folder, exist_ok=True)
    path = os.path.join(run_folder, FILE)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        os.write(descriptor, b"\n")
    return descriptor


def _spent(
    t: float,
    worker: str,
    task: int | str,
    attempt: int,
    name: str,
    seconds: float,
    fetch_s: float,
    inputs: Iterable[Input],
    arguments: str,
) -> Record:
    record: Record = {"t": t, "worker": worker, "task": task, "attempt": attempt, "name": shortened(name, _MAX_NAME)}
    record.update(seconds=round(seconds, 6), fetch_s=round(fetch_s, 6), inputs=[list(one) for one in inputs])
    if arguments:
        record["arguments"] = arguments
    return record
