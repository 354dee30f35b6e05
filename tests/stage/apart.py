"""Two networks with a link between them that can lose everything without a word, and addresses without an answer."""

import os

NEAR, FAR = "10.78.0.1", "10.78.0.2"

SETTING_UP = f"""
ip link set lo up
ip link add near type veth peer name far netns "$1"
ip address add {NEAR}/24 dev near
ip link set near up
nsenter --target "$1" --net sh -euc 'ip link set lo up; ip address add {FAR}/24 dev far; ip link set far up'
# The far side forwards nothing: whatever is sent beyond it is swallowed.
ip route add default via {FAR}
"""


class Apart:
    """`near` is for programs, `far` for nodes."""

    def __init__(self, scene):
        self.scene = scene
        self.near, self.far = (self.hold(name) for name in ("near", "far"))
        scene.run(self.at(self.near, ["sh", "-euc", SETTING_UP, "sh", self.far.pid]))

    def hold(self, name):
        """A process with a network of its own, which lives as long as it."""
        holder = self.scene.start(["unshare", "--net", "sleep", "infinity"])
        own = os.readlink("/proc/self/ns/net")
        self.scene.until(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != own, f"the {name} network", seconds=10)
        return holder

    def at(self, holder, command):
        return ["nsenter", "--target", holder.pid, "--net", *command]

    def start_near(self, command, **settings):
        return self.scene.start(self.at(self.near, command), **settings)

    def start_far(self, command, **settings):
        return self.scene.start(self.at(self.far, command), **settings)

    def swallow(self, begin=True):
        """Packets in either direction are lost, until it is called with False."""
        for holder, device, other in ((self.near, "near", FAR), (self.far, "far", NEAR)):
            # Packets for an unused link address are dropped by their receivers.
            wrong = ["replace", other, "lladdr", "02:00:00:00:00:01", "nud", "permanent", "dev", device]
            self.scene.run(self.at(holder, ["ip", "neigh", *(wrong if begin else ["del", other, "dev", device])]))

    @staticmethod
    def black_holes(count):
        """Addresses that answer nothing, not even a refusal."""
        return [f"10.79.0.{at + 1}:7420" for at in range(count)]
