"""LAMMPS as Debian packages it, its dumps going to a store: the same bytes as without."""

from stage import trees
from stage.building import ROOT
from stage.mpi import launch
from stage.registry import test
from stage.store import Store

SMALL = ["-var", "edge", "8", "-var", "steps", "40", "-var", "every", "20"]


def lammps(out):
    script = ROOT / "examples" / "lammps" / "in.melt"
    return launch("openmpi", 4, "lmp", "-log", "none", "-in", script, "-var", "out", out, *SMALL)


@test
def lammps_dumps_come_back_byte_for_byte(scene):
    store = Store(scene)
    plain = scene.new_folder("plain")
    scene.run(lammps(plain))
    nodes = [store.start_node(), store.start_node()]
    store.run(lammps("SD:/melt"), nodes)
    trees.check_equal(plain, store.get("melt", "fetched"), with_attributes=False)
    store.verify()
