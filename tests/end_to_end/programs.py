"""Every MPI program of mpi/tests on a real store: what it reads back is what it wrote, and equals its plain files."""

import struct

from stage.building import MPIS, door_program, door_programs, own_program, preload
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Store

# Programs whose ranks have several threads in the MPI library at once, or turn in it while they wait for many requests:
# two of these side by side once had four nodes wait a minute for a core (see preloads/patient_yield.c).
MANY_THREADS = {"threads", "nonblocking"}
EACH = [(mpi, name) for name in door_programs() for mpi in MPIS]


def play(scene, store, which, ranks, nodes=(), options=()):
    """Runs a program once, with a fresh folder for the plain files it compares with."""
    mpi, name = which
    plain = scene.new_folder(f"plain-{ranks}")
    command = launch(mpi, ranks, door_program(mpi, name), "SD:/test-", plain)
    variables = {"LD_PRELOAD": str(preload("patient_yield"))} if name in MANY_THREADS else {}
    printed = store.run(command, nodes, options, variables=variables)
    check(" No Errors" in printed, f"{name} on {ranks} ranks did not say that all is right")
    check(store.sessions() == [], f"{name} on {ranks} ranks left sessions open")


@test(each=EACH, seconds=120)
def programs_read_back_what_they_wrote(scene, which):
    store = Store(scene)
    for ranks in (1, 2, 4):
        play(scene, store, which, ranks)
    store.verify()


@test(each=EACH)
def programs_work_on_two_nodes(scene, which):
    store = Store(scene)
    nodes = [store.start_node(), store.start_node()]
    play(scene, store, which, 4, nodes)
    for node in nodes:
        node.stop()
    store.verify()


@test(each=EACH)
def programs_work_when_3_clients_reduce(scene, which):
    store = Store(scene)
    play(scene, store, which, 3, options=["--reduce", "client"])
    store.verify()


@test(each=[(mpi, name) for name in ("views", "interleaved", "pointer", "nonblocking") for mpi in MPIS])
def programs_work_when_close_returns_at_received(scene, which):
    store = Store(scene)
    play(scene, store, which, 2, options=["--ack", "received"])
    play(scene, store, which, 4, [store.start_node(), store.start_node()], ["--ack", "received"])
    store.verify()


@test(each=MPIS)
def equal_data_of_16_ranks_comes_back(scene, mpi):
    store = Store(scene)
    play(scene, store, (mpi, "equal"), 16)
    store.verify()


@test(each=MPIS)
def doubles_of_a_big_endian_machine_are_read_as_external32(scene, mpi):
    store = Store(scene)
    made = scene.folder / "doubles"
    made.write_bytes(struct.pack(">1000d", *(number / 8 for number in range(1000))))
    store.command("put", made, f"{store.place}::doubles")
    for ranks in (1, 3):
        printed = store.run(launch(mpi, ranks, own_program("big_endian", mpi), "SD:/doubles"))
        check(" No Errors" in printed, f"{ranks} ranks did not say that all is right")
