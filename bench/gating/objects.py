"""The S3 side: VersityGW over a folder in memory, behind the paced link. Each application has a bucket of its own name.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from gating import link, processes

NAME = "s3"
PORT = 7070
ADDRESS = f"{link.BACK_ADDRESS}:{PORT}"
ACCESS_KEY, SECRET_KEY = "THALWEGBENCH", "not-a-secret"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "thalweg-bench"
SOURCE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
# How many different objects an application's part reads or writes, by size: a gigabyte at most.
OBJECTS = 64


def find_server():
    """VersityGW on the path or in the cache; built there with Go if it is in neither."""
    if found := shutil.which("versitygw") or shutil.which("versitygw", path=CACHE):
        return found
    if shutil.which("go") is None:
        raise RuntimeError(f"no versitygw on the path nor in {CACHE}, and no Go to build it: put the binary there")
    print(f"building {SOURCE} into {CACHE} (minutes, once)", flush=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    built = {"GOBIN": str(CACHE), "CGO_ENABLED": "0"}
    subprocess.run(["go", "install", SOURCE], check=True, env=os.environ | built)
    return str(CACHE / "versitygw")


class Objects:
    """The servers of cases on S3: `serving` around all of them, `clients` around each."""

    name = NAME

    def __init__(self, folder: Path, load, rate_bytes_per_s):
        self.folder, self.load, self.rate_bytes_per_s = folder, load, rate_bytes_per_s
        self.data = folder / "objects"
        self.filled = set()

    @contextlib.contextmanager
    def serving(self):
        self.data.mkdir()
        account = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
        command = [find_server(), "--quiet", "--keep-alive", "--port", f"0.0.0.0:{PORT}", "posix", self.data]
        answers = processes.listening(link.BACK_ADDRESS, PORT)
        with link.paced(self.rate_bytes_per_s):
            with processes.running(command, self.folder / "versitygw.log", answers, account, link.BACK):
                yield

    @contextlib.contextmanager
    def clients(self, case, doors):
        """Makes the objects the case reads, and yields the load generator's settings of each part."""
        for application in case.applications:
            (self.data / application.name).mkdir(exist_ok=True)
            for part in application.parts:
                self._fill(application, part)
        address = doors[0] if doors else ADDRESS
        yield lambda application, part: {"s3": self._target(application, part, address)}

    def _target(self, application, part, address):
        path = f"/{application.name}/{part.bytes}-"
        account = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
        return {"address": address, **account, "path": path, "objects": _objects(part)}

    def _fill(self, application, part):
        """On the server's side of the link, so that it takes no time."""
        if "read" not in part.operations or (application.name, part.bytes) in self.filled:
            return
        target = {"s3": self._target(application, part, f"127.0.0.1:{PORT}")}
        count = _objects(part)
        job = {
            "target": target,
            "outstanding": min(8, count),
            "operations": ["write"],
            "bytes": part.bytes,
            "requests": count,
        }
        plan = {"warm_ms": 0, "measured_ms": 60_000, "interval_ms": 1000}
        path = self.folder / "fill.json"
        path.write_text(json.dumps(plan | {"applications": [{"name": application.name, "parts": [job]}]}))
        done = subprocess.run(
            ["ip", "netns", "exec", link.BACK, self.load, path], capture_output=True, text=True, check=True
        )
        report = json.loads(done.stdout)["applications"][0]
        if report["failures"] or sum(report["bytes"]) != count * part.bytes:
            raise RuntimeError(f"could not make the objects of {application.name}: {report['first_failure']}")
        self.filled.add((application.name, part.bytes))


def _objects(part):
    return max(part.outstanding, min(OBJECTS, (1 << 30) // part.bytes))
