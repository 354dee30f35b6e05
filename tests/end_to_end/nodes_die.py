"""kill -9 of nodes while programs write through them: clients send again what was not durable, and no program notices."""

import time

from stage import processes
from stage.building import MPIS
from stage.link import Link
from stage.registry import check, test
from stage.steps import Steps
from stage.store import Node, Store

STEPS = 12
MAX_DEATHS = 6
# A program stays so long after its close: what breaks then still meets the job, and not the end of `thalweg run`.
STAY_MS = 800


def running_nodes(scene):
    return [pid for pid, words in scene.processes().items() if processes.is_node(words)]


def checked(scene, store, steps, job):
    """The job ended well, its file is whole, and the store is clean."""
    scene.wait_for(job)
    check(job.returncode == 0, f"the job ended with {job.returncode}")
    steps.check_content(store.get("steps", "fetched"))
    check(store.sessions() == [], "a session was left open")
    store.verify()
    store.command("collect", store.folder)
    store.verify()


@test(each=[(mpi, reduce) for mpi in MPIS for reduce in ("node", "client")], seconds=90)
def the_node_of_a_job_dies_at_random_moments(scene, which):
    mpi, reduce = which
    store = Store(scene)
    steps = Steps(scene, mpi, "steps", STEPS, pause_ms=50, stay_ms=STAY_MS)
    job = scene.start(store.run_command(steps.command, options=["--reduce", reduce]))
    scene.until(lambda: steps.journal().opened, "the file's opening")
    deaths = 0
    while not steps.journal().closed and deaths < MAX_DEATHS:
        time.sleep(scene.dice.uniform(0, 0.7))
        deaths += any([processes.kill(pid) for pid in running_nodes(scene)])
    check(deaths > 0, "the job ended before its node died once")
    checked(scene, store, steps, job)


@test(each=MPIS, seconds=90)
def a_node_is_stopped_in_good_order_and_started_again_while_ranks_write(scene, mpi):
    store = Store(scene)
    node = store.start_node()
    steps = Steps(scene, mpi, "steps", STEPS, pause_ms=50, stay_ms=STAY_MS)
    job = scene.start(store.run_command(steps.command, [node]))
    scene.until(lambda: steps.journal().opened, "the file's opening")
    stops = 0
    while not steps.journal().closed and stops < 3:
        time.sleep(scene.dice.uniform(0, 0.7))
        node.stop()
        stops += 1
        node = store.start_node(listen=node.address)
    check(stops > 0, "the job ended before its node was stopped once")
    checked(scene, store, steps, job)


@test(each=MPIS, seconds=90)
def one_of_two_nodes_dies_and_comes_back(scene, mpi):
    store = Store(scene)
    nodes = [store.start_node(), store.start_node()]
    steps = Steps(scene, mpi, "steps", STEPS, pause_ms=50)
    job = scene.start(store.run_command(steps.command, nodes), variables={"THALWEG_STRIPE_BYTES": str(1 << 16)})
    scene.until(lambda: steps.journal().opened, "the file's opening")
    for _ in range(3):
        time.sleep(scene.dice.uniform(0, 0.5))
        which = scene.dice.randrange(2)
        processes.kill(nodes[which].process.pid)
        nodes[which].process.wait()
        time.sleep(scene.dice.uniform(0, 0.5))
        nodes[which] = Node(scene, store.folder, listen=nodes[which].address)
    checked(scene, store, steps, job)
    for node in nodes:
        node.stop()


@test(each=MPIS, seconds=90)
def the_node_dies_while_files_close_at_received(scene, mpi):
    store = Store(scene)
    for round in range(3):
        steps = Steps(scene, mpi, "steps", 2, stay_ms=STAY_MS)
        job = scene.start(store.run_command(steps.command, options=["--ack", "received"]))
        scene.until(lambda: steps.journal().closing, "the close")
        time.sleep(scene.dice.uniform(0, 0.05))
        for pid in running_nodes(scene):
            processes.kill(pid)
        scene.wait_for(job)
        check(job.returncode == 0, f"round {round}: the job ended with {job.returncode}")
        steps.check_content(store.get("steps", f"fetched-{round}"))
    store.verify()


@test(each=MPIS, seconds=90)
def connections_break_at_random_moments(scene, mpi):
    store = Store(scene)
    link = Link(scene, store.start_node().address)
    steps = Steps(scene, mpi, "steps", STEPS, pause_ms=50, stay_ms=STAY_MS)
    job = scene.start(store.run_command(steps.command, [link]))
    scene.until(lambda: steps.journal().opened, "the file's opening")
    while not steps.journal().closed:
        time.sleep(scene.dice.uniform(0, 0.4))
        link.cut()
    checked(scene, store, steps, job)
