"""What happens in a run, one JSON object a line: what the report, the live page and the progress bar are made of.

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

FILE = "events.jsonl"

# What is not written yet is written after so many records, or with the next one after so long.
_MAX_LINES = 1000
_FLUSH_S = 1.0
# Longer tracebacks lose their middle.
_TRACEBACK_CHARACTERS = 20_000

Record = dict[str, Any]
Input = tuple[str, int]


class Events:
    """Appends to `events.jsonl` in the run folder, if there is one, and tells the listeners."""

    def __init__(
        self, run_folder: str | os.PathLike[str] | None, listeners: Sequence[Callable[[Record], None]] = ()
    ) -> None:
        self._listeners = list(listeners)
        self._mutex = threading.Lock()
        self._lines: list[str] = []
        self._written_at = time.monotonic()
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
    ) -> None:
        """An attempt that counts. It had the slot for `seconds`, of which it waited `fetch_s` for its inputs; these are
        pairs of where one came from ("local", "peer" or "store") and its bytes."""
        self._add(kind="done", **_spent(t, worker, task, attempt, name, seconds, fetch_s, inputs))

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
    ) -> None:
        """An attempt that does not count; `final` when no other follows."""
        spent = _spent(t, worker, task, attempt, name, seconds, fetch_s, inputs)
        self._add(kind="failed", **spent, error=error, traceback=_shortened(traceback), final=final)

    def fetch_failed(self, t: float, worker: str, item_key: str, source: str, error: str) -> None:
        """A peer or the store did not give an item."""
        self._add(kind="fetch_failed", t=t, worker=worker, item=item_key, source=source, error=error)

    def ended(self, t: float) -> None:
        self._add(kind="ended", t=t)

    def close(self) -> None:
        with self._mutex:
            self._write()
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def _add(self, **record: Any) -> None:
        with self._mutex:
            if self._descriptor >= 0:
                self._lines.append(json.dumps(record, separators=(",", ":"), default=str))
                if len(self._lines) >= _MAX_LINES or time.monotonic() - self._written_at > _FLUSH_S:
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
) -> Record:
    record: Record = {"t": t, "worker": worker, "task": task, "attempt": attempt, "name": name}
    record.update(seconds=round(seconds, 6), fetch_s=round(fetch_s, 6), inputs=[list(one) for one in inputs])
    return record


def _shortened(traceback: str) -> str:
    if len(traceback) <= _TRACEBACK_CHARACTERS:
        return traceback
    half = _TRACEBACK_CHARACTERS // 2
    return f"{traceback[:half]}\n[…]\n{traceback[-half:]}"
