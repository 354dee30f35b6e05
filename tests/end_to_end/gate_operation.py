"""Operating a gate: its file is checked and read again, its state watched."""

import json
import signal
import socket

from stage.building import THALWEG
from stage.gate import Gate
from stage.ports import free_port
from stage.registry import check, test

GATE = """
metrics = "127.0.0.1:{metrics}"
[[listen]]
protocol = "s3"
address = "127.0.0.1:{port}"
upstream = "127.0.0.1:{upstream}"
[[application]]
name = "climate"
weight = 16
match = {{ access_key = "AK1" }}
"""


def stand(scene):
    """A gate, and its metrics address."""
    port, metrics, upstream = free_port(), free_port(), free_port()
    gate = Gate(scene, [port], GATE.format(port=port, metrics=metrics, upstream=upstream))
    return gate, f"127.0.0.1:{metrics}"


def said(gate):
    return (gate.path.parent / f"{gate.path.stem}.log").read_text()


@test
def a_gate_reads_its_file_again_on_request_and_says_what_is_wrong_with_it(scene):
    gate, _ = stand(scene)
    gate.process.send_signal(signal.SIGHUP)
    scene.until(lambda: "gate.toml: read again" in said(gate), "the file to be read again, though it is as it was")
    gate.path.write_text(gate.path.read_text() + "wieght = 2\n")
    scene.until(lambda: "the configuration stays as it was" in said(gate), "the mistake to be said")
    check(f"{gate.path}:11: application.wieght: unknown key; did you mean `weight`?" in said(gate), said(gate))
    gate.is_running()
    printed = scene.run([THALWEG, "gate", "--config", gate.path, "--check"], code=1, stderr=-2)
    check(printed.startswith(f"thalweg: {gate.path}:11: ") and printed.count("\n") == 1, f"--check said {printed!r}")
    gate.process.terminate()
    check(gate.process.wait(timeout=10) == 0, f"it ended with {gate.process.returncode}")


@test
def a_gate_logs_its_clients_as_json_when_that_is_asked_for(scene):
    port, upstream = free_port(), free_port()
    listen = f'[[listen]]\nprotocol = "s3"\naddress = "127.0.0.1:{port}"\nupstream = "127.0.0.1:{upstream}"\n'
    gate = Gate(scene, [port], listen, options=["--log", "debug", "--log-format", "json"])
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /bucket/key HTTP/1.1\r\nHost: here\r\n\r\n")
        peer = "{}:{}".format(*client.getsockname())
        scene.until(lambda: "cannot be reached" in said(gate), "the server to be missed")
    scene.until(lambda: '"debug"' in said(gate) and "ended" in said(gate), "the connection's end to be logged")
    lines = [json.loads(line) for line in said(gate).splitlines()]
    check(all(set(line) == {"time", "level", "peer", "message"} for line in lines), f"{lines}")
    check(any(line["peer"] == peer and "accepted" in line["message"] for line in lines), f"{lines}")


@test
def top_shows_who_shares_once_or_as_json(scene):
    gate, metrics = stand(scene)
    table = scene.run([THALWEG, "gate", "top", metrics, "--once"]).splitlines()
    check(table[0].split()[0] == "application" and table[0].split()[-1] == "late", f"the head is {table[0]!r}")
    check(table[1].split()[:2] == ["climate", "16"], f"the first row is {table[1]!r}")
    status = json.loads(scene.run([THALWEG, "gate", "top", metrics, "--once", "--json"]))
    check([application["name"] for application in status["applications"]] == ["climate", "other"], f"{status}")
    gate.kill()
    for address, code, why in ((metrics, 1, "`metrics` in the gate's file"), ("nonsense", 2, "HOST:PORT is needed")):
        printed = scene.run([THALWEG, "gate", "top", address, "--once"], code=code, stderr=-2)
        check(address in printed and why in printed and printed.count("\n") == 1, f"top {address} said {printed!r}")
