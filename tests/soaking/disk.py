"""A small ext4 of its own below the store, and a file that fills it to the last byte."""

import os
import subprocess
import threading
import time

SPARE_BYTES = 48 << 20
CHUNK = b"\0" * (1 << 20)


class Disk:
    def __init__(self, folder, mib):
        self.image, self.mount = folder / "disk.image", folder / "disk"
        with open(self.image, "wb") as image:
            image.truncate(mib << 20)
        self.mount.mkdir()
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", self.image], check=True)
        subprocess.run(["mount", "-o", "loop", self.image, self.mount], check=True)
        self._filler = self.mount / "filler"
        self._full_until = float("-inf")
        self._filled = threading.Event()

    def close(self):
        subprocess.run(["umount", "--lazy", self.mount], check=False)

    def free_bytes(self):
        found = os.statvfs(self.mount)
        return found.f_bavail * found.f_frsize

    def fill(self):
        """Leaves not one byte free."""
        self._filled.set()
        with open(self._filler, "ab", buffering=0) as filler:
            for piece in (CHUNK, CHUNK[:4096], CHUNK[:1]):
                try:
                    while True:
                        filler.write(piece)
                except OSError:
                    continue

    def empty(self):
        self._filler.unlink(missing_ok=True)
        self._full_until = time.monotonic()
        self._filled.clear()

    def was_full_since(self, start):
        """Whether a command that began then may have met a full disk."""
        return self._filled.is_set() or self._full_until >= start or self.free_bytes() < SPARE_BYTES
