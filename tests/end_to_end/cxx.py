"""MPI's C++ class, which MPICH still has."""

from stage.building import RELEASE, ROOT
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Store

SOURCE = ROOT / "tests" / "programs" / "cxx_handlers.cpp"
LINKED = [f"-L{RELEASE / 'linked'}", "-lthalweg_mpich"]
STATIC_MPICH = ["-l:libmpichcxx.a", "-l:libmpich.a", "-lhwloc", "-lucp", "-lucs", "-lpthread", "-ldl", "-lm"]


def compiled(scene, *libraries):
    program = scene.new_folder("program") / "cxx_handlers"
    scene.run(["mpicxx.mpich", "-O1", "-Wno-cast-function-type", "-o", program, SOURCE, *libraries])
    return program


@test(seconds=120)
def errors_become_exceptions_and_call_handlers_once(scene):
    store = Store(scene)
    printed = store.run(launch("mpich", 1, compiled(scene), "SD:/file"), [store.start_node()])
    check(" No Errors" in printed, printed)


@test(seconds=120)
def errors_become_exceptions_where_the_door_is_linked(scene):
    store = Store(scene)
    program = compiled(scene, *LINKED, *STATIC_MPICH)
    variables = {"THALWEG_NODES": store.start_node().address}
    printed = scene.run(launch("mpich", 1, program, "SD:/file"), variables=variables)
    check(" No Errors" in printed, printed)
