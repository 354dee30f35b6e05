"""Nodes near their clients (`thalweg node --upstream`): what is written there is in the far store once it is committed, and
what was read once does not travel again."""

import time

from stage import processes, trees
from stage.building import MPIS, THALWEG
from stage.link import Link
from stage.registry import check, test
from stage.steps import Steps
from stage.store import Node, Store

from .remote import tree

MAX_DEATHS = 4


class Far:
    """A store, its node, and a counted link to it."""

    def __init__(self, scene):
        self.scene, self.store = scene, Store(scene)
        self.node = self.store.start_node()
        self.link = Link(scene, self.node.address)

    def near_node(self, listen="127.0.0.1:0", upstream=None, **settings):
        options = ["--upstream", f"thalweg://{upstream or self.link.address}"]
        return Node(self.scene, self.scene.folder / "near", options, listen=listen, **settings)


@test(each=[(mpi, reduce) for mpi in MPIS for reduce in ("node", "client")], seconds=120)
def what_a_job_writes_through_a_near_node_is_in_the_far_store(scene, which):
    mpi, reduce = which
    far = Far(scene)
    near = far.near_node()
    for name in ("steps", "again"):
        steps = Steps(scene, mpi, name, 4)
        scene.run(far.store.run_command(steps.command, [near], ["--reduce", reduce]))
        steps.check_content(far.store.get(name, f"{name} from far"))
        steps.check_content(far.store.through(near).get(name, f"{name} from near"))
    check(far.store.through(near).sessions() == [], "a session was left open")
    near.stop()
    far.store.verify()


@test
def readers_of_one_file_fetch_it_over_the_link_once(scene):
    far = Far(scene)
    source, size = scene.folder / "source", 24 << 20
    source.write_bytes(scene.dice.randbytes(size))
    far.store.command("put", source, far.store.at("file"))
    store = far.store.through(far.near_node())
    fetched = [scene.folder / f"fetched {number}" for number in range(4)]
    gets = [scene.start([THALWEG, "get", store.at("file"), name]) for name in fetched]
    for get in gets:
        scene.wait_for(get)
        check(get.returncode == 0, f"get ended with {get.returncode}")
    came = far.link.received_bytes
    check(size < came < 1.1 * size, f"{came} bytes came over the link for {size} bytes")
    store.get("file", "once more")
    check(far.link.received_bytes - came < 0.01 * size, f"{far.link.received_bytes - came} bytes came again")
    for name in [*fetched, scene.folder / "once more"]:
        scene.run(["cmp", source, name])


@test(seconds=120)
def a_tree_through_a_near_node_is_the_far_stores(scene):
    far, source = Far(scene), tree(scene)
    store = far.store.through(far.near_node())
    store.command("put", source, store.at())
    check(store.listing() == far.store.listing(), "ls shows other things near")
    trees.check_equal(source, far.store.get("source", "from far", "--privileged"))
    trees.check_equal(source, store.get("source", "from near", "--privileged"))
    before = far.store.stats()["stored_bytes"]
    check(store.stats() == far.store.stats(), "stats shows other things near")
    sent = far.link.sent_bytes
    store.command("put", source, store.at())
    check(far.store.stats()["stored_bytes"] < 1.01 * before, "a second put stored more than 1 %")
    check(far.link.sent_bytes - sent < 0.1 * sent, "a second put sent content again")
    store.command("mv", store.at("source/run"), store.at("source/ran"))
    store.command("rm", "-r", store.at("source/empty"))
    check("source/ran" in far.store.listing("source"), "mv is not seen in the far store")
    check(len(store.json("snapshots", store.place)) == len(far.store.json("snapshots", far.store.place)), "snapshots differ")
    far.store.verify()


@test(each=["near", "far"], seconds=150)
def a_node_on_either_side_dies_while_ranks_write(scene, which):
    far = Far(scene)
    # Not over the link, which ends with its server.
    near = far.near_node(upstream=far.node.address)
    steps = Steps(scene, MPIS[0], "steps", 12, pause_ms=50, stay_ms=800)
    job = scene.start(far.store.run_command(steps.command, [near]))
    scene.until(lambda: steps.journal().opened, "the file's opening")
    deaths = 0
    while not steps.journal().closed and deaths < MAX_DEATHS:
        time.sleep(scene.dice.uniform(0, 0.7))
        dying = near if which == "near" else far.node
        processes.kill(dying.process.pid)
        dying.process.wait()
        deaths += 1
        if which == "near":
            near = far.near_node(listen=near.address, upstream=far.node.address)
        else:
            far.node = Node(scene, far.store.folder, listen=far.node.address)
    check(deaths > 0, "the job ended before its node died once")
    scene.wait_for(job)
    check(job.returncode == 0, f"the job ended with {job.returncode}")
    steps.check_content(far.store.get("steps", "fetched"))
    near.stop()
    far.store.verify()


@test(seconds=90)
def a_command_through_a_near_node_waits_for_a_far_one_that_is_away(scene):
    far, source = Far(scene), scene.folder / "source"
    source.write_bytes(scene.dice.randbytes(1 << 20))
    store = far.store.through(far.near_node(upstream=far.node.address))
    store.command("put", source, store.at("file"))
    processes.kill(far.node.process.pid)
    far.node.process.wait()
    move = scene.start([THALWEG, "mv", store.at("file"), store.at("moved")])
    # A command itself waits 15 s for a node that is lost.
    time.sleep(18)
    check(move.poll() is None, "the command did not wait")
    far.node = Node(scene, far.store.folder, listen=far.node.address)
    scene.wait_for(move)
    check(move.returncode == 0, f"mv ended with {move.returncode}")
    check(set(store.listing()) == set(far.store.listing()) == {"moved"}, "the file was not moved")


@test(seconds=180)
def what_was_synced_is_recovered_at_once_after_a_long_absence_of_the_far_node(scene):
    far = Far(scene)
    near = far.near_node(upstream=far.node.address, variables={"THALWEG_TIMEOUT_S": "8"})
    steps = Steps(scene, MPIS[0], "steps", 40, pause_ms=100)
    job = scene.start(far.store.run_command(steps.command, [near]))
    scene.until(lambda: steps.journal().synced >= 2, "a sync")
    processes.kill(far.node.process.pid)
    far.node.process.wait()
    scene.wait_for(job)
    check(job.returncode != 0, "the job did not notice that the far node was away")
    store, journal = far.store.through(near), steps.journal()
    # Longer than the near node's lease at the far store.
    time.sleep(36)
    far.node = Node(scene, far.store.folder, listen=far.node.address)
    # For two seconds after its last attempt a near node does not ask a far one again that was away for so long.
    time.sleep(3)
    store.command("recover", store.at("steps"))
    steps.check_content(far.store.get("steps", "fetched"), journal.synced, journal.started)
    check(store.sessions() == [], "a session was left open")
    far.store.verify()


@test(seconds=120)
def the_end_of_a_container_that_was_never_closed_is_no_damage_to_a_near_node(scene):
    far, source, log = Far(scene), scene.folder / "source", scene.folder / "far.log"
    source.write_bytes(scene.dice.randbytes(12 << 20))
    there = far.store.through(far.node)
    there.command("put", source, there.at("file"))
    processes.kill(far.node.process.pid)
    far.node.process.wait()
    # Until the killed node's lease ends, its container may still grow.
    time.sleep(31)
    with log.open("w") as stderr:
        far.node = Node(scene, far.store.folder, listen=far.node.address, stderr=stderr)
    store = far.store.through(far.near_node(upstream=far.node.address))
    # Piece by piece, so that the near node asks for what follows.
    for at in range(0, 12 << 20, 1 << 20):
        piece = store.get("file", f"piece at {at}", "--range", f"{at}:{1 << 20}")
        check(piece.read_bytes() == source.read_bytes()[at : at + (1 << 20)], f"the bytes at {at} are others")
    time.sleep(1)
    check("damaged" not in log.read_text(), log.read_text())
    far.store.verify()


@test
def a_near_node_that_the_far_one_refuses_says_which_option_is_meant(scene):
    store = Store(scene)
    for name in ("secret", "other"):
        store.command("secret", scene.folder / name)
    node = store.start_node("--secret-file", scene.folder / "secret")
    start = ["node", scene.folder / "near", "--listen", "127.0.0.1:0", "--upstream", f"thalweg://{node.address}"]
    for options in (["--secret-file", scene.folder / "secret"], ["--insecure", "--upstream-secret-file", scene.folder / "other"]):
        said = store.command(*start, *options, code=1, stderr=-2)
        check("the far node" in said and "--upstream-secret-file" in said, f"it said {said}")


@test
def a_near_store_is_no_store_of_its_own(scene):
    far = Far(scene)
    node = far.near_node()
    far.store.through(node).listing()
    node.stop()
    near = scene.folder / "near"
    far.store.command("ls", f"{near}::", code=1)
    far.store.command("put", __file__, f"{near}::", code=1)
    far.store.command("node", near, "--listen", "127.0.0.1:0", code=1)
    far.store.command("node", far.store.folder, "--upstream", f"thalweg://{far.node.address}", code=1)
    far.store.command("node", near, "--upstream", far.store.folder, code=2)
