"""VersityGW, an S3 server over a directory, as distributed; and rclone, an S3 client that knows nothing of gates.

The server's program is built with Go once, outside the checkout, since no distribution has it.
"""

import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path

from . import processes
from .ports import free_port
from .registry import Failure

SOURCE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "thalweg-bench"
ROOT = ("ROOTKEY", "not-a-secret")
# Debian's rclone cannot work where this is set.
RCLONE = ["env", "--unset=AWS_CA_BUNDLE", "rclone", "--quiet"]

_building = threading.Lock()


def program():
    """On the path or in the cache; built there when it is in neither."""
    with _building:
        if found := shutil.which("versitygw") or shutil.which("versitygw", path=CACHE):
            return found
        go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
        if go is None:
            raise Failure(f"no versitygw on the path nor in {CACHE}, and no Go to build it: install Go 1.24 or newer")
        CACHE.mkdir(parents=True, exist_ok=True)
        variables = os.environ | {"GOBIN": str(CACHE), "CGO_ENABLED": "0"}
        subprocess.run([go, "install", SOURCE], check=True, env=variables, capture_output=True)
        return str(CACHE / "versitygw")


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


class Server:
    def __init__(self, scene):
        self.scene, self.program, self.port = scene, program(), free_port()
        self.folder, self.users = scene.new_folder("objects"), scene.new_folder("users")
        self.start()

    def start(self):
        # Most S3 servers keep connections; this one needs an option.
        address = ["--keep-alive", "--port", f"127.0.0.1:{self.port}"]
        words = [self.program, "--quiet", *address, "--iam-dir", self.users, "posix", self.folder]
        names = {"ROOT_ACCESS_KEY": ROOT[0], "ROOT_SECRET_KEY": ROOT[1]}
        self.process = self.scene.start(words, variables=names)
        self.scene.until(lambda: answers(self.port), "VersityGW", seconds=20)

    def kill(self):
        processes.kill(self.process.pid)
        self.process.wait()

    def add_user(self, key, secret):
        administrator = ["--access", ROOT[0], "--secret", ROOT[1], "--endpoint-url", f"http://127.0.0.1:{self.port}"]
        user = ["--access", key, "--secret", secret, "--role", "admin"]
        self.scene.run([self.program, "admin", *administrator, "create-user", *user])


class Client:
    """One user's rclone."""

    def __init__(self, scene, port, key=ROOT):
        settings = {"TYPE": "s3", "PROVIDER": "Other", "REGION": "us-east-1", "ENDPOINT": f"http://127.0.0.1:{port}"}
        settings |= {"ACCESS_KEY_ID": key[0], "SECRET_ACCESS_KEY": key[1]}
        self.scene = scene
        self.variables = {f"RCLONE_CONFIG_S_{name}": value for name, value in settings.items()}
        self.variables |= {"RCLONE_CONFIG": str(scene.folder / "no-rclone.conf")}

    def run(self, *words, **more):
        return self.scene.run([*RCLONE, *words], variables=self.variables, **more)

    def start(self, *words):
        return self.scene.start([*RCLONE, *words], variables=self.variables)
