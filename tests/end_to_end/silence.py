"""Nodes that are silent, slow, stopped or without room, and networks that swallow what is sent: every call of a program ends,
in success or with an error, within its timeout."""

import signal
import time

from stage import processes
from stage.apart import FAR, Apart
from stage.building import MPIS, THALWEG, own_program, preload
from stage.link import Link
from stage.mpi import launch
from stage.registry import check, test
from stage.steps import Steps
from stage.store import Node, Store

from .nodes_falter import SmallDisk, later_job

# THALWEG_TIMEOUT_S of programs that meet a node that stays silent, and what a call may take beyond it.
TIMEOUT_SECONDS = 10
SLACK_SECONDS = 5
STOP_SECONDS = [14, 25, 38]
DISK_LEFT_BYTES = 6 << 20
SLOW_MIB_S = 2
SLOW_RANKS, SLOW_MIB = 2, 15


class Phases:
    """One run of programs/silence.c: which of its calls ended how, and when."""

    def __init__(self, scene, mpi, path, wait="-", mib=4, ranks=2):
        self.scene, self.ranks = scene, ranks
        self.journal_path = scene.folder / f"phases-{path}"
        words = [f"SD:/{path}", self.journal_path, wait, mib]
        self.command = launch(mpi, ranks, own_program("silence", mpi), *words)

    def start(self, store, nodes, *options, **variables):
        self.job = self.scene.start(store.run_command(self.command, nodes, options), variables=variables)
        return self

    def lines(self):
        return self.journal_path.read_text().splitlines() if self.journal_path.exists() else []

    def wait_until_ready(self):
        self.scene.until(lambda: self.lines().count("ready") == self.ranks, "the ranks to be ready")

    def go(self):
        (self.scene.folder / (self.journal_path.name + ".go")).touch()

    def end(self, seconds):
        """Each call's phase, code and duration (s), once all ranks have come to their end."""
        since, finished = time.monotonic(), lambda: sum(line.startswith("finalize") for line in self.lines()) == self.ranks
        while not finished() and self.job.poll() is None:
            check(time.monotonic() < since + seconds, f"the ranks did not end within {seconds} s: {self.lines()}")
            time.sleep(0.05)
        self.scene.say(f"the ranks took {time.monotonic() - since:.1f} s: {self.lines()}")
        calls = [line.split(" ", 4) for line in self.lines() if line != "ready"]
        return [(phase, int(code), int(millis) / 1000) for phase, _, code, millis, *_ in calls]


def codes(calls, phase):
    return [code for called, code, _ in calls if called == phase]


# A disk without room.


@test(each=MPIS, seconds=60)
def every_open_or_close_ends_with_an_error_on_a_full_disk_and_run_too(scene, mpi):
    disk = SmallDisk(scene)
    store = Store(scene, "disk/store")
    node = Node(scene, store.folder)
    for left_bytes, mib in ((0, 2), (DISK_LEFT_BYTES, 2), (DISK_LEFT_BYTES, 4)):
        disk.fill(left_bytes)
        phases = Phases(scene, mpi, f"full-{left_bytes}-{mib}", mib=mib).start(store, [node])
        calls = phases.end(seconds=20)
        check(any(code for _, code, _ in calls), "no call failed on a full disk")
        check(all(codes(calls, "close")), "a close went well on a full disk")
        check(len(codes(calls, "finalize")) == 2, "a rank did not come to its end")
        # The program ignores all errors, and no session may be left.
        scene.until(lambda: phases.job.poll() is not None, "the job's end", 10)
        check(phases.job.returncode == 1, f"run ended with {phases.job.returncode}, and no file is stored")
        disk.empty()
        later_job(scene, store, node, mpi)
        store.command("rm", store.at("later"))
    node.stop()


# A node that stands still for a while.


def job_goes_on_after(scene, mpi, fault, seconds, store, node, start):
    """A job, started by `start`, that writes goes well though `fault`, called with a number of seconds, strikes in its
    midst."""
    steps = Steps(scene, mpi, "steps", 12, pause_ms=100)
    job = start(store.run_command(steps.command, [node]))
    scene.until(lambda: steps.journal().synced >= 2, "the second sync")
    fault(node, seconds)
    scene.until(lambda: job.poll() is not None, "the job's end", seconds=40)
    check(job.returncode == 0, f"the job ended with {job.returncode}")
    steps.check_content(store.get("steps", "fetched"))
    node.stop()
    store.verify()


def stop_for(node, seconds):
    processes.kill(node.process.pid, signal.SIGSTOP)
    time.sleep(seconds)
    processes.kill(node.process.pid, signal.SIGCONT)


@test(each=[(mpi, seconds) for mpi, seconds in zip(MPIS * 2, STOP_SECONDS)], seconds=100)
def a_job_goes_on_after_its_node_was_stopped(scene, case):
    mpi, seconds = case
    store = Store(scene)
    job_goes_on_after(scene, mpi, stop_for, seconds, store, store.start_node(), scene.start)


# A network that swallows everything.


@test(each=[("mpich", 13), ("openmpi", 25)], seconds=100)
def a_job_goes_on_after_the_network_lost_everything_for_a_while(scene, case):
    mpi, seconds = case
    apart, store = Apart(scene), Store(scene)
    node = apart_node(apart, store)

    def lose(_, seconds):
        apart.swallow()
        time.sleep(seconds)
        apart.swallow(False)

    job_goes_on_after(scene, mpi, lose, seconds, store, node, apart.start_near)


def apart_node(apart, store):
    return Node(apart.scene, store.folder, ["--insecure"], f"{FAR}:0", start=apart.start_far)


@test(each=[1, 3], seconds=60)
def opening_takes_three_seconds_with_nodes_that_swallow_everything(scene, count):
    apart, store = Apart(scene), Store(scene)
    node = apart_node(apart, store)
    names = [*apart.black_holes(count), node.address]
    # The command itself would wait for its nodes to answer before it starts the job.
    phases = Phases(scene, "mpich", "opened", mib=1, ranks=1)
    variables = {"THALWEG_NODES": ",".join(names), "LD_PRELOAD": str(THALWEG.parent / "libthalweg_door.so")}
    phases.job = apart.start_near(phases.command, variables=variables)
    calls = phases.end(seconds=40)
    check(not any(code for _, code, _ in calls), f"a call failed: {calls}")
    took = next(seconds for phase, _, seconds in calls if phase == "open")
    check(took < 8, f"opening took {took} s")
    check(store.stat("opened")["size"] == 2 << 20, "the file's size")


@test
def an_address_that_is_none_fails_an_open_at_once(scene):
    phases = Phases(scene, "mpich", "garbage", ranks=1)
    variables = {"THALWEG_NODES": "garbage", "LD_PRELOAD": str(THALWEG.parent / "libthalweg_door.so")}
    phases.job = scene.start(phases.command, variables=variables)
    calls = phases.end(seconds=20)
    check(codes(calls, "open") != [0] and all(seconds < 2 for _, _, seconds in calls), f"{calls}")


# A slow disk.


@test(each=MPIS, seconds=100)
def a_slow_disk_holds_programs_back_and_breaks_no_connection(scene, mpi):
    store = Store(scene)
    variables = {"LD_PRELOAD": str(preload("slow_disk")), "SLOW_DISK_MB_S": str(SLOW_MIB_S)}
    node = store.start_node("--staging-mib", "16", variables=variables)
    link = Link(scene, node.address)
    # A second of the disk's work lies in the buffers between client and node: its connections' windows close often.
    node.address = link.address
    connections = []
    for mib in (1, SLOW_MIB):
        phases = Phases(scene, mpi, f"slow-{mib}", mib=mib, ranks=SLOW_RANKS).start(store, [node])
        calls = phases.end(seconds=90)
        check(not any(code for _, code, _ in calls), f"a call failed: {calls}")
        scene.wait_for(phases.job)
        check(phases.job.returncode == 0, f"the job ended with {phases.job.returncode}")
        connections.append(len(link.open) // 2 - sum(connections))
    check(connections[1] == connections[0], f"{connections[0]} and then {connections[1]} connections: some broke")
    check(store.stat(f"slow-{SLOW_MIB}")["size"] == 2 * SLOW_RANKS * SLOW_MIB << 20, "the file's size")


@test(each=MPIS, seconds=120)
def a_sync_that_takes_longer_than_the_timeout_fails_nothing_while_the_disk_works(scene, mpi):
    store = Store(scene)
    node = store.start_node(variables={"LD_PRELOAD": str(preload("slow_disk")), "SLOW_DISK_MB_S": str(SLOW_MIB_S)})
    timeout = {"THALWEG_TIMEOUT_S": str(TIMEOUT_SECONDS)}
    phases = Phases(scene, mpi, "slow", mib=SLOW_MIB, ranks=SLOW_RANKS).start(store, [node], "--ack", "received", **timeout)
    calls = phases.end(seconds=100)
    check(not any(code for _, code, _ in calls), f"a call failed: {calls}")
    check(max(seconds for _, _, seconds in calls) > TIMEOUT_SECONDS, f"no sync was long: {calls}")
    scene.wait_for(phases.job)
    check(phases.job.returncode == 0, f"the job ended with {phases.job.returncode}")


# A node that is stopped for good.


@test(each=[("mpich", "write"), ("openmpi", "again"), ("mpich", "read"), ("openmpi", "close"), ("openmpi", "write")], seconds=60)
def every_call_ends_when_the_node_is_frozen_before(scene, case):
    mpi, phase = case
    frozen_before(scene, mpi, phase)


@test(each=MPIS, seconds=60)
def close_and_finalize_end_when_the_node_is_frozen_and_closes_wait_for_received_only(scene, mpi):
    frozen_before(scene, mpi, "close", "--ack", "received")


@test(each=[(mpi, "open") for mpi in MPIS] + [("mpich", "write"), ("openmpi", "close")], seconds=60)
def every_call_ends_when_three_nodes_are_frozen_before_and_the_link_decides_who_reduces(scene, case):
    mpi, phase = case
    frozen_before(scene, mpi, phase, "--reduce", "auto", nodes=3)


@test(each=[("mpich", "write", 0), ("openmpi", "read", 1), ("mpich", "close", 1)], seconds=100)
def no_call_takes_longer_than_the_timeout_when_one_node_of_two_is_frozen_before(scene, case):
    mpi, phase, frozen = case
    store = Store(scene)
    nodes = [store.start_node() for _ in range(2)]
    phases = Phases(scene, mpi, "frozen", wait=phase, mib=10).start(store, nodes, THALWEG_TIMEOUT_S=str(TIMEOUT_SECONDS))
    phases.wait_until_ready()
    processes.kill(nodes[frozen].process.pid, signal.SIGSTOP)
    phases.go()
    calls = phases.end(seconds=4 * TIMEOUT_SECONDS)
    check(not any(code for _, code, _ in calls), f"a call failed, though a node lives: {calls}")
    late = [call for call in calls if call[2] > TIMEOUT_SECONDS + SLACK_SECONDS]
    check(not late, f"these calls took long: {late}")


def frozen_before(scene, mpi, phase, *options, nodes=1):
    store = Store(scene)
    nodes = [store.start_node() for _ in range(nodes)]
    phases = Phases(scene, mpi, "frozen", wait=phase).start(store, nodes, *options, THALWEG_TIMEOUT_S=str(TIMEOUT_SECONDS))
    phases.wait_until_ready()
    for node in nodes:
        processes.kill(node.process.pid, signal.SIGSTOP)
    phases.go()
    calls = phases.end(seconds=2 * TIMEOUT_SECONDS + SLACK_SECONDS)
    scene.until(lambda: phases.job.poll() is not None, "the end of thalweg run", seconds=20)
    check(any(code for _, code, _ in calls) or phases.job.returncode, "nothing failed, though the node was silent")
    late = [call for call in calls if call[2] > TIMEOUT_SECONDS + SLACK_SECONDS]
    check(not late, f"these calls took long: {late}")
    # Launchers end the others as soon as one rank ends with a failure; the door delays a failing rank's end for them.
    check(len(codes(calls, "finalize")) == phases.ranks, "a rank did not come to its end")


# A client that is stopped while it holds a file's lock.

# A node ends the connection of one that is silent for 20 s.
LOCK_SECONDS = 20


@test(each=MPIS[:1], seconds=120)
def a_frozen_client_does_not_hold_a_lock_for_ever(scene, mpi):
    store = Store(scene)
    node = store.start_node()
    command = lambda seconds: launch(mpi, 1, own_program("atomically", mpi), "SD:/shared", seconds)  # noqa: E731
    scene.start(store.run_command(command(100), [node]))
    for attempt in range(3):
        scene.until(lambda: ranks_of(scene), "the first job")
        time.sleep(2)
        # It is at a write, and holds the lock, most of the time.
        stopped = ranks_of(scene)
        for pid in stopped:
            processes.kill(pid, signal.SIGSTOP)
        said = store.run(command(3), [node], code=None)
        longest = int(said.split("longest ")[1].split()[0]) / 1000
        check(longest < LOCK_SECONDS + SLACK_SECONDS, f"a write waited {longest} s for a frozen client's lock")
        if longest > LOCK_SECONDS / 2:
            return
        for pid in stopped:
            processes.kill(pid, signal.SIGCONT)
    check(False, "the first job never held the lock when it was stopped")


def ranks_of(scene):
    return [pid for pid, words in scene.processes().items() if processes.is_rank(words, "atomically")]
