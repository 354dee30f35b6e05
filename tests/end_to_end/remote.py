"""Trees over thalweg://: a remote user, who has only a node's address, does all that a local one does."""

import shutil
import time

from stage import processes, trees
from stage.building import THALWEG
from stage.registry import check, test
from stage.store import Node, Store

# From the machine itself, if it has them: many small files, links, odd names.
SOURCES = ["/usr/share/doc", "/usr/include"]


def tree(scene):
    """A copy of real files with what copies lose: links, holes, times, modes, names that are no text."""
    source = scene.folder / "source"
    found = next((name for name in SOURCES if len(trees.described(name)) > 500), None)
    check(found, f"none of {SOURCES} holds a tree to store")
    shutil.copytree(found, source, symlinks=True)
    (source / "run").write_text("#!/bin/sh\n")
    (source / "run").chmod(0o4751)
    (source / "again").hardlink_to(source / "run")
    (source / "to").symlink_to("nowhere/at all")
    with open(source / "holes", "wb") as file:
        file.truncate(50 << 20)
        file.seek(30 << 20)
        file.write(b"in the midst")
    with open(bytes(source) + b"/\xff\n\xfe", "wb") as file:
        file.write(b"odd")
    (source / "empty").mkdir()
    return source


@test(seconds=120)
def a_tree_goes_to_a_node_and_comes_back_the_same(scene):
    local, source = Store(scene), tree(scene)
    node = local.start_node()
    store = local.through(node)
    store.command("put", source, store.at())
    trees.check_equal(source, store.get("source", "fetched", "--privileged"))
    check((scene.folder / "fetched" / "run").samefile(scene.folder / "fetched" / "again"), "hard links became copies")
    check((scene.folder / "fetched" / "holes").stat().st_blocks < 10000, "holes became zeros")
    trees.check_equal(source, local.get("source", "fetched locally", "--privileged"))
    before = store.stats()["stored_bytes"]
    check(before > 0, "stored_bytes is 0 while the node runs")
    store.command("put", source, store.at())
    check(store.stats()["stored_bytes"] < 1.01 * before, "a second put stored more than 1 %")
    local.verify()


@test
def remote_verbs_work_as_local_ones(scene):
    local = Store(scene)
    store = local.through(local.start_node())
    source = scene.new_folder("source")
    (source / "deep").mkdir()
    (source / "deep" / "one").write_bytes(scene.dice.randbytes(100_000))
    (source / "two").write_bytes(b"two" * 50_000)
    store.command("put", source / "deep", source / "two", store.at("in/"))
    check(store.listing() == local.listing(), "ls shows other things through the node")
    check(set(store.listing("in")) == {"in/deep", "in/deep/one", "in/two"}, f"ls shows {sorted(store.listing('in'))}")
    check(store.stat("in/deep/one")["size"] == 100_000, "stat is wrong")
    check(store.stats() == local.stats(), "stats shows other things through the node")
    check(store.stats()["logical_bytes"] == 250_000, "logical_bytes is wrong")
    part = store.command("get", store.at("in/two"), "-", "--range", "3:6")
    check(part == "twotwo", f"the range holds {part!r}")
    store.command("mv", store.at("in/two"), store.at("in/deep/three"))
    check(set(local.listing("in/deep")) == {"in/deep/one", "in/deep/three"}, "mv is not seen in the store")
    store.command("rm", store.at("in/deep/one"))
    store.command("rm", store.at("in/deep"), code=1)
    store.command("get", store.at("in/deep/one"), scene.folder / "gone", code=1)
    store.command("rm", "-r", store.at("in"))
    check(local.listing() == {}, "rm -r left something")
    local.verify()


@test
def bad_addresses_fail_with_one_line(scene):
    store = Store(scene)
    nothing = scene.folder / "nothing"
    for words in (
        ["ls", "thalweg://127.0.0.1:1::x"],
        ["ls", f"{nothing}::x"],
        ["ls", store.at("missing")],
        ["ls", store.at("../x")],
        ["get", store.at("missing"), nothing],
        ["stats", scene.folder],
        ["node", nothing, "--listen", "127.0.0.1:0"],
        ["run", "--store", scene.folder, "--", "true"],
    ):
        said = store.command(*words, code=None, stderr=-2)
        check(said.startswith("thalweg: ") and said.count("\n") <= 2, f"{words[0]} said: {said[:300]}")


@test(seconds=120)
def a_put_goes_on_when_its_node_is_killed_and_started_again(scene):
    local = Store(scene)
    node = local.start_node()
    store = local.through(node)
    source = scene.new_folder("source")
    for number in range(300):
        (source / f"file-{number}").write_bytes(scene.dice.randbytes(scene.dice.randrange(1_000_000)))
    put = scene.start([THALWEG, "put", source, store.at()])
    for _ in range(3):
        time.sleep(scene.dice.uniform(0.1, 0.8))
        processes.kill(node.process.pid)
        node.process.wait()
        time.sleep(scene.dice.uniform(0, 0.5))
        node = Node(scene, local.folder, listen=node.address)
    scene.wait_for(put)
    check(put.returncode == 0, f"the put ended with {put.returncode}")
    trees.check_equal(source, store.get("source", "fetched"))
    node.stop()
    local.verify()
