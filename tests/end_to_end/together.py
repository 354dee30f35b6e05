"""All at once on one store: puts, an MPI job, removals and the collector."""

from stage import trees
from stage.building import MPIS, THALWEG
from stage.loop import Loop
from stage.registry import check, test
from stage.steps import Steps
from stage.store import Store

ROUNDS = 6


def make_tree(scene, name, files):
    folder = scene.new_folder(name)
    shared = scene.dice.randbytes(200_000)
    for number in range(files):
        content = scene.dice.randbytes(scene.dice.randrange(60_000)) + shared[: scene.dice.randrange(len(shared))]
        (folder / f"file-{number}").write_bytes(content)
    return folder


def change_some(scene, folder):
    for path in scene.dice.sample(sorted(folder.iterdir()), 5):
        path.write_bytes(path.read_bytes()[10_000:] + scene.dice.randbytes(30_000))


def all_end_well(scene, processes):
    for process in processes:
        scene.wait_for(process)
        check(process.returncode == 0, f"`{' '.join(process.args)}` ended with {process.returncode}")


@test(each=MPIS, seconds=120)
def two_puts_a_job_and_the_collector_share_a_store(scene, mpi):
    store = Store(scene)
    trees_put = [make_tree(scene, name, 60) for name in ("one", "two")]
    gone = make_tree(scene, "gone", 20)
    collecting = Loop(scene, THALWEG, "collect", store.folder, "--quiet")
    for round in range(ROUNDS):
        job = Steps(scene, mpi, f"steps-{round}", 4)
        puts = [scene.start([THALWEG, "put", "--quiet", tree, store.at()]) for tree in [*trees_put, gone]]
        all_end_well(scene, [scene.start(store.run_command(job.command)), *puts])
        job.check_content(store.get(f"steps-{round}", f"steps-{round}"))
        # Segments for the collector to free, amid segments that others share.
        all_end_well(scene, [scene.start([THALWEG, "rm", "-r", store.at("gone")])])
        if round % 2:
            store.command("forget", store.at(), "--keep", "last=1")
        for tree in trees_put:
            trees.check_equal(tree, store.get(tree.name, f"{tree.name}-{round}"))
            change_some(scene, tree)
    collecting.end()
    store.verify()
    freed = store.json("collect", store.folder)
    scene.say(f"the last collection freed {freed}")
    store.verify()
