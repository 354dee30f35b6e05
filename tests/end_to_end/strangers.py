"""Peers that are no nodes, nodes and clients of another release: each side says so at once, and what to do."""

import socket
import subprocess
import threading

from stage.building import MPIS, THALWEG, door_program
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Store

FRAME_START = b"TWGF"
OTHER_RELEASE = FRAME_START + bytes([255]) + b" and unknown bytes come after"
HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"


class Stranger:
    """Sends the same to every client, and listens."""

    def __init__(self, scene, says):
        self.says, self.open = says, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        scene.at_end(self.listener.close)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                client.sendall(self.says)
            except OSError:
                return
            self.open.append(client)


def refusal(scene, stranger, command=None, **settings):
    """The one line that a command prints about this server."""
    words = command or [THALWEG, "ls", f"thalweg://{stranger.address}::"]
    process = scene.start(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **settings)
    said = scene.wait_for(process).decode()
    scene.say(said)
    check(process.returncode not in (0, None), f"it ended with {process.returncode}")
    check(stranger.address in said, f"it does not name the address: {said}")
    return said


@test(seconds=20)
def commands_refuse_a_node_of_another_release_and_what_is_no_node(scene):
    said = refusal(scene, Stranger(scene, OTHER_RELEASE))
    check("this program is the older, update it" in said and said.count("\n") == 1, f"it said: {said}")
    said = refusal(scene, Stranger(scene, HTTP))
    check("no thalweg peer" in said and "HTTP/1.1 400" in said and said.count("\n") == 1, f"it said: {said}")


@test(each=MPIS, seconds=40)
def programs_refuse_a_node_of_another_release_at_once(scene, mpi):
    stranger = Stranger(scene, OTHER_RELEASE)
    program = launch(mpi, 1, door_program(mpi, "equal"), "SD:/test-")
    # The command asks the node before it starts a program; launched without it, the program finds out itself.
    variables = {"THALWEG_NODES": stranger.address, "LD_PRELOAD": str(THALWEG.parent / "libthalweg_door.so")}
    commands = (([THALWEG, "run", "--node", stranger.address, "--", *program], {}), (program, variables))
    for command, settings in commands:
        said = refusal(scene, stranger, command, variables=settings)
        check("this program is the older, update it" in said, f"it said: {said[:500]}")


@test(seconds=20)
def a_node_refuses_a_client_of_another_release_and_serves_the_others(scene):
    store = Store(scene)
    node = store.start_node()
    host, port = node.address.rsplit(":", 1)
    for says, answer in ((OTHER_RELEASE, b"this program is the older"), (b"GET / HTTP/1.0\r\n\r\n", b"no thalweg peer")):
        with socket.create_connection((host, port), timeout=10) as client:
            client.sendall(says)
            heard = b"".join(iter(lambda: client.recv(4096), b""))
        check(heard.startswith(FRAME_START) and answer in heard, f"it answered {heard}")
    check(store.through(node).listing() == {}, "the node does not serve any more")
