"""An actor: a thread that acts until the soak is over, with dice of its own, and remembers why it failed."""

import random
import threading
import time

from stage.registry import Failure


class Actor:
    def __init__(self, soak, name):
        self.soak, self.name = soak, name
        self.scene, self.store, self.history = soak.scene, soak.store, soak.history
        self.dice = random.Random(f"{soak.seed} {name}")
        self.rounds = 0
        self.process = None
        self.disturbed = False
        self.thread = threading.Thread(target=self._live, name=name, daemon=True)

    def act(self):
        raise NotImplementedError

    def finish(self):
        """Checks left when all faults are over."""

    def start(self):
        self.thread.start()

    def rest(self, seconds):
        time.sleep(self.dice.uniform(0, seconds))

    def command(self, *words):
        """Runs a `thalweg` command. Returns its exit code, its last words, when it began, and whether a fault that we
        made excuses its failure."""
        self.disturbed, start = False, time.monotonic()
        log = self.scene.folder / f"{self.name}.err"
        with open(log, "wb") as errors:
            self.process = self.scene.start([self.soak.thalweg, *words], stderr=errors)
            self.scene.wait_for(self.process)
        code, self.process = self.process.returncode, None
        text = log.read_text(errors="replace").strip()
        if text:
            self.scene.say(f"{self.name}: {text[-2000:]}")
        return Ended(code, text, start, self.disturbed or self._met_full_disk(text, start))

    def _met_full_disk(self, text, start):
        return any(words in text for words in FULL) and self.soak.disk.was_full_since(start)

    def demand(self, condition, why):
        if not condition:
            raise Failure(f"{self.name}, round {self.rounds}: {why}")

    def _live(self):
        try:
            while not self.soak.over():
                self.act()
                self.rounds += 1
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this soak's result
            self.soak.fail(self.name, error)


FULL = ("No space left", "full", "no room", "space")


class Ended:
    def __init__(self, code, text, start, excused):
        self.code, self.text, self.start, self.excused = code, text, start, excused

    def __str__(self):
        last = self.text.splitlines()[-1] if self.text else "without a word"
        return f"ended with {self.code}: {last}"
