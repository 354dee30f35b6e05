"""Gates before GlusterFS bricks: the client and the server are those of the distribution, unchanged."""

import os
import time

from stage.gate import Gate
from stage.gluster import DIRECT, Brick, Device, Mount
from stage.ports import free_port
from stage.registry import check, test

APPLICATIONS = """
[[application]]
name = "heavy"
weight = 4
match = { uid = 1001 }
[[application]]
name = "light"
match = { uid = 1002 }
"""
HEAVY, LIGHT = 1001, 1002
BLOCK_BYTES = 128 << 10
BRICK_BYTES_PER_S = 16_000_000
SECONDS = 12


def gate_before(scene, bricks, name="gate"):
    """One gate that listens once for each brick."""
    ports = [free_port() for _ in bricks]
    listens = "".join(
        f'[[listen]]\nprotocol = "gluster"\naddress = "127.0.0.1:{port}"\nupstream = "127.0.0.1:{brick.port}"\n'
        for port, brick in zip(ports, bricks)
    )
    return Gate(scene, ports, listens + APPLICATIONS, name)


def plain_brick(scene, at=0):
    return Brick(scene, at, scene.new_folder(f"disk{at}"))


@test(seconds=90)
def files_go_through_gates_to_four_bricks_and_come_back_the_same(scene):
    bricks = [plain_brick(scene, at) for at in range(4)]
    gate = gate_before(scene, bricks)
    mount = Mount(scene, "mount", gate.ports)
    contents = {f"file{at}": scene.dice.randbytes(scene.dice.choice([1, 70_000, 3_000_001])) for at in range(24)}
    for name, content in contents.items():
        (mount.folder / name).write_bytes(content)
    for name, content in contents.items():
        check((mount.folder / name).read_bytes() == content, f"{name} came back otherwise")
    stored = {path.name for brick in bricks for path in brick.folder.iterdir() if not path.name.startswith(".")}
    check(stored == set(contents), "the files are not on the bricks")
    check(sum(any((brick.folder / name).exists() for name in contents) for brick in bricks) > 1, "one brick has all")


@test(seconds=120)
def a_brick_and_a_gate_are_killed_and_the_mount_lives_on(scene):
    brick = plain_brick(scene)
    gate = gate_before(scene, [brick])
    mount = Mount(scene, "mount", gate.ports)
    content = scene.dice.randbytes(2_000_000)
    (mount.folder / "before").write_bytes(content)
    for kill, start in ((brick.kill, brick.start), (gate.kill, gate.start)):
        kill()
        start()
        scene.until(lambda: read_or_none(mount.folder / "before") == content, "the file to be there again", 60)
        (mount.folder / f"after {start.__qualname__}").write_bytes(content)
        check((mount.folder / f"after {start.__qualname__}").read_bytes() == content, "what was written is not there")
    gate.is_running()


def read_or_none(path):
    try:
        return path.read_bytes()
    except OSError:
        return None


class Writer:
    """An application: several files written at once and past all caches by processes of one user, who need not be able
    to come to the files by himself: each has its own open already."""

    def __init__(self, scene, mount, uid, jobs):
        self.scene, self.mount, self.uid, self.jobs = scene, mount, uid, jobs
        self.folder = mount.folder / str(uid)
        self.folder.mkdir()
        self.processes = []

    def start(self):
        for job in range(self.jobs):
            words = ["setpriv", f"--reuid={self.uid}", "--regid=100", "--clear-groups"]
            words += ["dd", "if=/dev/zero", f"bs={BLOCK_BYTES}", "oflag=direct"]
            file = os.open(self.folder / str(job), os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
            self.processes.append(self.scene.start(words, stdout=file))
            os.close(file)

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def written_bytes(self, brick):
        folder = brick.folder / str(self.uid)
        return sum(path.stat().st_size for path in folder.iterdir())


@test(seconds=120)
def two_applications_share_a_slow_brick_four_to_one_and_one_alone_has_it_all(scene):
    device = Device(scene, "device")
    brick = Brick(scene, 0, device.folder, options=DIRECT)
    gate = gate_before(scene, [brick])
    heavy, light = (Writer(scene, Mount(scene, f"mount{uid}", gate.ports), uid, 12) for uid in (HEAVY, LIGHT))
    if not device.limit(BRICK_BYTES_PER_S):
        scene.say("no blkio controller of cgroup v1 here: the ratio is not measured")
        return
    heavy.start()
    light.start()
    time.sleep(3)
    before = [writer.written_bytes(brick) for writer in (heavy, light)]
    time.sleep(SECONDS)
    got = [writer.written_bytes(brick) - was for writer, was in zip((heavy, light), before)]
    ratio = got[0] / max(1, got[1])
    scene.say(f"heavy {got[0] / SECONDS / 1e6:.1f} MB/s, light {got[1] / SECONDS / 1e6:.1f} MB/s, {ratio:.2f}:1")
    check(3.2 < ratio < 4.8, f"{ratio:.2f}:1 instead of 4:1")
    heavy.stop()
    scene.until(lambda: rate(light, brick) > 0.85 * BRICK_BYTES_PER_S, "the other to have it all alone", seconds=15)
    light.stop()


def rate(writer, brick, seconds=2):
    before = writer.written_bytes(brick)
    time.sleep(seconds)
    return (writer.written_bytes(brick) - before) / seconds
