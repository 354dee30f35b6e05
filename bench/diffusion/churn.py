"""Kills workers midway, as a machine that fails would: SIGKILL, nothing said before. Dask's nannies start others instead.

SPDX-License-Identifier: Apache-2.0
"""

import os
import signal
import threading


class Killer:
    """`client` is Dask's. The clock starts when it is entered; leaving it before the time calls it off."""

    def __init__(self, client, count, after_s):
        self.processes = sorted(client.run(os.getpid).values())[:count]
        self.timer = threading.Timer(after_s, self.kill)

    def kill(self):
        for process in self.processes:
            os.kill(process, signal.SIGKILL)

    def __enter__(self):
        self.timer.start()

    def __exit__(self, *_):
        self.timer.cancel()
        self.timer.join()
