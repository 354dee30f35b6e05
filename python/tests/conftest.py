"""Stores for the tests: a directory, and a node on one. SPDX-License-Identifier: Apache-2.0"""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import thalweg
from thalweg.connections import close_all

# Before Python 3.12 Dask's profiler can stop the whole process (docs/limits.md); asked when Dask is imported.
if sys.version_info < (3, 12):
    os.environ["DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED"] = "False"

COMMAND = os.environ.get("THALWEG_COMMAND") or shutil.which("thalweg")


class Node:
    """`thalweg node` on a store."""

    def __init__(self, store, address="thalweg://127.0.0.1:0"):
        command = [COMMAND, "--json", "node", store, "--listen", address.removeprefix("thalweg://")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line, "the node did not start"
        self.address = "thalweg://" + json.loads(line)["listening"]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def directory_store(tmp_path_factory):
    store = str(tmp_path_factory.mktemp("directory") / "store")
    thalweg.create(store)
    return store


@pytest.fixture(scope="session")
def node(tmp_path_factory):
    assert COMMAND, "the command `thalweg` is needed: $THALWEG_COMMAND, or on $PATH"
    store = str(tmp_path_factory.mktemp("node") / "store")
    thalweg.create(store)
    node = Node(store)
    yield node
    # Sessions end before the node does, which would otherwise be waited for.
    close_all()
    node.stop()


@pytest.fixture(params=["directory", "node"])
def store(request):
    """The address of a store, near and far."""
    if request.param == "directory":
        return request.getfixturevalue("directory_store")
    return request.getfixturevalue("node").address


@pytest.fixture
def built_plugin(monkeypatch):
    """HDF5's plugin as `make build` makes it."""
    from thalweg.hdf5 import load_plugin, plugin_path

    monkeypatch.setenv("PATH", f"{Path(COMMAND).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HDF5_PLUGIN_PATH", plugin_path())
    load_plugin()


@pytest.fixture
def folder(request):
    """A folder in the store that is the test's own."""
    return f"{request.node.originalname}-{random.randrange(1 << 40):x}"


@pytest.fixture
def fs(store):
    return thalweg.ThalwegFileSystem(store)


@pytest.fixture
def place(fs, folder):
    """The URL of that folder."""
    return fs.unstrip_protocol(folder)
