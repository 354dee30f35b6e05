"""The place one test acts in: a scratch folder, a log, seeded dice, a deadline, and all processes started there."""

import os
import shutil
import subprocess
import time
import traceback

from . import processes
from .registry import Failure

KEPT_LOG_BYTES = 64 << 10


class Scene:
    _living = set()

    def __init__(self, folder, dice, seconds):
        self.folder, self.dice = folder, dice
        self.deadline = time.monotonic() + seconds
        self.seconds = seconds
        (folder / "home").mkdir(parents=True)
        self.log_path = folder / "log"
        self.log = open(self.log_path, "ab", buffering=0)
        self.mark = str(folder)
        self.closers = []
        Scene._living.add(self)

    def new_folder(self, name):
        path = self.folder / name
        path.mkdir()
        return path

    def environment(self, **more):
        """As a user's, but without their settings and with the scene's mark."""
        settings = ("THALWEG_", "OMPI_", "LD_PRELOAD")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(settings)}
        kept.update({processes.VARIABLE: self.mark, "HOME": str(self.folder / "home"), "LC_ALL": "C"})
        kept.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        kept.update(more)
        return kept

    def start(self, command, **settings):
        """Starts a command whose words go to the log."""
        words = [str(word) for word in command]
        self.say("$ " + " ".join(words))
        settings = {"stdout": self.log, "stderr": self.log, "stdin": subprocess.DEVNULL, **settings}
        settings["env"] = self.environment(**settings.pop("variables", {}))
        return subprocess.Popen(words, start_new_session=True, **settings)

    def run(self, command, code=0, **settings):
        """Runs a command to its end and gives its standard output. `code` None: any will do."""
        process = self.start(command, **{"stdout": subprocess.PIPE, **settings})
        output = self.wait_for(process)
        text = (output or b"").decode(errors="replace")
        if text:
            self.say(text[:2000].rstrip())
        if code is not None and process.returncode != code:
            raise Failure(f"`{' '.join(map(str, command))}` ended with {process.returncode}, not {code}")
        return text

    def wait_for(self, process):
        """Waits for its end, until the scene's deadline at the latest."""
        try:
            return process.communicate(timeout=max(0.1, self.deadline - time.monotonic()))[0]
        except subprocess.TimeoutExpired:
            words = " ".join(process.args)
            self.say(self.what_hangs())
            raise Failure(f"`{words}` was still running when the test's {self.seconds} s were over") from None

    def until(self, condition, what, seconds=30):
        """Polls until the condition gives something true, and returns it."""
        end = min(self.deadline, time.monotonic() + seconds)
        while True:
            found = condition()
            if found:
                return found
            if time.monotonic() > end:
                raise Failure(f"waited in vain for {what}")
            time.sleep(0.02)

    def processes(self):
        return processes.marked(self.mark)

    def what_hangs(self):
        return "still running: " + "; ".join(f"{pid} {' '.join(words)}" for pid, words in self.processes().items())

    def say(self, text):
        self.log.write(text.encode(errors="replace") + b"\n")

    def note_exception(self):
        self.say(traceback.format_exc())

    def at_end(self, close):
        self.closers.append(close)

    def end(self):
        processes.end_marked(self.mark)
        for close in self.closers:
            close()
        Scene._living.discard(self)

    @classmethod
    def end_all(cls):
        for scene in list(cls._living):
            scene.end()

    def log_lines(self):
        data = self.log_path.read_bytes()[-KEPT_LOG_BYTES:]
        return data.decode(errors="replace").splitlines()

    def remove(self):
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
