"""A command repeated beside all else until it is ended; that it never failed is checked then."""

from .registry import check

SCRIPT = 'while "$@"; do sleep 0.05; done; echo "the repeated command failed"; exit 1'


class Loop:
    def __init__(self, scene, *command):
        self.scene, self.words = scene, command
        self.process = scene.start(["sh", "-c", SCRIPT + "\n", "loop", *command])

    def end(self):
        check(self.process.poll() is None, f"`{' '.join(map(str, self.words))}` failed when it was repeated")
        self.process.terminate()
        self.scene.wait_for(self.process)
