"""Collection beside everything else: containers are rewritten again and again, and no data are lost by it."""

import random
import shutil
import threading
import time

from stage.building import MPIS, own_program
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Store

SECONDS = 12
RANKS = 2
# Few pieces in many files: writers keep finding segments that others have just removed.
PIECES = [random.Random(number).randbytes(1 << 16) for number in range(60)]


class Hands:
    """Threads that repeat something until the time is up; what one of them raises fails the test."""

    def __init__(self):
        self.end, self.threads, self.failures = time.monotonic() + SECONDS, [], []

    def repeat(self, act, *arguments):
        self.threads.append(threading.Thread(target=self.keep_on, args=(act, arguments)))

    def keep_on(self, act, arguments):
        try:
            while time.monotonic() < self.end and not self.failures:
                act(*arguments)
        except Exception as failure:  # pylint: disable=broad-except
            self.failures.append(failure)

    def work(self):
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()
        if self.failures:
            raise self.failures[0]


class Owner:
    """Puts a folder of its own, reads it back, and removes or forgets it."""

    def __init__(self, scene, store, local, number):
        self.store, self.local, self.name, self.dice = store, local, f"d{number}", random.Random(number)
        self.folder = scene.folder / f"source-{number}"
        self.folder.mkdir()

    def turn(self):
        for name in range(self.dice.randint(1, 4)):
            chosen = (self.dice.choice(PIECES) for _ in range(self.dice.randint(1, 20)))
            (self.folder / f"f{name}").write_bytes(b"".join(chosen))
        self.store.command("put", "--quiet", self.folder, self.store.at(self.name))
        # Into a folder that is there, `get` would put a folder.
        shutil.rmtree(self.local.scene.folder / f"fetched-{self.name}", ignore_errors=True)
        fetched = self.store.get(self.name, f"fetched-{self.name}")
        for path in self.folder.iterdir():
            check((fetched / path.name).read_bytes() == path.read_bytes(), f"{self.name}/{path.name} differs")
        draw = self.dice.random()
        if draw < 0.3:
            self.local.command("rm", "-r", self.local.at(self.name))
        elif draw < 0.8:
            self.local.command("forget", "--keep", "last=1", self.local.at(self.name))


@test
def puts_beside_forget_rm_and_collect_all_succeed(scene):
    store = Store(scene)
    node = store.start_node()
    hands = Hands()
    for number, place in enumerate([store, store, store.through(node)]):
        hands.repeat(Owner(scene, place, store, number).turn)
    hands.repeat(lambda: store.command("collect", store.folder))
    hands.work()
    node.stop()
    store.verify()


@test(each=MPIS)
def jobs_beside_rm_and_collect_all_succeed(scene, mpi):
    store = Store(scene)
    node = store.start_node()
    hands = Hands()
    program = own_program("same_data", mpi)

    def job():
        name = f"same-{time.monotonic_ns() % 3}"
        store.run(launch(mpi, RANKS, program, f"SD:/{name}", 1 << 20), [node])
        data = store.get(name, "fetched").read_bytes()
        check(data == data[: 1 << 20] * RANKS, f"{name} is not what was written")
        store.command("rm", store.at(name))

    hands.repeat(job)
    hands.repeat(Owner(scene, store, store, 1).turn)
    hands.repeat(lambda: store.command("collect", store.folder))
    hands.work()
    node.stop()
    store.verify()
