"""A gate before NFS-Ganesha, and libnfs as its client: both as distributed, in a network of the test's own."""

import subprocess

from stage import processes
from stage.gate import Gate
from stage.namespace import Namespace
from stage.registry import check, test

NFS_PORT, MOUNT_PORT, GATE_PORT = 2049, 2050, 3049
HEAVY, LIGHT = 1001, 1002

GANESHA = """
NFS_CORE_PARAM {{ Protocols = 3; Bind_addr = 127.0.0.1; NFS_Port = {nfs}; MNT_Port = {mount};
    Enable_NLM = false; Enable_RQUOTA = false; }}
EXPORT {{ Export_Id = 1; Path = {folder}; Pseudo = /export; Protocols = 3; Access_Type = RW; Squash = No_Root_Squash;
    SecType = sys; Transports = TCP; FSAL {{ Name = VFS; }} }}
"""

GATE = f"""
[[listen]]
protocol = "nfs"
address = "127.0.0.1:{GATE_PORT}"
upstream = "127.0.0.1:{NFS_PORT}"
max_transfer = "128 KiB"
[[application]]
name = "heavy"
weight = 4
match = {{ uid = {HEAVY} }}
[[application]]
name = "light"
match = {{ uid = {LIGHT} }}
"""


class Server:
    """NFS-Ganesha, version 3 only, which needs a port mapper while it starts."""

    def __init__(self, scene, namespace):
        self.scene, self.namespace = scene, namespace
        self.folder = scene.new_folder("export")
        self.folder.chmod(0o777)
        self.path = scene.folder / "ganesha.conf"
        self.path.write_text(GANESHA.format(nfs=NFS_PORT, mount=MOUNT_PORT, folder=self.folder))
        namespace.start(["rpcbind", "-f"])
        scene.until(lambda: namespace.answers(111), "the port mapper", seconds=10)
        self.start()

    def start(self):
        log = self.scene.folder / "ganesha.log"
        words = ["ganesha.nfsd", "-F", "-f", self.path, "-L", log, "-p", self.scene.folder / "ganesha.pid"]
        self.process = self.namespace.start(words)
        self.scene.until(lambda: self.namespace.answers(NFS_PORT), "the NFS server", seconds=30)

    def kill(self):
        processes.kill(self.process.pid)
        self.process.wait()
        self.scene.until(lambda: not self.namespace.answers(NFS_PORT), "the NFS server to be gone", seconds=10)

    def url(self, name, uid=HEAVY, port=GATE_PORT):
        return f"nfs://127.0.0.1{self.folder}/{name}?version=3&nfsport={port}&mountport={MOUNT_PORT}&uid={uid}&gid=100"


def stand(scene):
    namespace = Namespace(scene)
    server = Server(scene, namespace)
    gate = Gate(scene, [GATE_PORT], GATE, start=namespace.start)
    return namespace, server, gate


def put(namespace, server, path, name, uid=HEAVY):
    namespace.run(["nfs-cp", path, server.url(name, uid)])


def got(namespace, server, name, uid=HEAVY):
    process = namespace.start(["nfs-cat", server.url(name, uid)], stdout=subprocess.PIPE)
    return namespace.scene.wait_for(process)


@test(seconds=120)
def files_go_through_a_gate_to_nfs_and_come_back_the_same(scene):
    namespace, server, gate = stand(scene)
    for at, size in enumerate((0, 1, 131_072, 9_000_001)):
        source = scene.folder / f"source{at}"
        source.write_bytes(scene.dice.randbytes(size))
        put(namespace, server, source, f"file{at}")
        check((server.folder / f"file{at}").read_bytes() == source.read_bytes(), f"{size} bytes were stored otherwise")
        check(got(namespace, server, f"file{at}", LIGHT) == source.read_bytes(), f"{size} bytes came back otherwise")
    gate.is_running()


@test(seconds=120)
def an_nfs_server_and_a_gate_are_killed_and_new_ones_serve(scene):
    namespace, server, gate = stand(scene)
    source = scene.folder / "source"
    source.write_bytes(scene.dice.randbytes(3_000_000))
    put(namespace, server, source, "before")
    server.kill()
    namespace.run(["nfs-cat", server.url("before")], code=None)
    server.start()
    check(got(namespace, server, "before") == source.read_bytes(), "the file is not there after the server's end")
    gate.is_running()
    gate.kill()
    gate.start()
    check(got(namespace, server, "before") == source.read_bytes(), "the file is not there after the gate's end")
    put(namespace, server, source, "after")
    check((server.folder / "after").read_bytes() == source.read_bytes(), "what was written is not there")
