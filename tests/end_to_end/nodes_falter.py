"""Nodes that stand still for longer than their leases last, and nodes whose disk is full: jobs end, with an error or without,
and the next job on the same node goes well."""

import signal
import subprocess
import time

from stage import processes
from stage.building import MPIS
from stage.registry import check, test
from stage.steps import Steps
from stage.store import Node, Store

# Leases last 30 s.
LONG_FREEZE_SECONDS = 33
STEPS = 8
# Time a job may take from the moment its node goes on, or fails, to its end.
ENDING_SECONDS = 45
DISK_MIB = 64
LEFT_BYTES = 3 << 20


def later_job(scene, store, node, mpi):
    """A job after the fault goes well, and the node is still the process it was."""
    check(node.process.poll() is None, "the node's process has ended")
    steps = Steps(scene, mpi, "later", 2)
    store.run(steps.command, [node])
    steps.check_content(store.get("later", "fetched-later"))


@test(each=MPIS[:1], seconds=180)
def a_node_that_lost_its_lease_begins_anew_and_serves_the_next_job(scene, mpi):
    store = Store(scene)
    node = store.start_node()
    steps = Steps(scene, mpi, "steps", STEPS, pause_ms=300)
    job = scene.start(store.run_command(steps.command, [node]))
    scene.until(lambda: steps.journal().synced, "the first sync")
    processes.kill(node.process.pid, signal.SIGSTOP)
    time.sleep(LONG_FREEZE_SECONDS)
    store.command("collect", store.folder)
    processes.kill(node.process.pid, signal.SIGCONT)
    scene.until(lambda: job.poll() is not None, "the job's end", ENDING_SECONDS)
    if job.returncode == 0:
        steps.check_content(store.get("steps", "fetched"))
    scene.until(lambda: any("restarts" in line for line in scene.log_lines()), "the node's word about its lease")
    later_job(scene, store, node, mpi)
    node.stop()
    store.verify()


class SmallDisk:
    """A file system of its own, with little room."""

    def __init__(self, scene):
        image, self.mount = scene.folder / "disk.image", scene.new_folder("disk")
        with open(image, "wb") as file:
            file.truncate(DISK_MIB << 20)
        scene.run(["mkfs.ext4", "-q", "-m", "0", image])
        scene.run(["mount", "-o", "loop", image, self.mount])
        scene.at_end(lambda: subprocess.run(["umount", "--lazy", self.mount], check=False))

    def fill(self, left_bytes):
        with open(self.mount / "filler", "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"\1" * (1 << 20))
            except OSError:
                pass
            filler.truncate(filler.tell() - left_bytes)

    def empty(self):
        (self.mount / "filler").unlink()


@test(each=MPIS[:1], seconds=150)
def a_full_disk_fails_jobs_at_once_and_none_once_there_is_room(scene, mpi):
    disk = SmallDisk(scene)
    store = Store(scene, "disk/store")
    node = Node(scene, store.folder)
    for round in range(3):
        disk.fill(LEFT_BYTES)
        steps = Steps(scene, mpi, f"steps-{round}", 40)
        job = scene.start(store.run_command(steps.command, [node]))
        scene.until(lambda: job.poll() is not None, "the job's end", ENDING_SECONDS)
        check(job.returncode != 0, "the job went well on a full disk")
        disk.empty()
        later_job(scene, store, node, mpi)
        store.command("rm", store.at("later"))
    node.stop()


@test(seconds=60)
def run_ends_although_someone_has_stopped_its_own_node(scene):
    store = Store(scene)
    begun = scene.folder / "begun"
    job = scene.start(store.run_command(["sh", "-c", f"touch {begun} && exec sleep 3"]))
    scene.until(begun.exists, "the job's begin")
    (node,) = children(job.pid, "node")
    processes.kill(node, signal.SIGSTOP)
    scene.until(lambda: job.poll() is not None, "the job's end", 30)
    # Files the job left open could not be asked of it.
    check(job.returncode == 1, f"run ended with {job.returncode}")
    store.verify()


def children(parent, verb):
    """The ids of the processes that this one started for a verb of the command."""
    listed = subprocess.run(["ps", "--ppid", str(parent), "-o", "pid=,args="], capture_output=True, text=True, check=False)
    words = [line.split() for line in listed.stdout.splitlines()]
    return [int(pid) for pid, _, *arguments in words if arguments[:1] == [verb]]
