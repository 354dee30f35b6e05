"""Access to a store by other users, and the state of it after a power failure that follows `init`."""

import grp
import os

from stage.building import THALWEG, preload
from stage.registry import check, test
from stage.store import Store

OTHER_USER = ["setpriv", "--reuid=nobody", "--regid=nogroup"]
STRANGER = [*OTHER_USER, "--clear-groups"]
GROUP = "adm"
MEMBER = [*OTHER_USER, f"--groups={GROUP}"]


def let_others_pass(scene):
    """Other users may walk to the scene's folder, so that only the store's own modes keep them out."""
    for folder in (scene.folder, *scene.folder.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)


def modes(folder):
    """The modes there are, of directories and of files."""
    found = {True: set(), False: set()}
    for path in (folder, *folder.rglob("*")):
        try:
            found[path.is_dir()].add(path.lstat().st_mode & 0o7777)
        except FileNotFoundError:  # the log of a catalog that was just closed
            pass
    return found[True], found[False]


def used_in_every_way(store, umask):
    """Whatever makes files in a store has made them."""
    source = store.scene.folder / "secret"
    source.write_bytes(store.scene.dice.randbytes(400_000))
    source.chmod(0o400)
    node = store.start_node(umask=umask)
    store.through(node).command("put", source, store.through(node).at("remote"), umask=umask)
    seen = modes(store.folder)  # with the catalog's log
    for name in "abcdef":
        store.command("put", source, store.at(name), umask=umask)
    store.command("rm", store.at("a"), umask=umask)
    node.stop()
    store.command("collect", store.folder, umask=umask)
    store.command("verify", store.folder, "--rebuild-catalog", "--rebuild-table", umask=umask)
    after = modes(store.folder)
    return seen[0] | after[0], seen[1] | after[1]


@test(each=["no umask", "umask 022", "umask 077"])
def a_store_is_its_owners_alone(scene, umask):
    umask = int(umask.removeprefix("umask ").replace("no umask", "0"), 8)
    let_others_pass(scene)
    scene.new_folder("there").chmod(0o777)
    for name in ("made", "there"):
        store = Store(scene, name)
        found = used_in_every_way(store, umask)
        check(found == ({0o700}, {0o600}), f"{name}: {[oct(mode) for kind in found for mode in kind]}")
        scene.run([*STRANGER, THALWEG, "ls", store.at()], code=1)
        copy = scene.folder / f"copy of {name}"
        scene.run([*STRANGER, "cp", "-r", store.folder, copy], code=1)


@test(each=["umask 0", "umask 077"])
def a_shared_store_is_its_groups(scene, umask):
    umask = int(umask.removeprefix("umask "), 8)
    let_others_pass(scene)
    state = scene.new_folder("state")
    state.chmod(0o711)
    store = Store(scene, options=["--shared", GROUP, "--state", state])
    found = used_in_every_way(store, umask)
    (of_state,) = state.iterdir()
    for folder in (store.folder, of_state):
        found = modes(folder)
        check(found == ({0o2770}, {0o660}), f"{folder}: {[oct(mode) for kind in found for mode in kind]}")
    source = scene.folder / "a member's"
    source.write_bytes(scene.dice.randbytes(300_000))
    source.chmod(0o444)
    scene.run([*MEMBER, THALWEG, "put", source, store.at("theirs")], umask=umask)
    scene.run([*MEMBER, THALWEG, "rm", store.at("b")], umask=umask)
    scene.run([*MEMBER, THALWEG, "collect", store.folder], umask=umask)
    scene.run([*STRANGER, THALWEG, "ls", store.at()], code=1)
    check(store.get("theirs", "fetched").read_bytes() == source.read_bytes(), "a member's file differs")
    groups = {path.stat().st_gid for path in store.folder.rglob("*")}
    check(groups == {grp.getgrnam(GROUP).gr_gid}, f"its files are of groups {groups}")
    store.verify()


@test
def a_directory_of_another_user_becomes_no_store(scene):
    folder = scene.new_folder("theirs")
    os.chown(folder, 65534, 65534)
    scene.run([THALWEG, "init", folder], code=1)
    check(list(folder.iterdir()) == [], "it was begun all the same")


@test
def the_parents_of_a_new_store_are_synced(scene):
    record = scene.folder / "record"
    root, state = scene.folder / "a/b/store", scene.folder / "c/d/state"
    variables = {"LD_PRELOAD": str(preload("record_syncs")), "RECORD_SYNCS": str(record)}
    scene.run([THALWEG, "init", root, "--state", state], variables=variables)
    (of_state,) = state.iterdir()
    wanted = {root, *(path.parent for path in (root, root.parent, root.parent.parent))}
    wanted |= {of_state, *(path.parent for path in (of_state, state, state.parent, state.parent.parent))}
    check_synced(record, wanted)
    record.unlink()
    (source := scene.folder / "source").write_bytes(b"something")
    scene.run([THALWEG, "put", source, f"{root}::"], variables=variables)
    (container,) = root.glob("containers/*/*.twc")
    check_synced(record, {container.parent, container.parent.parent, root})


@test
def the_parents_of_a_state_folder_made_again_are_synced(scene):
    record = scene.folder / "record"
    state = scene.folder / "local/state"
    store = Store(scene, options=["--state", state])
    (of_state,) = state.iterdir()
    scene.run(["rm", "-r", state.parent])
    variables = {"LD_PRELOAD": str(preload("record_syncs")), "RECORD_SYNCS": str(record)}
    store.command("verify", store.folder, "--rebuild-catalog", variables=variables)
    check_synced(record, {of_state, state, state.parent, scene.folder})


def check_synced(record, wanted):
    found = set(record.read_text().splitlines())
    missing = {str(path) for path in wanted} - found
    check(not missing, f"never synced: {sorted(missing)}")
