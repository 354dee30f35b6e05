"""MPI programs with the door linked in, libthalweg_mpich.a: nothing is preloaded."""

from stage.building import RELEASE, ROOT
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Store

PROGRAMS = ROOT / "mpi" / "tests" / "programs"
# What Debian's MPICH has to be linked with itself, beside the archive that holds it.
STATIC_MPICH = ["-l:libmpich.a", "-lhwloc", "-lucp", "-lucs", "-lpthread", "-ldl", "-lm"]
STATIC = ["views.c", "nonblocking.c", "shared.c", "splits.c", "types.c", "errors.c", "threads.c", "mpif.f90"]
LINKED = RELEASE / "linked"
F08 = f"@{LINKED / 'thalweg_mpich_f08.options'}"


def linked(scene, name, libraries):
    """Compiles a program of mpi/tests with the archive in front of MPICH's libraries."""
    program = scene.new_folder(name.replace(".", "-")) / "program"
    language = ["mpif90.mpich"] if name.endswith(".f90") else ["mpicc.mpich", "-Wno-stringop-overflow", f"-I{ROOT}/mpi/tests"]
    door = [f"-L{LINKED}", "-lthalweg_mpich"]
    modules = ["-J", program.parent] if name.endswith(".f90") else []
    scene.run([*language, "-O1", *modules, "-o", program, PROGRAMS / name, *door, *libraries])
    return program


def play(scene, program):
    """Runs it at a node, as a user would: only the node's address is given."""
    store = Store(scene)
    node = store.start_node()
    for ranks in (1, 3):
        plain = scene.new_folder(f"plain-{ranks}")
        printed = scene.run(launch("mpich", ranks, program, "SD:/test-", plain), variables={"THALWEG_NODES": node.address})
        check(" No Errors" in printed, f"on {ranks} ranks it did not say that all is right")
    node.stop()
    store.verify()


@test(each=STATIC, seconds=180)
def programs_linked_with_the_door_and_mpich_read_back_what_they_wrote(scene, name):
    fortran = ["-l:libmpichfort.a"] if name.endswith(".f90") else []
    program = linked(scene, name, [*fortran, *STATIC_MPICH])
    check("libmpich" not in scene.run(["ldd", program]), "MPICH is linked statically")
    play(scene, program)


@test
def a_program_of_mpi_f08_linked_with_the_door_reads_back_what_it_wrote(scene):
    play(scene, linked(scene, "mpi_f08_binding.f90", [F08, "-l:libmpichfort.a", *STATIC_MPICH]))


@test
def the_linked_door_serves_shared_mpich_too(scene):
    play(scene, linked(scene, "views.c", ["-lpthread", "-ldl", "-lm"]))


@test
def error_handlers_of_fortran_are_called_by_mpi_where_the_door_is_linked(scene):
    play(scene, linked(scene, "error_handlers.f90", ["-l:libmpichfort.a", *STATIC_MPICH]))


@test
def a_linked_program_that_names_no_store_is_not_disturbed(scene):
    program = linked(scene, "untouched.c", STATIC_MPICH)
    scene.run(launch("mpich", 2, program, scene.new_folder("plain")))
