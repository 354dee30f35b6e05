"""A gate that runs beside a test, from a file of the test's own."""

from . import processes
from .building import THALWEG
from .registry import check


class Gate:
    """`ports`: where it listens, fixed because clients get it beforehand. `start` runs its command, here or in a
    namespace."""

    def __init__(self, scene, ports, configuration, name="gate", start=None, options=()):
        self.scene, self.ports = scene, ports
        self.start_command = start or scene.start
        self.options = options
        self.path = scene.folder / f"{name}.toml"
        self.path.write_text(configuration)
        self.start()

    def start(self):
        log = self.scene.folder / f"{self.path.stem}.log"
        with open(log, "ab") as file:
            file.truncate(0)
            self.process = self.start_command([THALWEG, "gate", "--config", self.path, *self.options], stderr=file)
        self.scene.until(lambda: b"listening on" in log.read_bytes(), "the gate to listen", seconds=10)

    def kill(self):
        """As a crash does: no goodbye to anybody."""
        processes.kill(self.process.pid)
        self.process.wait()

    def is_running(self):
        check(self.process.poll() is None, "the gate has ended")
