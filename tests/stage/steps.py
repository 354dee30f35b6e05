"""Jobs that write in steps (programs/steps.c): what their journal says, and whether a file is what they had written."""

from dataclasses import dataclass

from .building import own_program
from .mpi import launch
from .registry import check


@dataclass
class Journal:
    """How far a job has come. Once it is dead, what was started and not synced may be there or not."""

    opened: bool = False
    started: int = 0
    synced: int = 0
    closing: bool = False
    closed: bool = False


class Steps:
    """One run of the program on a file."""

    def __init__(self, scene, mpi, path, steps, ranks=3, pause_ms=0, stay_ms=0):
        self.scene, self.ranks, self.steps = scene, ranks, steps
        self.journal_path = scene.folder / f"journal-{len(list(scene.folder.glob('journal-*')))}"
        self.journal_path.touch()
        words = [f"SD:/{path}", self.journal_path, steps, pause_ms, stay_ms]
        self.command = launch(mpi, ranks, own_program("steps", mpi), *words)

    def journal(self):
        journal = Journal()
        for line in self.journal_path.read_text().splitlines():
            name, _, number = line.partition(" ")
            setattr(journal, name, int(number) if number else True)
        return journal

    def check_content(self, path, synced=None, started=None):
        """The fetched file holds all synced steps, and nothing but what was started; by default exactly all steps."""
        synced = self.steps if synced is None else synced
        words = [path, self.ranks, synced, synced if started is None else started]
        found = self.scene.run([own_program("steps_check"), *words], code=None).strip()
        check(not found, f"{path}: {found}")
