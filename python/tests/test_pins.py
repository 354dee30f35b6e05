"""Pins of a cache that is closed while threads use it. SPDX-License-Identifier: Apache-2.0"""

import threading

from thalweg.disk_cache.pins import Pins


class Lock:
    """A lock that counts how often it is released, and calls `meanwhile` in another thread the first time."""

    def __init__(self, meanwhile):
        self.releases, self._meanwhile = 0, meanwhile

    def release(self):
        self.releases += 1
        if self.releases == 1:
            thread = threading.Thread(target=self._meanwhile)
            thread.start()
            thread.join(0.2)


class SomeLocks:
    def __init__(self, meanwhile):
        self.locks, self._meanwhile = [], meanwhile

    def share(self, name):
        self.locks.append(Lock(self._meanwhile))
        return self.locks[-1]


def test_a_pin_that_a_thread_removes_while_all_are_cleared_is_released_once():
    locks = SomeLocks(lambda: pins.remove("used"))
    pins = Pins(locks)
    for name in ("used", "other"):
        pins.add(name)
    pins.clear()
    assert [lock.releases for lock in locks.locks] == [1, 1]
    assert not pins.add_again("used")
