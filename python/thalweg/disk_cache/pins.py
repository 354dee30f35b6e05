"""Copies that a process uses, and that no process on this machine may remove meanwhile. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import threading

from thalweg.disk_cache.locks import Lock, Locks


class _Pin:
    def __init__(self, lock: Lock) -> None:
        self.lock, self.users = lock, 1


class Pins:
    """Counts the users of a key within this process; between processes a shared lock stands for all of them, and goes
    with the process."""

    def __init__(self, locks: Locks) -> None:
        self._locks = locks
        self._mutex = threading.Lock()
        self._pins: dict[str, _Pin] = {}

    def add(self, key: str) -> None:
        with self._mutex:
            pin = self._pins.get(key)
            if pin is not None:
                pin.users += 1
            else:
                self._pins[key] = _Pin(self._locks.share(key))

    def add_again(self, key: str) -> bool:
        """One user more of what this process uses already; False when it does not."""
        with self._mutex:
            pin = self._pins.get(key)
            if pin is None:
                return False
            pin.users += 1
            return True

    def remove(self, key: str) -> bool:
        """True when the last user in this process has released it."""
        with self._mutex:
            pin = self._pins.get(key)
            if pin is None:
                return False
            pin.users -= 1
            if pin.users:
                return False
            del self._pins[key]
            pin.lock.release()
            return True

    def clear(self) -> None:
        with self._mutex:
            self.leave_to_parent()

    def leave_to_parent(self) -> None:
        """In a forked process, where some other thread of the parent may seem to hold the mutex for ever."""
        pins, self._pins = self._pins, {}
        for pin in pins.values():
            pin.lock.release()
