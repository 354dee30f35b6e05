"""Broken invariants: a node and a gate end at once, so that their supervisor starts them again."""

import signal

from stage.building import THALWEG, preload
from stage.ports import free_port
from stage.registry import check, test
from stage.store import Store

SERVERS = ("node", "gate")


def arguments(scene, server):
    if server == "node":
        return ["node", Store(scene).folder, "--listen", "127.0.0.1:0"]
    configuration = scene.folder / "gate.toml"
    listen = f'protocol = "s3"\naddress = "127.0.0.1:0"\nupstream = "127.0.0.1:{free_port()}"\n'
    configuration.write_text(f"[[listen]]\n{listen}")
    return ["gate", "--config", configuration]


@test(each=SERVERS)
def a_broken_invariant_ends_the_process_at_once(scene, server):
    trigger, log = scene.folder / "trigger", scene.folder / "log"
    variables = {"LD_PRELOAD": str(preload("stop_clock")), "STOP_CLOCK": str(trigger)}
    with open(log, "wb") as file:
        process = scene.start([THALWEG, *arguments(scene, server)], stdout=file, stderr=file, variables=variables)
    scene.until(lambda: b"listening on" in log.read_bytes(), "the server to listen")
    trigger.touch()
    check(process.wait(timeout=10) == -signal.SIGABRT, f"it ended with {process.returncode}")
    check("internal error; the process ends" in log.read_text(), log.read_text())
