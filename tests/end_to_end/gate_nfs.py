"""A gate before NFS-Ganesha, and libnfs as its client: both as distributed, in a network of the test's own."""

import subprocess
import time

from stage import processes
from stage.gate import Gate
from stage.link import Link
from stage.namespace import Namespace
from stage.registry import check, test

NFS_PORT, MOUNT_PORT, GATE_PORT = 2049, 2050, 3049
HEAVY, LIGHT = 1001, 1002
RATE_BYTES_PER_S = 12_000_000

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
upstream = "UPSTREAM"
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


def stand(scene, bytes_per_second=None):
    namespace = Namespace(scene)
    server = Server(scene, namespace)
    upstream = f"127.0.0.1:{NFS_PORT}"
    if bytes_per_second:
        upstream = Link(scene, upstream, bytes_per_second, namespace).address
    gate = Gate(scene, [GATE_PORT], GATE.replace("UPSTREAM", upstream), start=namespace.start)
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


class Writers:
    """An application: one file each, written at once by programs of one user, each with one call outstanding."""

    COUNT = 12

    def __init__(self, namespace, server, source, uid):
        self.folder = server.folder / str(uid)
        self.folder.mkdir()
        self.folder.chmod(0o777)
        urls = (server.url(f"{uid}/{number}", uid) for number in range(self.COUNT))
        self.processes = [namespace.start(["nfs-cp", source, url]) for url in urls]

    def written_bytes(self):
        return sum(path.stat().st_size for path in self.folder.iterdir())

    def are_running(self):
        check(all(process.poll() is None for process in self.processes), "a client has ended")

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()


def rates(writers, seconds):
    before = [each.written_bytes() for each in writers]
    time.sleep(seconds)
    return [(each.written_bytes() - was) / seconds for each, was in zip(writers, before)]


@test(seconds=120)
def two_users_share_a_slow_nfs_server_four_to_one_and_one_alone_has_it_all(scene):
    namespace, server, gate = stand(scene, RATE_BYTES_PER_S)
    source = scene.folder / "source"
    with open(source, "wb") as file:
        file.truncate(64 << 20)
    heavy, light = (Writers(namespace, server, source, uid) for uid in (HEAVY, LIGHT))
    time.sleep(3)
    got = rates([heavy, light], seconds=12)
    ratio = got[0] / max(1, got[1])
    scene.say(f"heavy {got[0] / 1e6:.1f} MB/s, light {got[1] / 1e6:.1f} MB/s, {ratio:.2f}:1")
    heavy.are_running()
    check(3.4 < ratio < 4.6, f"{ratio:.2f}:1 instead of 4:1")
    heavy.stop()
    # Rates are for bench/gate: a busy machine has less than the server's for both.
    alone = 2 * got[1]
    scene.until(lambda: rates([light], 2)[0] > alone, "the other to have far more alone", seconds=15)
    light.are_running()
    light.stop()
    gate.is_running()
