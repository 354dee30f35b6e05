"""Kills, freezes and a full disk, at random moments."""

import os
import signal
import time

from stage import processes

from .actor import Actor

SHORT_FREEZE_SECONDS = 12
# Longer than leases last, shorter than clients wait for a node.
LONG_FREEZE_SECONDS = 38
FULL_SECONDS = 8
START_SECONDS = 3


def is_up(pid):
    """Whether a node has had time to start: one that dies before it listens fails its job, as it should."""
    try:
        return time.time() - os.stat(f"/proc/{pid}").st_ctime > START_SECONDS
    except OSError:
        return False


class Killer(Actor):
    """Ends commands and nodes with kill -9. A node of a job is started again, and its job must not notice."""

    def act(self):
        self.rest(3)
        if self.dice.random() < 0.5:
            nodes = [pid for pid, words in self.scene.processes().items() if processes.is_node(words) and is_up(pid)]
            if nodes:
                killed = self.dice.choice(nodes)
                self.scene.say(f"killing node {killed}")
                processes.kill(killed)
        else:
            self.kill_command()

    def kill_command(self):
        actor = self.dice.choice(self.soak.actors)
        process = actor.process
        if process and actor is not self:
            actor.disturbed = True
            self.scene.say(f"killing {process.pid} of {actor.name}")
            processes.kill(process.pid)


class Freezer(Actor):
    """Stops a process for a while. A short freeze must not be noticed; a long one may cost its lease, and never more."""

    def act(self):
        self.rest(4)
        frozen = self.choose()
        if not frozen:
            return
        is_long = self.dice.random() < 0.2
        if is_long:
            for actor in self.soak.actors:
                actor.disturbed = True
        seconds = LONG_FREEZE_SECONDS if is_long else self.dice.uniform(0.1, SHORT_FREEZE_SECONDS)
        self.scene.say(f"freezing {frozen} for {seconds:.1f} s")
        if processes.kill(frozen, signal.SIGSTOP):
            time.sleep(seconds)
            processes.kill(frozen, signal.SIGCONT)

    def choose(self):
        ours = [pid for pid, words in self.scene.processes().items() if words[0].endswith(("thalweg", "steps"))]
        return self.dice.choice(ours) if ours else None


class Filler(Actor):
    """Fills the disk below the store for some seconds; `collect`, `rm` and `forget` must go on."""

    def act(self):
        self.rest(40)
        self.scene.say("the disk is full")
        self.soak.disk.fill()
        try:
            time.sleep(self.dice.uniform(1, FULL_SECONDS))
        finally:
            self.soak.disk.empty()
