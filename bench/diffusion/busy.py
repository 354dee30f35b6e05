"""How busy the machine was between two moments, all processes together, time stolen from it counted as busy.

SPDX-License-Identifier: Apache-2.0
"""

import os


class Machine:
    """From its making on."""

    def __init__(self):
        self.before = _ticks()

    def idle_share(self):
        idle, total = (after - before for after, before in zip(_ticks(), self.before))
        return idle / total if total else 1.0

    def busy_s(self):
        idle, total = (after - before for after, before in zip(_ticks(), self.before))
        return (total - idle) / os.sysconf("SC_CLK_TCK")


def _ticks():
    """(idle with waiting for disks, all)."""
    with open("/proc/stat") as file:
        fields = [int(word) for word in file.readline().split()[1:9]]
    return fields[3] + fields[4], sum(fields)
