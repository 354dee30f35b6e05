"""MPI_File_set_size is durable when it returns, whatever becomes of the node."""

from stage import processes
from stage.building import MPIS, own_program
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Node, Store

RANKS = 2
# Cut within a stripe's segment, at its beginning, and grown.
SIZES = [(300_000, 123_457), (1 << 21, 1 << 20), (100_000, 250_001)]


@test(each=[(mpi, *sizes) for mpi, sizes in zip(MPIS * 2, SIZES + SIZES[:1])], seconds=60)
def a_size_that_was_set_outlives_its_nodes(scene, case):
    mpi, before, after = case
    store = Store(scene)
    nodes = [store.start_node(), store.start_node()]
    journal = scene.folder / "journal"
    command = launch(mpi, RANKS, own_program("cut", mpi), "SD:/cut", journal, before, after)
    job = scene.start(store.run_command(command, nodes), variables={"THALWEG_STRIPE_BYTES": str(1 << 16)})
    scene.until(journal.exists, "the cut")
    for node in nodes:
        processes.kill(node.process.pid)
        node.process.wait()
    shown = [session["size"] for session in store.sessions()]
    check(shown == [after], f"`sessions` shows {shown}, and not {after}")
    listed = store.listing()["cut"]["size"]
    check(listed == after, f"`ls` shows {listed}, and not {after}")
    nodes = [Node(scene, store.folder, listen=node.address) for node in nodes]
    (scene.folder / "journal.go").touch()
    scene.wait_for(job)
    check(job.returncode == 0, f"the job ended with {job.returncode}")
    content = store.get("cut", "fetched").read_bytes()
    written = bytes(at % 251 for at in range(before))
    wanted = written[:after] + bytes(max(after - before, 0))
    check(len(content) == after, f"the file has {len(content)} bytes, and not {after}")
    check(content == wanted, "the file's bytes are not those written")
    for node in nodes:
        node.stop()
    store.verify()
