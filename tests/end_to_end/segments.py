"""Pieces on their way meet in segments, and equal segments are sent and stored once."""

from stage.building import MPIS, door_program, own_program
from stage.link import Link
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Store

SEGMENT_BYTES = 8192
RANKS = 4
# A file's stripe on each node; small, so that a small file lies on both.
STRIPES = {"THALWEG_STRIPE_BYTES": str(1 << 16)}
EQUAL_RANKS = 16
EQUAL_BYTES = 1 << 20


@test(each=MPIS)
def interleaved_pieces_of_4_ranks_over_2_nodes_become_whole_segments(scene, mpi):
    store = Store(scene)
    links = [Link(scene, store.start_node().address), Link(scene, store.start_node().address)]
    command = launch(mpi, RANKS, door_program(mpi, "interleaved"), "SD:/test-")
    printed = store.run(command, links, variables=STRIPES)
    check(" No Errors" in printed, "the program did not read back what it wrote")
    seen = store.stat("test-interleaved")
    whole = -(-seen["size"] // SEGMENT_BYTES)
    check(seen["segments"] == whole, f"{seen['size']} bytes became {seen['segments']} segments, not {whole}")
    for link in links:
        check(link.sent_bytes > seen["size"] // 4, f"one of the nodes got only {link.sent_bytes} bytes")
    store.verify()


@test(each=MPIS)
def ranks_that_open_one_path_alone_lose_no_slab(scene, mpi):
    store = Store(scene)
    command = launch(mpi, RANKS, door_program(mpi, "interleaved"), "SD:/test-")
    for _ in range(3):
        check(" No Errors" in store.run(command), "a slab is missing")
        seen = store.stat("test-slabs")
        check(seen["size"] == RANKS * 100000, f"the file has {seen['size']} bytes")
    store.verify()


def write_equal_data(scene, store, mpi, node, options):
    program = own_program("same_data", mpi)
    store.run(launch(mpi, EQUAL_RANKS, program, "SD:/same", EQUAL_BYTES), [node], options)
    fetched = store.get("same", "fetched").read_bytes()
    check(len(fetched) == EQUAL_RANKS * EQUAL_BYTES, f"the file has {len(fetched)} bytes")
    check(fetched == fetched[:EQUAL_BYTES] * EQUAL_RANKS, "the ranks' data differ")


@test(each=[(mpi, reduce) for mpi in MPIS for reduce in ("node", "client")])
def equal_data_of_16_ranks_is_stored_once(scene, which):
    mpi, reduce = which
    store = Store(scene)
    write_equal_data(scene, store, mpi, store.start_node(), ["--reduce", reduce])
    stats = store.stats()
    for figure in ("unique_bytes", "stored_bytes"):
        check(stats[figure] <= 1.05 * EQUAL_BYTES, f"{figure} is {stats[figure]}, one copy {EQUAL_BYTES}")
    store.verify()


@test(each=MPIS)
def equal_data_of_16_ranks_travels_once_when_clients_reduce(scene, mpi):
    """Counted on the link are all bytes to the node: names and all that the protocol costs are in it."""
    store = Store(scene)
    link = Link(scene, store.start_node().address)
    write_equal_data(scene, store, mpi, link, ["--reduce", "client"])
    scene.say(f"{link.sent_bytes} bytes went to the node, {link.received_bytes} came back")
    check(link.sent_bytes <= 1.05 * EQUAL_BYTES, f"{link.sent_bytes} bytes went, one copy is {EQUAL_BYTES}")
