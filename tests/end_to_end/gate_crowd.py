"""A thousand clients of one gate for some seconds; bench/gate has minutes of it."""

import resource
import selectors
import socket
import time
import urllib.parse
from pathlib import Path

from stage.gate import Gate
from stage.ports import free_port
from stage.registry import check, test
from stage.versitygw import Client, Server

CLIENTS = 1000
SECONDS = 10
OBJECT_BYTES = 64 << 10
# docs/gate.md: what a gate holds while plain connections wait.
RESIDENT_KIB = 20 << 10
# Below what a thousand connections need: a gate is to raise it itself.
USUAL_LIMIT = 1024
GATE = """
[[listen]]
protocol = "s3"
address = "127.0.0.1:{port}"
upstream = "127.0.0.1:{upstream}"
"""


class Reader:
    """Asks for the object again and again over one connection."""

    def __init__(self, port, request, content):
        self.request, self.content = request, content
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.got, self.answers = bytearray(), 0
        self.ask()

    def ask(self):
        self.got.clear()
        self.connection.sendall(self.request)

    def receive(self):
        """Takes what has come. Whether an answer is whole."""
        some = self.connection.recv(256 << 10)
        check(some, f"a connection was closed after {self.answers} answers")
        self.got += some
        end = self.got.find(b"\r\n\r\n")
        if end < 0 or len(self.got) < end + 4 + len(self.content):
            return False
        check(self.got.startswith(b"HTTP/1.1 200 "), f"an answer begins with {bytes(self.got[:40])}")
        check(self.got[end + 4 :] == self.content, "an answer holds other bytes")
        self.answers += 1
        return True


@test(seconds=120)
def a_thousand_clients_are_served_for_seconds_in_bounded_memory(scene):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    server, port = Server(scene), free_port()
    limited = ["prlimit", f"--nofile={USUAL_LIMIT}:{limit[1]}"]
    gate = Gate(
        scene, [port], GATE.format(port=port, upstream=server.port),
        start=lambda command, **settings: scene.start([*limited, *command], **settings),
    )  # fmt: skip
    request, content = signed_request(scene, Client(scene, port))
    readers = [Reader(port, request, content) for _ in range(CLIENTS)]
    keep_reading(scene, readers)
    gate.is_running()
    answers = sorted(reader.answers for reader in readers)
    scene.say(f"answers: {sum(answers)}, of a client {answers[0]} to {answers[-1]}; peak {peak_kib(gate)} KiB")
    check(answers[0] > 0, f"{answers.count(0)} clients were never answered")
    check(peak_kib(gate) <= RESIDENT_KIB, f"the gate held {peak_kib(gate)} KiB")


def signed_request(scene, client):
    path = scene.folder / "object"
    path.write_bytes(scene.dice.randbytes(OBJECT_BYTES))
    client.run("mkdir", "S:bucket")
    client.run("copyto", path, "S:bucket/object")
    url = urllib.parse.urlsplit(client.run("link", "--expire", "1h", "S:bucket/object").strip())
    return f"GET {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n".encode(), path.read_bytes()


def keep_reading(scene, readers):
    """For some seconds, and then until every client has its last answer."""
    until = time.monotonic() + SECONDS
    with selectors.DefaultSelector() as ready:
        for reader in readers:
            ready.register(reader.connection, selectors.EVENT_READ, reader)
        while ready.get_map():
            check(time.monotonic() < scene.deadline - 1, f"{len(ready.get_map())} clients wait in vain")
            for key, _ in ready.select(1):
                if not key.data.receive():
                    continue
                if time.monotonic() < until:
                    key.data.ask()
                else:
                    ready.unregister(key.fileobj)


def peak_kib(gate):
    lines = Path(f"/proc/{gate.process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
