"""A rate that many share: a taker of bytes gets the time to wait until they have passed.

SPDX-License-Identifier: Apache-2.0
"""

import time


class Throttle:
    """After idling it lets `burst_s` of its rate pass at once, which makes up for a timer that comes late."""

    def __init__(self, bytes_per_s, burst_s=0.02):
        self.bytes_per_s, self.burst_s = bytes_per_s, burst_s
        self.free_at = 0.0

    def take(self, amount):
        """Books the bytes; the seconds from now until the last of them is through."""
        now = time.monotonic()
        self.free_at = max(self.free_at, now - self.burst_s) + amount / self.bytes_per_s
        return max(0.0, self.free_at - now)
