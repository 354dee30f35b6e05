"""The folder of a worker's cache: the first unused one of a row.

So a worker that is started again, under whatever name, finds the cache one before it left, and two on one machine have
two. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import fcntl
import itertools
import os

from thalweg.disk_cache.private_folder import make_private, private_base, user_cache


class CacheDirLock:
    """Taken until it is left, or its process ends."""

    def __init__(self, base: str) -> None:
        base = private_base(base)
        for number in itertools.count():
            lock = os.open(os.path.join(base, f"{number}.lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            self._lock, self._process = lock, os.getpid()
            self.folder = os.path.join(base, str(number))
            make_private(self.folder)
            return

    def release(self) -> None:
        if self._lock >= 0:
            if self._process == os.getpid():
                # Children that were forked meanwhile have the lock too: closing ours would not end it.
                fcntl.flock(self._lock, fcntl.LOCK_UN)
            os.close(self._lock)
            self._lock = -1


def default_base() -> str:
    return user_cache("diffusion")
