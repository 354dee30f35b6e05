"""Slurm on hosts of a test's own: slurmctld, and a slurmd on each of two hosts."""

import os
from pathlib import Path

from .cluster import Cluster

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


class Slurm(Cluster):
    def __init__(self, scene):
        super().__init__(scene)
        folder = self.folder
        (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder))
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (folder / "munge.key").write_bytes(scene.dice.randbytes(64))
        os.chmod(folder / "munge.key", 0o400)
        for name in ("state", "spool-n1", "spool-n2"):
            (folder / name).mkdir()
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
            self.start(["slurmd", "-D"], host)

    def start(self, command, host="ctl", **settings):
        variables = {"SLURM_CONF": f"{self.folder}/slurm.conf", **settings.pop("variables", {})}
        return super().start(command, host, variables=variables, **settings)

    def submit(self, script, *arguments, variables=None):
        """Runs a job to its end; its exit code, and what it said."""
        said = self.folder / "job"
        words = ["sbatch", "--wait", "--nodes=2", "--ntasks-per-node=1", f"--output={said}", script, *arguments]
        process = self.start(words, cwd=self.folder, variables=variables or {})
        self.scene.wait_for(process)
        return process.returncode, Path(said).read_text() if said.exists() else ""
