"""Reading a store that may only be read: by another user, on a read-only mount, with and without live writers."""

import shutil
import subprocess

from stage.building import THALWEG
from stage.registry import check, test
from stage.store import Store

from .store_access import STRANGER, let_others_pass


def filled(scene):
    store = Store(scene)
    source = scene.folder / "source"
    source.write_bytes(scene.dice.randbytes(3_000_000))
    store.command("put", source, store.at("a"))
    store.command("put", source, store.at("d/b"))
    return store, source.read_bytes()


def open_to_all(store):
    for path in (store.folder, *store.folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def snapshot(folder):
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (folder, *folder.rglob("*"))}


def read_everything(scene, store, content, before=()):
    """All verbs that read, behind the words `before` that make them another user's."""
    wanted = scene.new_folder("fetched")
    wanted.chmod(0o777)
    said = scene.run([*before, THALWEG, "ls", "-R", store.at()])
    check(said.split() == ["a", "d/", "d/b"] or "d/b" in said, f"ls says {said}")
    scene.run([*before, THALWEG, "stat", store.at("a")])
    scene.run([*before, THALWEG, "stats", store.folder])
    scene.run([*before, THALWEG, "sessions", store.folder])
    scene.run([*before, THALWEG, "verify", store.folder, "--data"])
    scene.run([*before, THALWEG, "get", store.at("d/b"), wanted / "b"])
    check((wanted / "b").read_bytes() == content, "what was fetched differs")
    shutil.rmtree(wanted)


def leave_log(scene, store):
    """Kills a writer, whose log and its index stay."""
    node = store.start_node()
    extra = scene.folder / "extra"
    extra.write_bytes(b"only in the log")
    store.command("put", extra, store.at("extra"))
    node.process.kill()
    scene.wait_for(node.process)
    check((store.folder / "catalog.sqlite-wal").stat().st_size > 0, "there is no log")


STATES = ["closed", "live writer", "killed writer", "killed writer whose index is lost"]


def bring_into(scene, store, state):
    """Returns the node that writes, if one does."""
    if state == "live writer":
        return store.start_node()
    if state.startswith("killed"):
        leave_log(scene, store)
    if "index is lost" in state:
        (store.folder / "catalog.sqlite-shm").unlink()
    return None


@test(each=STATES)
def another_user_reads_a_store_without_writing_to_it(scene, state):
    let_others_pass(scene)
    store, content = filled(scene)
    bring_into(scene, store, state)
    open_to_all(store)
    before = snapshot(store.folder)
    read_everything(scene, store, content, STRANGER)
    if state.startswith("killed"):
        scene.run([*STRANGER, THALWEG, "stat", store.at("extra")])
    after = snapshot(store.folder)
    check(state == "live writer" or after == before, "reading has changed the store")
    scene.run([*STRANGER, THALWEG, "rm", store.at("a")], code=1)


@test(each=STATES)
def a_store_on_a_read_only_mount_is_read(scene, state):
    store, content = filled(scene)
    bring_into(scene, store, state)
    seen = scene.new_folder("seen")
    script = 'mount --bind "$1" "$2"; mount -o remount,ro,bind "$2"; shift 2; "$@"'
    inside = ["unshare", "--mount", "sh", "-euc", script, "sh", store.folder, seen]
    mounted = object.__new__(Store)
    mounted.scene, mounted.folder, mounted.place = scene, seen, str(seen)
    before = snapshot(store.folder)
    read_everything(scene, mounted, content, inside)
    check(state == "live writer" or snapshot(store.folder) == before, "reading has changed the store")


@test
def whatever_writes_says_that_a_store_is_read_only(scene):
    let_others_pass(scene)
    store, _ = filled(scene)
    open_to_all(store)
    seen = scene.new_folder("seen")
    script = 'mount --bind "$1" "$2"; mount -o remount,ro,bind "$2"; shift 2; "$@"'
    mounted = ["unshare", "--mount", "sh", "-euc", script, "sh", store.folder, seen]
    before = snapshot(store.folder)
    for words, folder, why in ((mounted, seen, "read-only file system"), (STRANGER, store.folder, "by this user")):
        for verb in (
            ["put", scene.folder / "source", f"{folder}::new"],
            ["rm", f"{folder}::a"],
            ["mv", f"{folder}::a", f"{folder}::b"],
            ["forget", f"{folder}::a", "--keep", "last=1"],
            ["collect", folder],
            ["repair", folder],
            ["verify", folder, "--rebuild-catalog"],
            ["node", folder, "--listen", "127.0.0.1:0"],
        ):
            scene.run([*words, THALWEG, *verb], code=1)
            said = scene.log_lines()[-1]
            check(why in said and "can be read" in said, f"{verb[0]} says: {said}")
    check(snapshot(store.folder) == before, "something was written")


@test
def another_user_reads_while_commits_and_collections_go_on(scene):
    let_others_pass(scene)
    store, content = filled(scene)
    open_to_all(store)
    old = scene.folder / "old"
    for name in ("a", "d/b"):
        check(store.get(name, "old").read_bytes() == content, name)
    for turn in range(8):
        # No process has the catalog open between these commands: the reader has no index of the log to share.
        old.write_bytes(scene.dice.randbytes(200_000))
        puts = ["sh", "-euc", 'for i in 1 2 3 4; do "$@"; done', "sh", THALWEG, "put", old, store.at("c")]
        writer = scene.start(puts)
        for _ in range(3):
            wanted = scene.new_folder("wanted")
            wanted.chmod(0o777)
            scene.run([*STRANGER, THALWEG, "get", store.at("a"), wanted / "a"])
            check((wanted / "a").read_bytes() == content, "what was fetched differs")
            shutil.rmtree(wanted)
        scene.wait_for(writer)
        store.command("forget", store.at("c"), "--keep", "last=1")
        store.command("collect", store.folder)
        open_to_all(store)


@test
def a_reader_without_a_lease_gets_an_error_when_its_data_is_collected(scene):
    let_others_pass(scene)
    store, _ = filled(scene)
    large = scene.folder / "large"
    large.write_bytes(scene.dice.randbytes(160 << 20))  # several containers, of which the reader has opened one
    store.command("put", large, store.at("large"))
    open_to_all(store)
    reader = scene.start([*STRANGER, THALWEG, "get", store.at("large"), "-"], stdout=subprocess.PIPE, bufsize=0)
    beginning = reader.stdout.read(1000)
    store.command("rm", store.at("large"))
    check(store.json("collect", store.folder)["deleted"] > 0, "collection waited for a reader without a lease")
    rest = scene.wait_for(reader)
    content = large.read_bytes()
    check(reader.returncode != 0, "the reader believes that it has read all")
    check(content.startswith(beginning + rest) and len(rest) < len(content) - 1000, "what was read is wrong")
    said = [line for line in scene.log_lines() if "was collected while it was read" in line]
    check(said, "the reader does not say why")
