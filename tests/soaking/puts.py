"""Those who put, remove, forget and fetch files."""

import time

from .actor import Actor
from .history import ABSENT, digest

FILES = 24


class Putter(Actor):
    """Owns a folder in the store: puts its changing local copy, removes some of it, and forgets old versions."""

    def __init__(self, soak, name):
        super().__init__(soak, name)
        self.tree = self.scene.new_folder(name)
        self.contents = {}

    def act(self):
        self.change_some()
        self.put()
        roll = self.dice.random()
        if roll < 0.3:
            self.remove_one()
        elif roll < 0.5:
            self.expect_done(self.command("forget", self.store.at(self.name), "--keep", "last=1"))
        self.rest(0.5)

    def change_some(self):
        for _ in range(self.dice.randrange(1, 5)):
            path = self.tree / f"file-{self.dice.randrange(FILES)}"
            content = self.some_content(path)
            path.write_bytes(content)
            self.contents[f"{self.name}/{path.name}"] = digest(content)

    def some_content(self, path):
        """New bytes, behind some that another putter has too, or that stood there before."""
        fresh = self.dice.randbytes(self.dice.randrange(200_000))
        if path.exists() and self.dice.random() < 0.5:
            return path.read_bytes()[: self.dice.randrange(100_000)] + fresh
        start = self.dice.randrange(len(self.soak.shared))
        return self.soak.shared[start : start + 300_000] + fresh

    def put(self):
        contents = dict(self.contents)
        self.history.attempt(contents)
        ended = self.command("put", "--quiet", self.tree, self.store.at())
        self.expect_done(ended)
        if ended.code == 0:
            self.history.acknowledge(contents)

    def remove_one(self):
        path = self.dice.choice(sorted(self.contents))
        removal = {path: ABSENT}
        self.history.attempt(removal)
        ended = self.command("rm", self.store.at(path))
        self.expect_done(ended, "no such" in ended.text)
        # Leftovers of a disturbed attempt are not known to be gone.
        if ended.code == 0:
            self.history.acknowledge(removal)
            del self.contents[path]
            (self.scene.folder / path).unlink()

    def expect_done(self, ended, or_else=False):
        self.demand(ended.code == 0 or ended.excused or or_else, f"a command {ended}")


class Getter(Actor):
    """Fetches single files; reading must work whatever else goes on, on a full disk too."""

    def act(self):
        paths = self.history.paths()
        if not paths:
            return time.sleep(0.2)
        self.check(self.dice.choice(paths))
        self.rest(0.5)

    def check(self, path):
        destination = self.scene.folder / f"{self.name}.got"
        destination.unlink(missing_ok=True)
        ended = self.command("get", self.store.at(path), destination)
        if ended.excused:
            return
        self.demand(ended.code == 0 or "no such" in ended.text.lower(), f"get of {path} {ended}")
        found = digest(destination.read_bytes()) if ended.code == 0 else ABSENT
        permitted = self.history.permits(path, found, ended.start, time.monotonic())
        self.demand(permitted, f"{path} holds {found or 'nothing'}, which was never acknowledged or is outdated")


class Collector(Actor):
    """Collects over and over."""

    def act(self):
        ended = self.command("collect", self.store.folder, "--quiet")
        has_no_room = ended.code == 3 and "the disk is too full to rewrite" in ended.text
        self.demand(ended.code == 0 or has_no_room or ended.excused, f"collect {ended}")
        self.rest(1)
