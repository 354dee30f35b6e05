"""Memory and processors used by a worker: its process and all that it started.

On Linux of `/proc`, without a package for it. Elsewhere memory is not known, and processor time is that of the process
and of those children that have ended. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from typing import NamedTuple

# Of a worker that has more processes, the others are not counted.
_MAX_PROCESSES = 2000
# Places in /proc/PID/stat after the name: user, system, and both of children that have ended; resident pages.
_TIMES = (11, 12, 13, 14)
_RESIDENT_PAGES = 21


class ResourceUsage(NamedTuple):
    """Resident memory, in which pages that processes share count for each of them; processor time since the beginning."""

    memory_bytes: int | None
    processor_s: float


def process_tree_usage(root: int | None = None) -> ResourceUsage:
    """Of a process, this one by default, and its descendants."""
    pending, pages, ticks = [os.getpid() if root is None else root], 0, 0
    seen: set[int] = set()
    while pending and len(seen) < _MAX_PROCESSES:
        process = pending.pop()
        if process in seen:
            continue
        seen.add(process)
        fields = _stat(process)
        if fields:
            pages += int(fields[_RESIDENT_PAGES])
            ticks += sum(int(fields[place]) for place in _TIMES)
            pending += _children(process)
    if not ticks and not pages:
        return ResourceUsage(None, sum(os.times()[:4]))
    return ResourceUsage(pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK"))


def _stat(process: int) -> list[bytes]:
    """Its fields after the name, which may have anything in it; none of one that is gone."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _children(process: int) -> list[int]:
    """Each thread has those that it started."""
    children: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children", "rb") as file:
                children += map(int, file.read().split())
    except OSError:
        # Gone meanwhile, or a kernel that does not say.
        pass
    return children
