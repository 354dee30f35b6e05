"""The records of a run: its events and report in the run folder, and their watchers meanwhile.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from thalweg.diffusion.messages import Event
from thalweg.diffusion.options import Options
from thalweg.diffusion.report.describe import describe_arguments
from thalweg.diffusion.report.events import Events


class Record:
    """Without a folder only for those who watch."""

    def __init__(
        self, folder: str | os.PathLike[str] | None, options: Options, *, progress: bool, page: bool | int
    ) -> None:
        self._folder = None if folder is None else os.fspath(folder)
        self._watchers: list[Any] = []
        self.page = ""
        if progress:
            from thalweg.diffusion.report.progress import Progress

            self._watchers.append(Progress())
        if page is not False:
            from thalweg.diffusion.report.page import Page

            served = Page(port=0 if page is True else int(page))
            self.page = str(served.address)
            self._watchers.append(served)
        self._events: Events | None = None
        if self._folder is not None or self._watchers:
            self._events = Events(self._folder, [watcher.listen for watcher in self._watchers])
            self._events.run(began=time.time(), policy=options.policy, cache_bytes=options.cache_bytes)
        self._last_s = 0.0

    def event(self, event: Event, arguments_of: Callable[[int], tuple[Any, dict[str, Any]]]) -> None:
        """`arguments_of` gives the arguments and keywords of a task that has not been resolved; `KeyError` of another one."""
        if self._events is None:
            return
        details = event.arguments
        self._last_s = details["t"]
        if event.kind in ("done", "failed"):
            details = {**details, "arguments": _described(arguments_of, details["task"])}
        elif event.kind == "usage":
            longest = [{**one, "arguments": _described(arguments_of, one["task"])} for one in details["longest"]]
            details = {**details, "longest": longest}
        getattr(self._events, event.kind)(**details)

    def close(self) -> None:
        if self._events is not None:
            self._events.ended(self._last_s)
            self._events.close()
            self._events = None
            if self._folder is not None:
                from thalweg.diffusion.report.report import write

                write(self._folder)
        for watcher in self._watchers:
            watcher.close()


def _described(arguments_of: Callable[[int], tuple[Any, dict[str, Any]]], task: int) -> str:
    try:
        arguments, keywords = arguments_of(task)
    except KeyError:
        # Cancelled.
        return ""
    return describe_arguments(arguments, keywords) or "()"
