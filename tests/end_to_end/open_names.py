"""Files that lose their name, or get another's content, while programs have them open (docs/decisions/0092)."""

import contextlib

from stage.building import MPIS, own_program
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Node, Store

OLD = "OLDOLDOLDOLD"


class Stage:
    """A store whose node serves every job and command of the test."""

    def __init__(self, scene, mpi):
        self.scene, self.mpi, self.folder = scene, mpi, Store(scene)
        self.node = self.folder.start_node()
        self.store = self.folder.through(self.node)
        self.jobs = 0

    def put(self, name, content):
        source = self.scene.folder / name
        source.write_text(content)
        self.store.command("put", source, self.store.at(name))

    def command(self, name, words):
        program = own_program("handles", self.mpi)
        return self.folder.run_command(launch(self.mpi, 1, program, f"SD:{name}", *words), [self.node])

    def job(self, name, *words):
        """Runs a job to its end; returns what came of each word."""
        text = self.scene.run(self.command(name, words))
        return text.splitlines()

    @contextlib.contextmanager
    def holding(self, name, before, after):
        """A job that does some words now and the others when the block is left; yields the list it fills with all outcomes."""
        self.jobs += 1
        ready, go, log = (self.scene.folder / f"{what}-{self.jobs}" for what in ("ready", "go", "out"))
        words = [*before, f"touch:{ready}", f"await:{go}", *after]
        outcomes = []
        with open(log, "wb") as output:
            job = self.scene.start(self.command(name, words), stdout=output)
            self.scene.until(ready.exists, "a job that opens its file")
            yield outcomes
            go.touch()
            self.scene.wait_for(job)
        self.scene.say(log.read_text())
        check(job.returncode == 0, f"the job ended with {job.returncode}")
        outcomes += log.read_text().splitlines()[-len(after) :]

    def check_names(self, **contents):
        """The store has these files with this content, and no others; and no session is left."""
        names = {name for name, entry in self.store.listing().items() if entry["kind"] == "file"}
        found = {name: self.store.command("cat", self.store.at(name)).replace("\0", ".") for name in names}
        check(found == contents, f"the store has {found}, not {contents}")
        check(self.store.sessions() == [], "a session was left")


@test(each=[(mpi, how) for mpi in MPIS for how in ("delete", "rm")])
def a_file_made_again_while_a_reader_has_it_open_holds_what_was_written(scene, which):
    stage = Stage(scene, which[0])
    stage.put("x", OLD)
    with stage.holding("x", ["open:1:r"], ["read:1", "close:1"]) as outcomes:
        if which[1] == "rm":
            stage.store.command("rm", stage.store.at("x"))
        else:
            check(stage.job("x", "delete") == ["done"], "the file could not be deleted")
        stage.job("x", "open:1:cxw", "write:1:0:NEW", "close:1")
        content = stage.store.command("cat", stage.store.at("x"))
        check(content == "NEW", f"the new file holds {content!r}")
    check(outcomes[0] == f"{OLD} done", f"the reader read {outcomes}")
    stage.check_names(x="NEW")


@test(each=MPIS)
def an_open_after_a_put_begins_with_what_was_put(scene, mpi):
    stage = Stage(scene, mpi)
    stage.put("d", OLD)
    with stage.holding("d", ["open:1:r"], ["read:1", "close:1"]) as outcomes:
        stage.put("d", "new")
        read = stage.job("d", "open:1:r", "read:1", "close:1")
        check(read == ["done", "new done", "done"], f"a new reader has {read}")
        stage.job("d", "open:1:wa", "append:1:+tail", "close:1")
        check(stage.job("d", "open:1:r", "read:1")[1] == "new+tail done", "the tail is not where the content ends")
    check(outcomes[0] == f"{OLD} done", f"the first reader read {outcomes}")
    stage.check_names(d="new+tail")


@test(each=MPIS)
def what_is_written_follows_the_file_to_its_new_name(scene, mpi):
    stage = Stage(scene, mpi)
    stage.put("a", OLD)
    with stage.holding("a", ["open:1:u", "write:1:0:AAAA", "sync:1"], ["write:1:4:BBBB", "close:1"]) as outcomes:
        stage.store.command("mv", stage.store.at("a"), stage.store.at("b"))
    check(outcomes == ["done", "done"], f"the job has {outcomes}")
    stage.check_names(b="AAAABBBBDOLD")


@test(each=MPIS)
def what_is_written_lies_over_what_was_put_meanwhile(scene, mpi):
    stage = Stage(scene, mpi)
    for content, result in (("put", "AAAABBBB"), ("a longer content", "AAAABBBB content")):
        stage.put("c", OLD)
        with stage.holding("c", ["open:1:u", "write:1:0:AAAA", "sync:1"], ["write:1:4:BBBB", "close:1"]) as outcomes:
            stage.put("c", content)
        check(outcomes == ["done", "done"], f"the job has {outcomes}")
        stage.check_names(c=result)


@test(each=MPIS)
def what_is_written_to_a_file_that_was_removed_is_gone_with_it(scene, mpi):
    stage = Stage(scene, mpi)
    for how in ("delete", "rm"):
        stage.put("x", OLD)
        before = ["open:1:u", "write:1:0:AAAA"]
        with stage.holding("x", before, ["read:1", "write:1:14:B", "sync:1", "read:1", "close:1"]) as outcomes:
            if how == "rm":
                stage.store.command("rm", stage.store.at("x"))
            else:
                check(stage.job("x", "delete") == ["done"], "the file could not be deleted")
        read = "AAAA" + OLD[4:]
        check(outcomes == [f"{read} done", "done", "done", f"{read}..B done", "done"], f"the job has {outcomes}")
        stage.check_names()


@test(each=MPIS)
def an_open_file_can_be_deleted_as_any_other(scene, mpi):
    stage = Stage(scene, mpi)
    # The same words do the same with a plain file.
    for name, words, result in (
        ("written", ["open:1:cw", "write:1:0:AAAA", "delete", "close:1", "open:1:r"], "no such file"),
        ("synced", ["open:1:cu", "write:1:0:AAAA", "sync:1", "delete", "open:2:r", "close:1", "open:1:r"], "no such file"),
        ("twice", ["open:1:cu", "delete", "delete", "close:1", "open:1:r"], "no such file"),
        ("anew", ["open:1:cu", "write:1:0:AAAA", "sync:1", "delete", "open:2:cxu", "write:2:0:B", "read:1", "close:1"]
            + ["close:2", "open:1:r", "read:1"], "B done"),
        ("kept", ["open:1:cu", "write:1:0:AAAA", "close:1", "open:1:r", "delete", "open:2:cxw", "write:2:0:B", "read:1"]
            + ["close:2", "close:1", "open:1:r", "read:1"], "B done"),
        ("on-close", ["open:1:cud", "write:1:0:AAAA", "open:2:u", "close:1", "write:2:4:B", "close:2", "open:1:r"],
            "no such file"),
        ("gone", ["open:1:cud", "write:1:0:AAAA", "sync:1", "delete", "close:1", "open:1:r"], "no such file"),
    ):  # fmt: skip
        plain = scene.run(launch(mpi, 1, own_program("handles", mpi), scene.folder / name, *words)).splitlines()
        found = scene.run(stage.command(name, words)).splitlines()
        check(found == plain and found[-1] == result, f"{name}: {list(zip(words, found, plain))}")
    stage.check_names(anew="B", kept="B")


@test(each=MPIS)
def a_file_made_again_through_a_near_node_holds_what_was_written(scene, mpi):
    stage = Stage(scene, mpi)
    stage.put("x", OLD)
    stage.node = Node(scene, scene.folder / "near", ["--upstream", f"thalweg://{stage.node.address}"])
    with stage.holding("x", ["open:1:r"], ["read:1", "close:1"]) as outcomes:
        stage.job("x", "delete", "open:1:cxw", "write:1:0:NEW", "close:1")
    check(outcomes[0] == f"{OLD} done", f"the reader read {outcomes}")
    stage.check_names(x="NEW")
    with stage.holding("x", ["open:1:u", "write:1:0:A", "sync:1"], ["write:1:1:B", "close:1"]):
        stage.store.command("rm", stage.store.at("x"))
    # The near node does not hear of what is removed elsewhere: a new file, of what was written.
    stage.check_names(x="AB")
