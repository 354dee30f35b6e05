"""MPI jobs that write in steps, each through a node of its own."""

import time

from stage.building import MPIS
from stage.steps import Steps

from .actor import Actor

STEPS = 8
# After this long a session without a holder counts as interrupted (leases last 30 s, dead clients 20 s).
INTERRUPTED_SECONDS = 75


class Jobs(Actor):
    def __init__(self, soak, name):
        super().__init__(soak, name)
        self.unfinished = []

    def act(self):
        path = f"{self.name}-{self.rounds}"
        steps = Steps(self.scene, self.dice.choice(MPIS), path, STEPS, ranks=2, pause_ms=self.dice.randrange(400))
        reduce = self.dice.choice(["node", "client"])
        ended = self.command(*self.store.run_command(steps.command, options=["--reduce", reduce])[1:])
        if ended.code == 0:
            self.check_whole(steps, path)
        else:
            self.demand(self.disturbed or self.soak.disk.was_full_since(ended.start), f"{path} {ended}")
            self.unfinished.append((path, steps))

    def check_whole(self, steps, path):
        destination = self.scene.folder / f"{self.name}.got"
        ended = self.command("get", self.store.at(path), destination)
        self.demand(ended.code == 0 or ended.excused, f"get of {path} {ended}")
        if ended.code == 0:
            steps.check_content(destination)
            destination.unlink()
            ended = self.command("rm", self.store.at(path))
            self.demand(ended.code == 0 or ended.excused, f"rm of {path} {ended}")

    def finish(self):
        """Data whose sync returned are durable: it is committed, or can be recovered."""
        for path, steps in self.unfinished:
            journal = steps.journal()
            if journal.synced:
                self.scene.say(f"{path}: {journal}; sessions {self.store.sessions()}")
                self.recover(path)
                destination = self.store.get(path, f"{path}.got")
                steps.check_content(destination, journal.synced, journal.started)

    def recover(self, path):
        """Until there is nothing to recover: committed by the job itself, or now by us."""
        end = time.monotonic() + INTERRUPTED_SECONDS
        while True:
            ended = self.command("recover", self.store.at(path))
            if ended.code == 0 or "nothing to recover" in ended.text:
                return
            self.demand(time.monotonic() < end, f"{path} was synced and cannot be recovered: {ended}")
            time.sleep(2)
