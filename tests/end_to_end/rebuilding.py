"""Containers are the truth: catalog and table are deleted and made again, and nothing is missing."""

from stage import trees
from stage.building import MPIS, door_program, own_program
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Store


def filled(scene, mpi):
    """A store after MPI writes, puts of several versions, a removal, and a renaming."""
    store = Store(scene)
    store.run(launch(mpi, 3, door_program(mpi, "views"), "SD:/views/"))
    store.run(launch(mpi, 2, own_program("steps", mpi), "SD:/steps", scene.folder / "journal", 3))
    source = scene.new_folder("source")
    for name in ("kept", "moved", "removed"):
        (source / name).write_bytes(scene.dice.randbytes(300_000))
    store.command("put", source, store.at("put/"))
    (source / "kept").write_bytes(scene.dice.randbytes(200_000))
    (source / "link").symlink_to("kept")
    store.command("put", source, store.at("put/"))
    store.command("mv", store.at("put/source/moved"), store.at("elsewhere"))
    store.command("rm", store.at("put/source/removed"))
    store.command("collect", store.folder)
    return store


def remove_catalog(store):
    for path in store.folder.glob("catalog.sqlite*"):
        path.unlink()


def remove_table(store):
    for path in (store.folder / "table").iterdir():
        path.unlink()


LOSSES = {
    "catalog": (remove_catalog, ["--rebuild-catalog"]),
    "table": (remove_table, ["--rebuild-table"]),
    "both": (lambda store: (remove_catalog(store), remove_table(store)), ["--rebuild-catalog", "--rebuild-table"]),
}


@test(each=[(mpi, loss) for mpi, loss in zip(MPIS * 2, LOSSES)])
def a_store_is_made_again_from_its_containers(scene, which):
    mpi, loss = which
    remove, options = LOSSES[loss]
    store = filled(scene, mpi)
    listing, stats, before = store.listing(), store.stats(), store.get("", "before")
    versions = store.stat("put/source/kept")["versions"]
    remove(store)
    store.verify(*options)
    check(store.listing() == listing, "the listing has changed")
    check(store.stat("put/source/kept")["versions"] == versions, "the versions have changed")
    trees.check_equal(before, store.get("", "after"))
    for figure in ("logical_bytes", "unique_bytes", "files", "segments"):
        check(store.stats()[figure] == stats[figure], f"{figure} was {stats[figure]}, is {store.stats()[figure]}")
    go_on(scene, store, mpi)


def go_on(scene, store, mpi):
    """The rebuilt store takes new writes, and knows its segments."""
    before = store.stats()
    store.run(launch(mpi, 2, own_program("steps", mpi), "SD:/steps again", scene.folder / "journal", 3))
    check(store.stats()["unique_bytes"] == before["unique_bytes"], "equal segments were stored again")
    check(store.get("steps again", "again").read_bytes() == store.get("steps", "first").read_bytes(), "they differ")
    store.command("collect", store.folder)
    store.verify()
