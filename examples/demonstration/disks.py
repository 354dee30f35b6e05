"""The disks the demonstration runs on: a folder of the disk as it is, and a disk of 20 MB/s.

The slow one is an ext4 file system on a loop device that blkio (cgroup v1, root group: there it also holds for buffered
writes) lets pass so many bytes a second, reading and writing. Whatever is set up here is taken down by leave().
SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

BLKIO = Path("/sys/fs/cgroup/blkio")


class Disk:
    """A folder on the disk as it is."""

    name = "disk as it is"
    slug = "as-it-is"

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir()

    @contextlib.contextmanager
    def unthrottled(self):
        """Lets what is not measured (fetching, comparing) run at full speed."""
        yield

    def leave(self):
        pass


class ThrottledDisk(Disk):
    """An ext4 file system that moves rate_bytes_per_s and no more."""

    slug = "throttled"

    def __init__(self, folder: Path, rate_bytes_per_s: int, size_bytes: int):
        super().__init__(folder)
        self.name = f"disk of {rate_bytes_per_s // 1_000_000} MB/s"
        self.rate_bytes_per_s = rate_bytes_per_s
        self.image = folder.with_suffix(".img")
        self.device = None
        self.mounted = False
        try:
            self._set_up(size_bytes)
        except BaseException:
            self.leave()
            raise

    @staticmethod
    def why_not():
        """The reason why this machine cannot have one, or None."""
        if os.geteuid() != 0:
            return "only root can throttle a disk"
        if not os.access(BLKIO / "blkio.throttle.write_bps_device", os.W_OK):
            return "there is no blkio controller of cgroup v1"
        if not _in_root_group():
            return "this process is not in blkio's root group, so its buffered writes would pass unthrottled"
        if shutil.which("mkfs.ext4") is None or shutil.which("losetup") is None:
            return "mkfs.ext4 or losetup is missing"
        probe = subprocess.run(["losetup", "--find"], capture_output=True, text=True)
        return None if probe.returncode == 0 else "there are no loop devices: " + probe.stderr.strip()

    def _set_up(self, size_bytes):
        with open(self.image, "wb") as image:
            image.truncate(size_bytes)
        # Everything is initialised now: lazy initialisation would take its share of the 20 MB/s later.
        _run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.image)
        self.device = Path(_run("losetup", "--find", "--show", self.image))
        _run("mount", self.device, self.folder)
        self.mounted = True
        self._limit(self.rate_bytes_per_s)

    def _limit(self, bytes_per_s):
        number = (Path("/sys/block") / self.device.name / "dev").read_text().strip()
        for direction in ("read", "write"):
            (BLKIO / f"blkio.throttle.{direction}_bps_device").write_text(f"{number} {bytes_per_s}\n")

    @contextlib.contextmanager
    def unthrottled(self):
        self._limit(0)
        try:
            yield
        finally:
            self._limit(self.rate_bytes_per_s)

    def leave(self):
        if self.device is not None:
            self._limit(0)
        if self.mounted:
            _unmount(self.folder)
            self.mounted = False
        if self.device is not None:
            _run("losetup", "--detach", self.device)
            self.device = None
        self.image.unlink(missing_ok=True)


def _in_root_group():
    return any(line.split(":", 2)[1:] == ["blkio", "/"] for line in Path("/proc/self/cgroup").read_text().splitlines())


def _unmount(folder):
    """A process that just got the signal to end may hold the file system for a moment."""
    for _ in range(20):
        if subprocess.run(["umount", folder], capture_output=True).returncode == 0:
            return
        time.sleep(0.5)
    _run("umount", folder)


def _run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout.strip()
