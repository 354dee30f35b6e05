"""A program that names no file SD: does under `thalweg run` what it does without."""

import signal
import subprocess

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
    store.run(["/nowhere/program"], code=127)
    store.run([scene.folder], code=126)


@test
def the_exit_code_is_that_of_the_command_though_its_nodes_are_away(scene):
    store = Store(scene)
    for code, expected in ((7, 7), (0, 1)):
        node = store.start_node()
        store.run(["sh", "-c", f"kill -9 {node.process.pid}; exit {code}"], [node], code=expected)


@test
def a_program_is_not_started_when_its_nodes_are_away(scene):
    store = Store(scene)
    node = store.start_node()
    started = scene.folder / "started"
    store.run(["touch", started], [node])
    started.unlink()
    node.stop()
    said = scene.start(store.run_command(["touch", started], [node]), stderr=subprocess.PIPE, text=True).communicate()[1]
    check(not started.exists(), "it was started")
    check("was not started" in said and node.address in said, f"the message: {said}")


@test(seconds=30)
def a_run_does_not_wait_long_for_a_node_that_froze_at_its_end(scene):
    store = Store(scene)
    node = store.start_node()
    job = scene.start(store.run_command(["sh", "-c", f"kill -STOP {node.process.pid}; exit 7"], [node]))
    scene.until(lambda: job.poll() is not None, "the end of thalweg run", seconds=7)
    check(job.returncode == 7, f"it ended with {job.returncode}")


@test
def what_a_killed_run_left_is_removed_by_the_next(scene):
    store = Store(scene)
    began, folder = scene.folder / "began", scene.new_folder("temporary")
    command = store.run_command(["sh", "-c", f"touch {began}; sleep 100"])
    process = scene.start(command, variables={"TMPDIR": str(folder)})
    scene.until(began.exists, "the job to begin")
    process.kill()
    process.wait()
    check(len(list(folder.iterdir())) == 1, "the folder of the job's secret is there")
    store.run(["true"], variables={"TMPDIR": str(folder)})
    check(not list(folder.iterdir()), f"left: {list(folder.iterdir())}")


@test(each=("TERM", "INT", "HUP"))
def a_signal_for_the_run_is_for_the_job(scene, name):
    store = Store(scene)
    began, folder = scene.folder / "began", scene.new_folder("temporary")
    script = f"trap 'sleep 1; exit 9' {name}; touch {began}; while :; do sleep 0.05; done"
    command = store.run_command(["bash", "-c", script])
    process = scene.start(command, variables={"TMPDIR": str(folder)})
    scene.until(began.exists, "the job to begin")
    process.send_signal(getattr(signal, f"SIG{name}"))
    scene.wait_for(process)
    check(process.returncode == 9, f"it ended with {process.returncode}, before its job")
    check(not list(folder.iterdir()), "the folder of the job's secret was left")


@test
def a_job_ends_with_its_run_however_that_ends(scene):
    store = Store(scene)
    began, ended = scene.folder / "began", scene.folder / "ended"
    script = f"trap 'touch {ended}; exit' TERM; touch {began}; while :; do sleep 0.05; done"
    process = scene.start(store.run_command(["bash", "-c", script]))
    scene.until(began.exists, "the job to begin")
    process.kill()
    scene.until(ended.exists, "the job to get the signal to end")
