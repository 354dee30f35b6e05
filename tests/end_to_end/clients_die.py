"""kill -9 of programs while they write: nothing unfinished passes for finished, and what was synced is not lost."""

import os
import time

from stage import processes
from stage.building import MPIS, THALWEG, own_program
from stage.loop import Loop
from stage.registry import check, test
from stage.steps import Steps
from stage.store import Store

ROUNDS = 2
MANY_STEPS = 1000
STAY_MS = 600_000
# A session without a node ends when its lease does; a client without connections is given up by its node.
LEASE_SECONDS = 45


def ranks_of(scene):
    return [pid for pid, words in scene.processes().items() if processes.is_rank(words, "steps")]


def kill_a_rank(scene):
    processes.kill(scene.dice.choice(ranks_of(scene)))


def kill_the_launcher(scene):
    found = [pid for pid, words in scene.processes().items() if os.path.basename(words[0]).startswith("mpi")]
    for pid in found:
        processes.kill(pid)


def kill_everything(scene):
    processes.end_marked(scene.mark)


VICTIMS = {"a rank": kill_a_rank, "the launcher": kill_the_launcher, "everything": kill_everything}


def killed_run(scene, store, mpi, victim, path="steps", nodes=()):
    """A job that dies at a random moment after a first sync; its steps as they were then."""
    steps = Steps(scene, mpi, path, MANY_STEPS, pause_ms=scene.dice.randrange(30))
    job = scene.start(store.run_command(steps.command, nodes))
    synced = scene.dice.randint(1, 5)
    scene.until(lambda: steps.journal().synced >= synced, "the first syncs")
    time.sleep(scene.dice.uniform(0, 0.1))
    VICTIMS[victim](scene)
    scene.wait_for(job)
    check(job.returncode != 0, "the job ended as if nothing had happened")
    scene.until(lambda: not ranks_of(scene), "the ranks' end")
    check(not steps.journal().closing, "the program came to its end")
    return steps


def check_recovery(scene, store, steps, path="steps"):
    """The interrupted session is shown, and what was checkpointed of it is a state the program had passed."""
    journal = steps.journal()
    interrupted = lambda: [session for session in store.sessions() if session["state"] == "interrupted"]
    found = scene.until(interrupted, "the session to be shown as interrupted", LEASE_SECONDS)
    check([session["path"] for session in found] == [path], f"these are interrupted: {found}")
    check(found[0]["checkpoints"] > 0, "it has no checkpoint")
    store.command("recover", store.at(path))
    steps.check_content(store.get(path, f"recovered-{path}"), journal.synced, journal.started)
    check(store.sessions() == [], "the session is still there")


@test(each=[(mpi, victim) for mpi in MPIS for victim in ("a rank", "the launcher")], seconds=100)
def a_killed_program_leaves_no_version_but_what_it_synced(scene, which):
    mpi, victim = which
    store = Store(scene)
    collecting = Loop(scene, THALWEG, "collect", store.folder, "--quiet")
    for path in map(str, range(ROUNDS)):
        first = Steps(scene, mpi, path, 1)
        store.run(first.command)
        steps = killed_run(scene, store, mpi, victim, path)
        check(len(store.stat(path)["versions"]) == 1, "a version appeared without a commit")
        first.check_content(store.get(path, f"head-{path}"))
        check_recovery(scene, store, steps, path)
        store.verify()
    collecting.end()
    next_run_works(scene, store, mpi)


def next_run_works(scene, store, mpi):
    again = Steps(scene, mpi, "another", 2)
    store.run(again.command)
    again.check_content(store.get("another", "another"))
    store.command("collect", store.folder)
    store.verify()


@test(each=MPIS, seconds=100)
def what_was_synced_survives_the_death_of_all_processes(scene, mpi):
    store = Store(scene)
    steps = killed_run(scene, store, mpi, "everything")
    store.command("get", store.at("steps"), scene.folder / "nothing", code=1)
    next_run_works(scene, store, mpi)
    check_recovery(scene, store, steps)
    store.verify()


@test(each=[(mpi, victim) for mpi, victim in zip(MPIS * 2, VICTIMS)], seconds=100)
def the_next_run_on_the_same_path_finds_nothing_unfinished(scene, which):
    mpi, victim = which
    store = Store(scene)
    killed_run(scene, store, mpi, victim)
    steps = Steps(scene, mpi, "steps", 1)
    store.run(steps.command)
    steps.check_content(store.get("steps", "fetched"))
    store.verify()


@test(seconds=100)
def a_session_is_interrupted_when_its_client_dies_and_the_nodes_live_on(scene):
    store = Store(scene)
    nodes = [store.start_node(), store.start_node()]
    steps = killed_run(scene, store, "openmpi", "the launcher", nodes=nodes)
    check_recovery(scene, store.through(nodes[1]), steps)
    for node in nodes:
        node.stop()
    store.verify()


@test(each=MPIS)
def a_file_whose_close_returned_is_a_version_after_any_death(scene, mpi):
    store = Store(scene)
    steps = Steps(scene, mpi, "steps", 3, stay_ms=STAY_MS)
    job = scene.start(store.run_command(steps.command))
    scene.until(lambda: steps.journal().closed, "the close")
    kill_everything(scene)
    scene.wait_for(job)
    steps.check_content(store.get("steps", "fetched"))
    store.verify()


@test(each=MPIS)
def a_program_may_end_as_soon_as_it_has_closed_its_files(scene, mpi):
    store = Store(scene)
    program = own_program("ends_early", mpi)
    store.run([program, "SD:/out", "closed"])
    check(store.get("out", "fetched").read_bytes() == b"stored", "the file has something else")
    store.run([program, "SD:/out", "open"], code=1)
    check("out was not closed" in scene.log_lines()[-1], "the open file is not reported")
    store.verify()


@test(each=MPIS)
def what_close_at_received_returned_for_is_not_lost_with_its_client(scene, mpi):
    store = Store(scene)
    steps = Steps(scene, mpi, "steps", 3, stay_ms=STAY_MS)
    job = scene.start(store.run_command(steps.command, options=["--ack", "received"]))
    scene.until(lambda: steps.journal().closed, "the close")
    kill_the_launcher(scene)
    scene.wait_for(job)
    if store.sessions():
        store.command("recover", store.at("steps"))
    steps.check_content(store.get("steps", "fetched"))
    store.verify()
