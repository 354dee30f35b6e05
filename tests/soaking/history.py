"""The content each path may hold, by what was attempted and what was acknowledged.

A path has one writer. An attempt makes its content possible from then on; its acknowledgement makes every other content
impossible. An attempt that failed or was killed leaves both possible until the next acknowledgement.
"""

import hashlib
import threading
import time
from dataclasses import dataclass

ABSENT = None


def digest(content):
    return hashlib.blake2b(content, digest_size=16).hexdigest()


@dataclass
class Possible:
    content: str | None
    since: float
    until: float = float("inf")

    def overlaps(self, start, end):
        return self.since <= end and start <= self.until


class History:
    """Safe to use from many threads."""

    def __init__(self):
        self._paths = {}
        self._lock = threading.Lock()

    def attempt(self, contents):
        """The write of these paths begins: `contents` maps a path to its digest, or to ABSENT for a removal."""
        now = time.monotonic()
        with self._lock:
            for path, content in contents.items():
                possible = self._paths.setdefault(path, [Possible(ABSENT, 0.0)])
                possible.append(Possible(content, now))

    def acknowledge(self, contents):
        """The write was acknowledged: nothing else can be read from now on."""
        now = time.monotonic()
        with self._lock:
            for path, content in contents.items():
                for possible in self._paths[path]:
                    if possible.content != content:
                        possible.until = min(possible.until, now)
                self._paths[path] = [one for one in self._paths[path] if one.until > now - FORGET_SECONDS]

    def permits(self, path, content, start, end):
        """Whether a read between these times may have found this content."""
        with self._lock:
            possible = self._paths.get(path, [Possible(ABSENT, 0.0)])
            return any(one.content == content and one.overlaps(start, end) for one in possible)

    def paths(self):
        with self._lock:
            return sorted(self._paths)


# A read never takes longer; what was impossible before it is not looked for any more.
FORGET_SECONDS = 600
