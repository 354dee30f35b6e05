"""Which store a name means: SD:/path the job's own, SD:ALIAS:/path the one that the configuration calls ALIAS."""

from stage.building import MPIS, door_program, own_program
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Store


def configure(scene, **nodes_of):
    """Writes a configuration file with these aliases, and gives the variable that names it."""
    path = scene.folder / "config.toml"
    tables = (f"[alias.{alias}]\nnodes = {[node.address for node in nodes]}\n" for alias, nodes in nodes_of.items())
    path.write_text("\n".join(tables).replace("'", '"'))
    return {"THALWEG_CONFIG": str(path)}


@test(each=MPIS)
def an_alias_names_a_store_of_the_configuration(scene, mpi):
    mine, other = Store(scene, "mine"), Store(scene, "other")
    variables = configure(scene, far=[other.start_node(), other.start_node()])
    program = door_program(mpi, "equal")
    for name in ("SD:/test-", "SD:far:/deep/test-"):
        check(" No Errors" in mine.run(launch(mpi, 2, program, name), variables=variables), f"{name} went wrong")
    check(set(mine.listing()) == {"test-equal"}, "the job's own store holds something else")
    check("deep/test-equal" in other.listing(), "the alias's store does not hold the file")


@test
def an_alias_is_found_in_the_home_folder_and_in_a_variable(scene):
    store = Store(scene)
    node = store.start_node()
    folder = scene.folder / "home" / ".config" / "thalweg"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'[alias.near-by]\nnodes = ["{node.address}"]\n')
    program = door_program("mpich", "equal")
    store.run(launch("mpich", 1, program, "SD:near-by:/home-"), [node])
    store.run(launch("mpich", 1, program, "SD:else:/variable-"), [node], variables={"THALWEG_ALIAS_ELSE": node.address})
    check(set(store.listing()) == {"home-equal", "variable-equal"}, "not both files are there")


@test
def an_unknown_alias_fails_the_open_and_says_what_to_do(scene):
    store = Store(scene)
    command = launch("mpich", 1, door_program("mpich", "equal"), "SD:nowhere:/x")
    said = store.run([*command], code=None, stderr=-2)
    check("unknown alias" in said and "[alias.nowhere]" in said, f"it said: {said[:300]}")
    check(" No Errors" not in said, "the open went well")


@test(each=MPIS)
def a_file_below_a_file_fails_at_open(scene, mpi):
    store = Store(scene)
    (scene.folder / "plain").write_text("a file")
    store.command("put", scene.folder / "plain", store.at("plain"))
    command = launch(mpi, 1, own_program("steps", mpi), "SD:/plain/below", scene.folder / "journal", 1)
    said = scene.run(store.run_command(command), code=None, stderr=-2)
    check("plain is not a directory" in said, f"it said: {said[:600]}")
    check("opened" not in (scene.folder / "journal").read_text(), "the open went well")
