"""Applications share a node by weight: the heavier is done first, and both have what they wrote."""

import time

from stage.building import MPIS, THALWEG, preload
from stage.registry import check, test
from stage.steps import Steps
from stage.store import Store

WEIGHTS = ["--share", "climate=8", "--share", "genome=1"]


def node_with_slow_disk(store, *options, mb_s):
    variables = {"LD_PRELOAD": str(preload("slow_disk")), "SLOW_DISK_MB_S": str(mb_s)}
    return store.start_node(*options, variables=variables)


def new_file(scene, name, megabytes):
    path = scene.folder / f"{name}-source"
    path.write_bytes(scene.dice.randbytes(megabytes * 1_000_000))
    return path


def start_put(scene, store, source, application):
    command = [THALWEG, "put", "--quiet", source, store.at(application)]
    return scene.start(command, variables={"THALWEG_APPLICATION": application})


def seconds_until_done(scene, puts):
    """Of each of the running commands, by name."""
    began, ended = time.monotonic(), {}
    while len(ended) < len(puts):
        check(time.monotonic() < scene.deadline, f"only {sorted(ended)} ended in time")
        for name, process in puts.items():
            if name not in ended and process.poll() is not None:
                check(process.returncode == 0, f"{name} ended with {process.returncode}")
                ended[name] = time.monotonic() - began
        time.sleep(0.01)
    return ended


def put_both(scene, local, node):
    """How long the genome's put takes, in those of the climate's, which begin together and are as large."""
    store = local.through(node)
    sources = {name: new_file(scene, name, 100) for name in ("genome", "climate")}
    seconds = seconds_until_done(scene, {name: start_put(scene, store, sources[name], name) for name in sources})
    for name, source in sources.items():
        check(store.get(name, f"{name}-fetched").read_bytes() == source.read_bytes(), f"{name} came back otherwise")
    local.verify()
    scene.say(f"seconds: {seconds}")
    return seconds["genome"] / seconds["climate"]


@test(seconds=120)
def the_heavier_of_two_puts_is_done_first(scene):
    local = Store(scene)
    ratio = put_both(scene, local, node_with_slow_disk(local, *WEIGHTS, mb_s=20))
    check(ratio > 1.25, f"with 8:1 the lighter put took only {ratio:.2f} times as long")


@test(seconds=120)
def without_sharing_puts_are_done_together(scene):
    local = Store(scene)
    ratio = put_both(scene, local, node_with_slow_disk(local, mb_s=20))
    check(0.8 < ratio < 1.25, f"the second put took {ratio:.2f} times as long as the first")


@test(each=MPIS, seconds=120)
def jobs_and_puts_of_all_weights_end_well_together(scene, mpi):
    local = Store(scene)
    node = node_with_slow_disk(local, *WEIGHTS, mb_s=20)
    store = local.through(node)
    sources = {name: new_file(scene, name, 20) for name in ("climate", "genome", "unnamed")}
    running = {name: start_put(scene, store, source, name) for name, source in sources.items()}
    jobs = {f"{reduce}-{name}": (name, reduce) for name in ("climate", "genome") for reduce in ("node", "client")}
    steps = {path: Steps(scene, mpi, path, 20) for path in jobs}
    for path, (name, reduce) in jobs.items():
        options = ["--application", name, "--reduce", reduce]
        running[path] = scene.start(local.run_command(steps[path].command, [node], options))
    seconds_until_done(scene, running)
    for name, source in sources.items():
        check(store.get(name, f"{name}-fetched").read_bytes() == source.read_bytes(), f"{name} came back otherwise")
    for path in jobs:
        steps[path].check_content(store.get(path, path))
    local.verify()
