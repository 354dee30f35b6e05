"""Files whose data was dropped: what MPI programs and readers at near nodes get of them, before and after `recompute`."""

import json

from stage.building import MPIS, THALWEG, own_program
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Store

from .near_nodes import Far

RANKS = 2


def record(scene, store, path="out"):
    """Records a command whose output is the path's, and gives the recipe's name and a plain file of the same content."""
    script = f"seq 1 5000 > {path}"
    recipe = json.loads(store.command("record", "--json", store.at(path), "--", "sh", "-c", script))["recipe"]
    plain = scene.folder / "plain"
    plain.write_text("".join(f"{number}\n" for number in range(1, 5001)))
    return recipe, plain


def drop(store, path="out"):
    store.command("drop", "--recomputable", store.at(path))


def run(scene, mpi, store, nodes, *words):
    """Runs the program, and gives what it prints."""
    said = store.run(launch(mpi, RANKS, own_program("dropped", mpi), *words), nodes, stderr=-2)
    check(" No Errors" in said, f"it said: {said[:800]}")
    return said


def check_refusals(said, recipe, command=None):
    """One from each rank for each mode of opening."""
    refusals = [line for line in said.splitlines() if line.startswith("mode ")]
    check(len(refusals) == 3 * RANKS, f"{len(refusals)} errors: {said}")
    for line in refusals:
        parts = ("the data was dropped", f"recipe {recipe} makes it again in about ", " s: `thalweg")
        has_all = all(part in line for part in parts)
        check(has_all and line.endswith("[TW-808]"), f"it said: {line}")
        check(command is None or command in line, f"it said: {line}")


@test(each=MPIS)
def a_program_learns_what_makes_a_dropped_file_again(scene, mpi):
    store = Store(scene)
    node = store.start_node()
    recipe, plain = record(scene, store)
    drop(store)
    check_refusals(run(scene, mpi, store, [node], "refused", "SD:/out"), recipe, "thalweg recompute STORE::out")
    store.command("recompute", store.at("out"))
    store.run(launch(mpi, RANKS, own_program("same_as", mpi), "SD:/out", plain), [node])
    drop(store)
    store.command("collect", store.folder)
    run(scene, mpi, store, [node], "replace", "SD:/out")
    check(store.get("out", "replaced").read_text() == "new new ", "what was written instead is not there")
    node.stop()
    store.verify()


@test(each=MPIS)
def an_error_about_a_long_name_has_recipe_time_and_code(scene, mpi):
    store, path = Store(scene), "/".join(["a-directory-with-a-long-name"] * 3) + "/out"
    recipe, _ = record(scene, store, path)
    drop(store, path)
    said = run(scene, mpi, store, [], "refused", f"SD:/{path}")
    check_refusals(said, recipe)


def start_at_opened(scene, mpi, store, node, *words):
    """Starts the program, and returns when it has opened its file."""
    stage = scene.folder / "stage"
    program = launch(mpi, RANKS, own_program("dropped", mpi), *words, stage)
    job = scene.start(store.run_command(program, [node]), stdout=-1, stderr=-2)
    scene.until((scene.folder / "stage.opened").exists, "the file's opening")
    return job


def said_at_end(scene, job):
    (scene.folder / "stage.go").touch()
    said = scene.wait_for(job).decode()
    scene.say(said)
    return said


@test(each=MPIS)
def a_file_that_programs_have_open_is_not_dropped(scene, mpi):
    store = Store(scene)
    _, plain = record(scene, store)
    job = start_at_opened(scene, mpi, store, store.start_node(), "held", "SD:/out", plain)
    said = store.command("drop", "--recomputable", store.at("out"), code=1, stderr=-2)
    check("a program has it open" in said and "[TW-809]" in said, f"it said: {said}")
    said_at_end(scene, job)
    check(job.returncode == 0, f"the job ended with {job.returncode}")
    drop(store)


@test(each=MPIS)
def a_far_store_drops_what_programs_read_at_a_near_node_and_they_read_on(scene, mpi):
    far = Far(scene)
    _, plain = record(scene, far.store)
    job = start_at_opened(scene, mpi, far.store, far.near_node(), "held", "SD:/out", plain)
    drop(far.store)
    far.store.command("collect", far.store.folder)
    said = said_at_end(scene, job)
    check(job.returncode == 0 and " No Errors" in said, f"it ended with {job.returncode}")


@test(each=MPIS)
def writes_at_a_near_node_into_a_file_that_the_far_store_dropped_fail(scene, mpi):
    far = Far(scene)
    recipe, plain = record(scene, far.store)
    near = far.near_node()
    job = start_at_opened(scene, mpi, far.store, near, "written", "SD:/out")
    drop(far.store)
    said = said_at_end(scene, job)
    check(job.returncode != 0 and "[TW-808]" in said and recipe in said, f"it ended with {job.returncode}: {said}")
    far.store.command("recompute", far.store.at("out"))
    check(far.store.get("out", "recomputed").read_bytes() == plain.read_bytes(), "the content differs")


@test(each=MPIS, seconds=120)
def a_reader_at_a_near_node_gets_what_the_far_store_has_of_a_dropped_file(scene, mpi):
    far = Far(scene)
    near = far.near_node()
    store = far.store.through(near)
    recipe, plain = record(scene, far.store)
    check(store.get("out", "before").read_bytes() == plain.read_bytes(), "the content differs")
    drop(far.store)
    far.store.command("collect", far.store.folder)
    said = scene.run([THALWEG, "cat", store.at("out")], code=None, stderr=-2)
    check(f"recipe {recipe} makes it again" in said and "[TW-808]" in said, f"it said: {said[:500]}")
    check_refusals(run(scene, mpi, store, [near], "refused", "SD:/out"), recipe)
    far.store.command("recompute", far.store.at("out"))
    check(store.get("out", "after").read_bytes() == plain.read_bytes(), "the content differs")
    store.run(launch(mpi, RANKS, own_program("same_as", mpi), "SD:/out", plain), [near])
    # And the other way round: all through the near node.
    drop(store)
    said = scene.run([THALWEG, "cat", far.store.at("out")], code=None, stderr=-2)
    check("[TW-808]" in said, f"it said: {said[:500]}")
    check(store.command("cat", "--recompute", store.at("out")).encode() == plain.read_bytes(), "the content differs")
    store.command("recompute", store.at("out"))
    check(far.store.get("out", "from far").read_bytes() == plain.read_bytes(), "the content differs")
    near.stop()
    far.store.verify()
