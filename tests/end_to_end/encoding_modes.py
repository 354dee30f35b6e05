"""How the blocks of a file are encoded is the program's to say, by an MPI hint, and the store's, by a model of its own."""

import os
import shutil

from stage.building import MPIS, THALWEG, own_program
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Store

RANKS = 2
FILE_BYTES = RANKS * (2 << 20)


def stored_bytes(scene, mpi, reduce, mode, when, model=None):
    """Of a store of its own: equal data are stored once."""
    store = Store(scene, f"store-{mode}-{when}{'-trained' if model else ''}")
    if model:
        shutil.copy(model, store.folder / "compression.model")
    command = launch(mpi, RANKS, own_program("encoding_mode", mpi), "SD:/out", mode, when)
    store.run(command, [store.start_node()], ["--reduce", reduce])
    check(len(store.get("out", f"out-{mode}-{when}").read_bytes()) == FILE_BYTES, "the file's length is wrong")
    store.verify()
    return store.stats()["stored_bytes"]


@test(each=[(mpi, reduce) for mpi in MPIS for reduce in ("node", "client")])
def a_file_is_encoded_in_the_mode_of_its_hint(scene, which):
    mpi, reduce = which
    unasked = stored_bytes(scene, mpi, reduce, "no-mode", "open")
    archival = stored_bytes(scene, mpi, reduce, "archival", "open")
    later = stored_bytes(scene, mpi, reduce, "archival", "later")
    scene.say(f"{FILE_BYTES} bytes: {unasked} stored, {archival} and {later} when asked for fewest")
    check(archival < 0.93 * unasked, f"archival took {archival} bytes, the store's own mode {unasked}")
    check(later < 0.93 * unasked, f"archival by MPI_File_set_info took {later} bytes, the store's own mode {unasked}")


@test(each=[(mpi, reduce) for mpi in MPIS for reduce in ("node", "client")])
def a_stores_own_model_chooses_wherever_blocks_are_encoded(scene, which):
    mpi, reduce = which
    noise, model = scene.folder / "noise", scene.folder / "noise.model"
    noise.write_bytes(os.urandom(16 << 20))
    scene.run([THALWEG, "train", noise, "--model", model])
    unasked = stored_bytes(scene, mpi, reduce, "no-mode", "open")
    trained = stored_bytes(scene, mpi, reduce, "no-mode", "open", model)
    scene.say(f"{FILE_BYTES} bytes: {unasked} stored, {trained} by a model that knows noise alone")
    check(trained > 1.5 * unasked, f"{trained} bytes are stored by another model, {unasked} by the built-in one")
