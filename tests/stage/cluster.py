"""Hosts of a test's own: `ctl`, on which no job computes, and n1 and n2, each with a network of its own.

A host is a network namespace with an address, and a host name; the disk is shared by all, as a cluster's
shared file system is.
"""

import os
import subprocess

from .building import RELEASE
from .registry import Failure

HOSTS = {"ctl": "10.78.0.1", "n1": "10.78.0.11", "n2": "10.78.0.12"}

SETTING_UP = """
mount --make-rprivate /
ip link set lo up
ip link add hub type bridge
ip address add 10.78.0.1/24 dev hub
ip link set hub up
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /sys/fs/cgroup
mkdir --parents /run/munge /sys/fs/cgroup/systemd
chmod 755 /run/munge
mount --bind hosts /etc/hosts
hostname ctl
for host in n1 n2; do
    ip netns add $host
    ip link add to-$host type veth peer name eth0 netns $host
    ip link set to-$host master hub up
    ip -n $host link set lo up
    ip -n $host address add 10.78.0.1${host#n}/24 dev eth0
    ip -n $host link set eth0 up
done
echo ready
exec sleep infinity
"""

# The command that mpirun calls instead of ssh: like that it passes no environment on.
SHELL = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec nsenter --net=/run/netns/$host unshare --uts env -i PATH="$PATH" HOME="$HOME" OMPI_ALLOW_RUN_AS_ROOT=1 \
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 sh -c 'hostname "$0"; eval "$*"' "$host" "$@"
"""


class Cluster:
    def __init__(self, scene):
        self.scene = scene
        self.folder = folder = scene.new_folder("cluster")
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in HOSTS.items())]
        (folder / "hosts").write_text("\n".join(lines) + "\n")
        self.shell = folder / "shell"
        self.shell.write_text(SHELL)
        self.shell.chmod(0o755)
        with open(folder / "said", "wb") as said:
            words = ["unshare", "--net", "--mount", "--uts", "sh", "-euc", SETTING_UP]
            self.holder = scene.start(words, stdout=said, cwd=folder)
        scene.until(lambda: (folder / "said").read_bytes() == b"ready\n", "the cluster's network")

    def start(self, command, host="ctl", **settings):
        """On the host without jobs, unless said."""
        words = ["nsenter", "--target", self.holder.pid, "--net", "--mount", "--uts"]
        if host != "ctl":
            named = ["unshare", "--uts", "sh", "-c", f'hostname {host}; exec "$@"', "sh"]
            words += ["nsenter", f"--net=/run/netns/{host}", *named]
        variables = {"PATH": f"{RELEASE}:{os.environ['PATH']}", **settings.pop("variables", {})}
        return self.scene.start([*words, *command], variables=variables, **settings)

    def run(self, command, code=0, **settings):
        """Runs a command to its end; what it said."""
        process = self.start(command, stdout=subprocess.PIPE, **settings)
        output = (self.scene.wait_for(process) or b"").decode(errors="replace")
        if code is not None and process.returncode != code:
            raise Failure(f"`{' '.join(map(str, command))}` ended with {process.returncode}: {output[-2000:]}")
        return output
