"""What runs on the far side of the link while something is timed on this one.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import shutil
import subprocess
import time

from demonstration.store import find_thalweg
from wide_area import link

NODE_PORT = 7420
START_TIMEOUT_S = 30


class FarSide:
    """`scratch` is the folder for its store and log; a command that takes longer than `timeout_s` is given up."""

    def __init__(self, scratch, timeout_s):
        self.folder, self.log, self.timeout_s = scratch / "far", scratch / "far.log", timeout_s

    @contextlib.contextmanager
    def node(self, environment):
        """A node with an empty store; gives its address."""
        shutil.rmtree(self.folder, ignore_errors=True)
        subprocess.run([find_thalweg(), "init", self.folder], check=True, stdout=subprocess.DEVNULL)
        command = [find_thalweg(), "node", self.folder, "--insecure", "--listen", f"{link.FAR}:{NODE_PORT}"]
        with self.running(environment, command, NODE_PORT):
            yield f"{link.FAR}:{NODE_PORT}"

    @contextlib.contextmanager
    def running(self, environment, command, port):
        """Runs the command there, from when it listens on."""
        words = environment["WAN_ON_FAR"].split()
        with open(self.log, "wb") as log:
            server = subprocess.Popen(
                [*words, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        try:
            self._wait_until_it_listens(words, server, port)
            yield
        finally:
            server.kill(), server.wait()

    def timed(self, command, environment):
        """Seconds of a command on the near side."""
        begun = time.monotonic()
        self.output(command, environment)
        return time.monotonic() - begun

    def output(self, command, environment):
        """What a command on the near side prints."""
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, timeout=self.timeout_s
        )
        if done.returncode != 0:
            said = f"{done.stderr.strip()} {done.stdout.strip()[-500:]}"
            raise RuntimeError(f"{' '.join(map(str, command))} failed: {said}")
        return done.stdout

    def _wait_until_it_listens(self, words, server, port):
        """Asks the far side's kernel: iperf3's server would take a connection for its one client."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and server.poll() is None:
            listing = subprocess.run([*words, "ss", "-tlnH"], capture_output=True, text=True, check=True).stdout
            if any(line.split()[3].endswith(f":{port}") for line in listing.splitlines()):
                return
            time.sleep(0.05)
        raise RuntimeError(f"the far side does not listen: {self.log.read_text().strip()}")
