"""A program that names no file SD: does under `thalweg run` what it does without."""

from stage import trees
from stage.building import MPIS, door_program
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Store


@test(each=MPIS)
def programs_without_our_names_behave_as_before(scene, mpi):
    store = Store(scene)
    program = door_program(mpi, "untouched")
    without, beneath = scene.new_folder("without"), scene.new_folder("beneath")
    printed = scene.run(launch(mpi, 2, program, without))
    check(store.run(launch(mpi, 2, program, beneath)) == printed, "it prints something else")
    trees.check_equal(without, beneath, with_attributes=False)
    check(store.listing() == {}, "something went to the store")


@test
def the_exit_code_of_the_command_is_that_of_the_run(scene):
    store = Store(scene)
    store.run(["sh", "-c", "exit 7"], code=7)
    store.run(["sh", "-c", "kill -TERM $$"], code=128 + 15)
    store.run(["true"])
