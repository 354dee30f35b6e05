"""Parallel HDF5, unmodified, on a file of ours: the HDF5 tools find in it what they find in a plain one."""

from stage.building import MPIS, door_program
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Store


@test(each=MPIS)
def hdf5_tools_find_the_same_in_our_file_and_in_a_plain_one(scene, mpi):
    store = Store(scene)
    plain, program = scene.new_folder("plain"), door_program(mpi, "hdf5")
    scene.run(launch(mpi, 4, program, f"{plain}/test-"))
    check(" No Errors" in store.run(launch(mpi, 4, program, "SD:/run/test-")), "the program found errors")
    store.verify()
    fetched = store.get("run", "fetched")
    scene.run(["h5diff", "-v", plain / "test-hdf5.h5", fetched / "test-hdf5.h5"])
    dumps = [scene.run(["h5dump", "test-hdf5.h5"], cwd=folder) for folder in (plain, fetched)]
    check("DATASET \"chunks\"" in dumps[0], "h5dump does not show the dataset")
    check(dumps[0] == dumps[1], "h5dump finds the two files different")
