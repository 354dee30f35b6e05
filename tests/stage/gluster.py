"""GlusterFS without glusterd: bricks that are one `glusterfsd` each, and FUSE mounts of them by volume files.

A brick can stand on a device of its own whose rate is limited (blkio of cgroup v1), so that applications compete for it.
"""

import os
import socket
import subprocess
import time
from pathlib import Path

from . import processes
from .ports import free_port

BLKIO = Path("/sys/fs/cgroup/blkio")
VOLUME_ID = "11111111-2222-3333-4444-%012d"

BRICK = """volume posix
  type storage/posix
  option directory {folder}
  option volume-id {volume_id}
{options}end-volume
volume locks
  type features/locks
  subvolumes posix
end-volume
volume brick
  type performance/io-threads
  subvolumes locks
end-volume
volume server
  type protocol/server
  option transport-type tcp
  option transport.socket.bind-address 127.0.0.1
  option transport.socket.listen-port {port}
  option auth.addr.brick.allow *
  subvolumes brick
end-volume
"""

# The brick passes the page cache as well; every write must then be aligned.
DIRECT = "  option o-direct on\n"

CLIENT = """volume client{at}
  type protocol/client
  option transport-type tcp
  option remote-host 127.0.0.1
  option remote-port {port}
  option remote-subvolume brick
end-volume
"""


class Brick:
    def __init__(self, scene, at, folder, options=""):
        self.scene, self.port = scene, free_port()
        self.folder = folder / "brick"
        self.folder.mkdir()
        self.name = f"brick{at}"
        volume_id = VOLUME_ID % at
        os.setxattr(self.folder, "trusted.glusterfs.volume-id", bytes.fromhex(volume_id.replace("-", "")))
        self.volfile = scene.folder / f"{self.name}.vol"
        self.volfile.write_text(BRICK.format(folder=self.folder, volume_id=volume_id, port=self.port, options=options))
        self.start()

    def start(self):
        log = self.scene.folder / f"{self.name}.log"
        pid = self.scene.folder / f"{self.name}.pid"
        self.process = self.scene.start(["glusterfsd", "-f", self.volfile, "-l", log, "-p", pid, "--no-daemon"])
        self.scene.until(lambda: answers(self.port), "the brick to listen", seconds=20)

    def kill(self):
        processes.kill(self.process.pid)
        self.process.wait()


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


class Mount:
    """The view of an application: the bricks behind these ports as one file system."""

    def __init__(self, scene, name, ports):
        self.scene, self.folder = scene, scene.new_folder(name)
        clients = [CLIENT.format(at=at, port=port) for at, port in enumerate(ports)]
        if len(ports) > 1:
            names = " ".join(f"client{at}" for at in range(len(ports)))
            clients.append(f"volume distribute\n  type cluster/distribute\n  subvolumes {names}\nend-volume\n")
        volfile = scene.folder / f"{name}.vol"
        volfile.write_text("".join(clients))
        log = scene.folder / f"{name}.log"
        scene.at_end(self.unmount)
        scene.run(["glusterfs", f"--volfile={volfile}", "-l", log, "--direct-io-mode=enable", self.folder])
        scene.until(self.is_attached, f"{name} to be attached", seconds=20)

    def is_attached(self):
        try:
            self.folder.stat()
            return os.path.ismount(self.folder)
        except OSError:
            return False

    def unmount(self):
        subprocess.run(["umount", "-l", self.folder], stderr=subprocess.DEVNULL, check=False)


class Device:
    """A file system on a loop device of its own, whose rate can be limited."""

    def __init__(self, scene, name, megabytes=1024):
        self.folder = scene.new_folder(name)
        image = scene.folder / f"{name}.img"
        with open(image, "wb") as file:
            file.truncate(megabytes << 20)
        self.loop = scene.run(["losetup", "--find", "--show", "--direct-io=on", image]).strip()
        scene.at_end(self.remove)
        scene.run(["mkfs.ext4", "-q", "-O", "^has_journal", "-E", "lazy_itable_init=0", self.loop])
        scene.run(["mount", self.loop, self.folder])

    def limit(self, bytes_per_s):
        """0: no limit. Needs the blkio controller of cgroup v1; says whether it is there."""
        number = os.stat(self.loop).st_rdev
        limits = [BLKIO / f"blkio.throttle.{way}_bps_device" for way in ("read", "write")]
        if not all(limit.exists() for limit in limits):
            return False
        for limit in limits:
            limit.write_text(f"{os.major(number)}:{os.minor(number)} {bytes_per_s}\n")
        return True

    def remove(self):
        self.limit(0)
        for _ in range(50):
            if subprocess.run(["umount", self.folder], stderr=subprocess.DEVNULL, check=False).returncode == 0:
                break
            time.sleep(0.1)
        subprocess.run(["losetup", "--detach", self.loop], stderr=subprocess.DEVNULL, check=False)
