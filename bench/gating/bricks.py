"""The GlusterFS side: four bricks, each on an ext4 file system of its own whose loop device is throttled, and for each
application a FUSE mount of its own, with direct I/O, no caches and no write-behind, coming from an address of its own.

No glusterd: volfiles configure bricks and mounts. Every outstanding request has a file of its own, as FUSE
lets only one write at a time into a file, on a brick of its own: a client of the source's kind, whose requests are
striped over all servers at once, is four of them.
SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import os
import subprocess
import uuid
from pathlib import Path

from gating import isolation, processes

NAME = "gluster"
COUNT = 4
FIRST_PORT = 24_000
FILE_BYTES = 2 << 20
CLIENTS = 32
IMAGE_BYTES = 2 << 30
ADDRESSES = [f"127.0.0.1:{FIRST_PORT + number}" for number in range(COUNT)]


def address_of(number):
    """Where the clients of an application come from."""
    return f"127.1.0.{number + 1}"


class Bricks:
    """The servers of cases on GlusterFS: `serving` around all of them, `clients` around each."""

    name = NAME

    def __init__(self, folder: Path, applications, rate_bytes_per_s):
        self.folder, self.applications, self.rate_bytes_per_s = folder, applications, rate_bytes_per_s
        self.volume = uuid.uuid4()
        self.files = {}

    @contextlib.contextmanager
    def serving(self):
        with contextlib.ExitStack() as stack:
            devices = [stack.enter_context(self._device(number)) for number in range(COUNT)]
            for number in range(COUNT):
                stack.enter_context(self._brick(number))
            self._lay_files()
            for device in devices:
                isolation.throttle(device, self.rate_bytes_per_s)
                stack.callback(isolation.throttle, device, 0)
            yield

    @contextlib.contextmanager
    def clients(self, case, doors):
        """Mounts for each application, through the doors, and yields the load generator's settings of each part."""
        with contextlib.ExitStack() as stack:
            mounts = {}
            for number, application in enumerate(case.applications):
                mounts[application.name] = stack.enter_context(
                    self._mount(application.name, doors or ADDRESSES, number)
                )

            def target(application, part):
                files = self.files[application.name]
                mount, servers = mounts[application.name], application.servers
                # Clients go to the bricks in turn, and stay.
                places = [
                    (servers[client % len(servers)], client // len(servers)) for client in range(part.outstanding)
                ]
                paths = [[str(mount / files[brick][file])] for brick, file in places]
                return {"files": {"paths": paths, "file_bytes": FILE_BYTES, "random": part.random}}

            yield target

    def _place(self, number):
        return self.folder / f"brick{number}"

    @contextlib.contextmanager
    def _device(self, number):
        image, place = self.folder / f"image{number}", self._place(number)
        with open(image, "wb") as file:
            file.truncate(IMAGE_BYTES)
        _run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
        place.mkdir()
        device = _run("losetup", "--find", "--show", image)
        try:
            _run("mount", device, place)
        finally:
            # While it is mounted this only marks the device: it goes with its last mount.
            _run("losetup", "--detach", device)
        try:
            yield device
        finally:
            _unmount(place)

    @contextlib.contextmanager
    def _brick(self, number):
        data = self._place(number) / "data"
        data.mkdir()
        os.setxattr(data, "trusted.glusterfs.volume-id", self.volume.bytes)
        volfile = self.folder / f"brick{number}.vol"
        volfile.write_text(brick_volfile(data, self.volume, FIRST_PORT + number))
        log = self.folder / f"brick{number}.log"
        command = ["glusterfsd", "-N", "-f", volfile, "-l", log, "-p", self.folder / f"brick{number}.pid"]
        answers = processes.listening("127.0.0.1", FIRST_PORT + number)
        with processes.running(command, self.folder / f"brick{number}.out", answers):
            yield

    @contextlib.contextmanager
    def _mount(self, application, doors, number):
        place = self.folder / f"mount-{application}"
        place.mkdir(exist_ok=True)
        volfile = self.folder / f"{application}.vol"
        volfile.write_text(client_volfile(doors, address_of(number)))
        log = self.folder / f"{application}.log"
        command = [
            "glusterfs",
            "-N",
            f"--volfile={volfile}",
            "--direct-io-mode=enable",
            "--background-qlen=512",
            "-l",
            log,
            place,
        ]
        with processes.running(command, self.folder / f"{application}.out", lambda: _is_served(place)):
            try:
                yield place
            finally:
                _unmount(place)

    def _lay_files(self):
        """For each client of each application a file on each brick: the names are tried, the distribution decides."""
        with self._mount("layout", ADDRESSES, 0) as mount:
            for application in self.applications:
                (mount / application).mkdir()
                self.files[application] = self._files_of(mount, application)

    def _files_of(self, mount, application):
        found = {brick: [] for brick in range(COUNT)}
        for number in range(100 * CLIENTS):
            name = f"{application}/file{number}"
            (mount / name).touch()
            brick = next(brick for brick in range(COUNT) if (self._place(brick) / "data" / name).exists())
            if len(found[brick]) < CLIENTS:
                found[brick].append(name)
                self._write_out(self._place(brick) / "data" / name)
            if all(len(names) == CLIENTS for names in found.values()):
                return found
        raise RuntimeError(f"{100 * CLIENTS} names of {application} left a brick with fewer than {CLIENTS} files")

    @staticmethod
    def _write_out(path):
        """Every block allocated and written: a first write would be another kind of request."""
        with open(path, "r+b") as file:
            file.write(os.urandom(FILE_BYTES))
            os.fsync(file.fileno())


def brick_volfile(data, volume, port):
    return "\n".join(
        [
            _volume("posix", "storage/posix", {"directory": data, "volume-id": volume, "o-direct": "on"}),
            _volume("locks", "features/locks", {}, "posix"),
            _volume("threads", "performance/io-threads", {"thread-count": 16}, "locks"),
            _volume("brick", "debug/io-stats", {}, "threads"),
            _volume("server", "protocol/server", _listening(port), "brick"),
        ]
    )


def _listening(port):
    return {
        "transport-type": "tcp",
        "transport.address-family": "inet",
        "transport.socket.bind-address": "127.0.0.1",
        "transport.socket.listen-port": port,
        "rpc-auth-allow-insecure": "on",
        "auth.addr.brick.allow": "*",
    }


def client_volfile(doors, source):
    names = [f"client{number}" for number in range(len(doors))]
    parts = []
    for name, (host, port) in zip(names, (door.split(":") for door in doors)):
        options = {
            "transport-type": "tcp",
            "transport.address-family": "inet",
            "remote-host": host,
            "remote-port": port,
        }
        options |= {"remote-subvolume": "brick", "transport.socket.source-addr": source}
        parts.append(_volume(name, "protocol/client", options))
    return "\n".join([*parts, _volume("distribute", "cluster/distribute", {}, " ".join(names))])


def _volume(name, kind, options, below=""):
    lines = [f"volume {name}", f"  type {kind}", *(f"  option {key} {value}" for key, value in options.items())]
    return "\n".join([*lines, *([f"  subvolumes {below}"] if below else []), "end-volume\n"])


def _is_served(place):
    """Mounted, and every brick has been found: before, a look-up fails."""
    if not os.path.ismount(place):
        return False
    try:
        return bool(os.stat(place)) and os.listdir(place) is not None
    except OSError:
        return False


def _unmount(place):
    """Unmounts; mounts that stay go with the namespace."""
    subprocess.run(["umount", "--lazy", place], capture_output=True)


def _run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout.strip()
