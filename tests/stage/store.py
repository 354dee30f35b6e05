"""A store and its nodes, driven through the `thalweg` command only."""

import json
import subprocess

from .building import THALWEG
from .registry import Failure, check


class Store:
    """`place` is how commands name it: its folder, or thalweg://HOST:PORT."""

    def __init__(self, scene, name="store", options=()):
        self.scene, self.folder = scene, scene.folder / name
        self.place = str(self.folder)
        self.command("init", self.folder, *options)

    def command(self, *words, **settings):
        return self.scene.run([THALWEG, *words], **settings)

    def json(self, *words, **settings):
        """The JSON a command prints."""
        return json.loads(self.command(*words, "--json", **settings))

    def at(self, path=""):
        return f"{self.place}::{path}"

    def through(self, node):
        """The same store, as a remote user sees it."""
        remote = object.__new__(Store)
        remote.scene, remote.folder, remote.place = self.scene, self.folder, f"thalweg://{node.address}"
        return remote

    def get(self, path, name, *options):
        """Fetches into the scratch folder under this name."""
        destination = self.scene.folder / name
        self.command("get", *options, self.at(path), destination)
        return destination

    def listing(self, path=""):
        """What `ls` says of all below the path."""
        return {entry["path"]: entry for entry in self.json("ls", "-lR", self.at(path))}

    def stats(self):
        return self.json("stats", self.place)

    def stat(self, path):
        return self.json("stat", self.at(path))

    def sessions(self):
        return self.json("sessions", self.place)

    def verify(self, *options):
        """Everything can be read, and nothing is left under way."""
        report = self.json("verify", self.folder, "--data", *options)
        check(report["damages"] == [], f"verify found {report['damages']}")
        return report

    def run_command(self, command, nodes=(), options=()):
        """`thalweg run` in front of a command, with these nodes, or with one of the job's own."""
        where = [word for node in nodes for word in ("--node", node.address)] or ["--store", self.folder]
        return [THALWEG, "run", *where, *options, "--", *command]

    def run(self, command, nodes=(), options=(), **settings):
        return self.scene.run(self.run_command(command, nodes, options), **settings)

    def start_node(self, *options, **settings):
        return Node(self.scene, self.folder, options, **settings)


class Node:
    """A `thalweg node` on a port of its own choice. `start` runs its command, here or in another network."""

    def __init__(self, scene, folder, options=(), listen="127.0.0.1:0", start=None, **settings):
        self.scene = scene
        command = [THALWEG, "node", folder, "--listen", listen, "--json", *options]
        self.process = (start or scene.start)(command, stdout=subprocess.PIPE, **settings)
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"the node for {folder} did not start")
        self.address = json.loads(line)["listening"]

    def stop(self):
        """Ends it in good order."""
        self.process.terminate()
        self.scene.wait_for(self.process)
        check(self.process.returncode == 0, f"the node ended with {self.process.returncode}")
