"""A network of a test's own: loopback and one more address, and a /run that no other daemon uses.

Its processes are started through nsenter, so the namespaces live as long as the one that holds them sleeps.
"""

import ctypes
import os

SETTING_UP = """
ip link set lo up
ip link add near type veth peer name far
ip address add 10.77.0.1/24 dev near
ip link set near up
ip link set far up
mount -t tmpfs tmpfs /run
mkdir -p /run/rpcbind /run/ganesha
echo ready
exec sleep infinity
"""


LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


class Namespace:
    def __init__(self, scene):
        self.scene = scene
        said = scene.folder / "namespace"
        with open(said, "wb") as file:
            words = ["unshare", "--net", "--mount", "sh", "-euc", SETTING_UP]
            self.holder = scene.start(words, stdout=file)
        scene.until(lambda: said.read_bytes() == b"ready\n", "the namespace", seconds=10)

    def words(self, command):
        return ["nsenter", "--target", self.holder.pid, "--net", "--mount", *command]

    def start(self, command, **settings):
        return self.scene.start(self.words(command), **settings)

    def run(self, command, **settings):
        return self.scene.run(self.words(command), **settings)

    def enter_network(self):
        """Moves the calling thread there, for good."""
        with open(f"/proc/{self.holder.pid}/ns/net", "rb") as file:
            if LIBC.setns(file.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def answers(self, port):
        """Whether a server listens there."""
        return f":{port} " in self.run(["ss", "-Htln"])
