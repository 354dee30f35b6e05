"""What else the machine did during a run: cores busy with anything but the run's own processes. The kernel's threads
count, those that move the disk's bytes too.

SPDX-License-Identifier: Apache-2.0
"""

import resource
import time

from diffusion.busy import Machine


class Others:
    """From its making on."""

    def __init__(self):
        self.machine, self.begun, self.own_before = Machine(), time.monotonic(), own_cpu_s()

    def busy_cores(self):
        own = own_cpu_s() - self.own_before
        return max(0, self.machine.busy_s() - own) / (time.monotonic() - self.begun)


def own_cpu_s():
    """Of this process, and of those that it has waited for, with theirs."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(some.ru_utime + some.ru_stime for some in used)
