"""A cluster of a test's own: slurmctld, and hosts n1 and n2, each with a slurmd and a network of its own.

What stands for a host is a network namespace with an address, and a host name; the disk is everybody's, as a cluster's
shared file system is.
"""

import os
import subprocess
from pathlib import Path

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

# The plugins that need least of the machine: no cgroups, no accounting.
CONFIGURATION = """
ClusterName=tests
SlurmctldHost=ctl
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/linear
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
NodeName=n1,n2 CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=500 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP
"""


class Slurm:
    def __init__(self, scene):
        self.scene = scene
        self.folder = folder = scene.new_folder("slurm")
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in HOSTS.items())]
        (folder / "hosts").write_text("\n".join(lines) + "\n")
        (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder))
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (folder / "munge.key").write_bytes(scene.dice.randbytes(64))
        os.chmod(folder / "munge.key", 0o400)
        for name in ("state", "spool-n1", "spool-n2"):
            (folder / name).mkdir()
        with open(folder / "said", "wb") as said:
            words = ["unshare", "--net", "--mount", "--uts", "sh", "-euc", SETTING_UP]
            self.holder = scene.start(words, stdout=said, cwd=folder)
        scene.until(lambda: (folder / "said").read_bytes() == b"ready\n", "the cluster's network")
        self.start_daemons()
        scene.until(lambda: self.run(["sinfo", "--noheader", "--states=idle", "--format=%D"]).strip() == "2", "its hosts")

    def start_daemons(self):
        files = [f"--{kind}={self.folder}/munge.{end}" for kind, end in
                 (("key-file", "key"), ("log-file", "log"), ("seed-file", "seed"))]
        munge = ["munged", "--foreground", "--force", *files, "--pid-file=/run/munge/pid"]
        self.start([*munge, "--socket=/run/munge/munge.socket.2"])
        self.scene.until(lambda: self.run(["munge", "--no-input"], code=None).startswith("MUNGE"), "munged")
        self.start(["slurmctld", "-D"])
        for host in ("n1", "n2"):
            named = ["unshare", "--uts", "sh", "-c", f"hostname {host}; exec slurmd -D"]
            self.start(["nsenter", f"--net=/run/netns/{host}", *named])

    def start(self, command, **settings):
        """On the host that nobody computes on."""
        words = ["nsenter", "--target", self.holder.pid, "--net", "--mount", "--uts", *command]
        path = f"{RELEASE}:{os.environ['PATH']}"
        variables = {"SLURM_CONF": f"{self.folder}/slurm.conf", "PATH": path, **settings.pop("variables", {})}
        return self.scene.start(words, variables=variables, **settings)

    def run(self, command, code=0):
        process = self.start(command, stdout=subprocess.PIPE)
        output = (self.scene.wait_for(process) or b"").decode(errors="replace")
        if code is not None and process.returncode != code:
            raise Failure(f"`{' '.join(map(str, command))}` ended with {process.returncode}: {output[-2000:]}")
        return output

    def submit(self, script, *arguments, variables=None):
        """Runs a job to its end; its exit code, and what it said."""
        said = self.folder / "job"
        words = ["sbatch", "--wait", "--nodes=2", "--ntasks-per-node=1", f"--output={said}", script, *arguments]
        process = self.start(words, cwd=self.folder, variables=variables or {})
        self.scene.wait_for(process)
        return process.returncode, Path(said).read_text() if said.exists() else ""
