"""A store with two nodes on it, driven through the `thalweg` command only.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

NODES = 2
START_SECONDS = 20


def find_thalweg():
    """The command: on the path, or where `make build` leaves it."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or Path(__file__).resolve().parents[2] / "target")
    built = target / "release" / "thalweg"
    found = str(built) if built.exists() else shutil.which("thalweg")
    if found is None:
        raise RuntimeError(f"no thalweg at {built} nor on the path: run make build")
    return found


class Store:
    """Made by init and empty at first, so that no run profits from another."""

    def __init__(self, folder: Path, logs: Path):
        self.folder = folder
        self.logs = logs
        self.thalweg = find_thalweg()
        self.nodes = []
        self.addresses = []
        self._command("init", folder)

    def start_nodes(self, count=NODES):
        for number in range(count):
            address = f"127.0.0.1:{_free_port()}"
            with open(self.logs / f"{self.folder.name}.node{number}.log", "wb") as log:
                command = [self.thalweg, "node", self.folder, "--listen", address]
                node = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            self.nodes.append(node)
            self.addresses.append(address)
        for node, address in zip(self.nodes, self.addresses):
            _wait_until_it_answers(node, address, self.logs)

    def run(self, command, acknowledgement):
        """The command line that runs `command` with both nodes. Durable is the default and is not named."""
        nodes = [word for address in self.addresses for word in ("--node", address)]
        level = [] if acknowledgement == "durable" else ["--ack", acknowledgement]
        return [self.thalweg, "run", *nodes, *level, "--", *command]

    def stats(self):
        return json.loads(self._command("stats", self.folder, "--json"))

    def get(self, path, destination):
        self._command("get", f"{self.folder}::{path}", destination)

    def stop_nodes(self):
        for node in self.nodes:
            node.terminate()
        for node in self.nodes:
            try:
                node.wait(timeout=30)
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()
        self.nodes, self.addresses = [], []

    def _command(self, *words):
        done = subprocess.run([self.thalweg, *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"thalweg {' '.join(map(str, words))} failed: {done.stderr.strip()}")
        return done.stdout


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_it_answers(node, address, logs):
    host, port = address.rsplit(":", 1)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if node.poll() is not None:
            raise RuntimeError(f"the node at {address} ended with code {node.returncode}; its log is in {logs}")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"the node at {address} did not answer within {START_SECONDS} s; its log is in {logs}")
