"""What a run leaves behind: its events and report in the run folder; and who watches them meanwhile.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import time
from typing import Any

from thalweg.diffusion.messages import Event
from thalweg.diffusion.options import Options
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

    def event(self, event: Event) -> None:
        if self._events is not None:
            self._last_s = event.arguments["t"]
            getattr(self._events, event.kind)(**event.arguments)

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
