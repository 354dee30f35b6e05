"""The test bed of slow and far links (bench/wan): its delays and rates. Traffic over it is tested elsewhere."""

import json
import sys

from stage.building import ROOT
from stage.registry import check, test

WAN = ROOT / "bench" / "wan"

# Runs on the near side; the far side counts datagrams, then takes a stream and answers it.
FAR = """
import socket, sys
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
datagrams.bind((sys.argv[1], 0)), datagrams.settimeout(3)
listener = socket.create_server((sys.argv[1], 0))
print(datagrams.getsockname()[1], listener.getsockname()[1], flush=True)
count = 0
try:
    while datagrams.recv(100): count += 1
except TimeoutError: pass
print(count, flush=True)
stream = listener.accept()[0]
while stream.recv(1 << 16): pass
stream.sendall(b"!")
"""
NEAR = """
import json, os, socket, subprocess, sys, time
far = os.environ["WAN_FAR"]
command = [*os.environ["WAN_ON_FAR"].split(), sys.executable, "-c", sys.argv[1], far]
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
datagrams_port, stream_port = map(int, server.stdout.readline().split())
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(2000):
    datagrams.sendto(b"x", (far, datagrams_port))
    if number % 20 == 0: time.sleep(0.01)
come = int(server.stdout.readline())
with open(os.environ["WAN_CONTROL"], "w") as control: control.write("loss=0\\n")
time.sleep(0.2)
begun = time.monotonic()
stream = socket.create_connection((far, stream_port))
connected = time.monotonic() - begun
begun = time.monotonic()
stream.sendall(bytes(2_500_000)), stream.shutdown(socket.SHUT_WR), stream.recv(1)
print(json.dumps(dict(come=come, connected=connected, streamed=time.monotonic() - begun)))
sys.exit(5)
"""


@test
def an_emulated_link_has_the_delay_the_rate_and_the_loss_that_it_was_given(scene):
    settings = ["--delay-ms", "50", "--rate-mbit", "20", "--loss", "0.2,0", "--seed", str(scene.dice.randrange(1 << 32))]
    report = scene.folder / "report"
    found = json.loads(scene.run([WAN, *settings, "--report", report, "--", sys.executable, "-c", NEAR, FAR], code=5))
    # Four standard deviations of 2000 tries.
    check(1528 <= found["come"] <= 1672, f"{found['come']} of 2000 datagrams came, at a loss of 0.2")
    check(0.1 <= found["connected"] < 0.2, f"a round trip took {found['connected']:.3f} s, not 0.1 s")
    # A second for the bytes, and some round trips until the stream is fast.
    check(1.0 <= found["streamed"] < 5, f"2.5 MB took {found['streamed']:.2f} s at 20 Mbit/s")
    lost = int(report.read_text().split(" lost=")[1].split()[0])
    # The kernel sends some packets of its own, as router solicitations, and loses them alike.
    missing = 2000 - found["come"]
    check(missing <= lost <= missing + 8, f"the link counted {lost} lost, and {missing} are missing")


@test
def a_machine_without_emulated_links_is_no_command_that_failed(scene):
    without = ["setpriv", "--bounding-set", "-sys_admin,-net_admin"]
    said = scene.run(["sh", "-c", 'exec "$@" 2>&1', "sh", *without, WAN, "--", "true"], code=77)
    check(len(said.splitlines()) == 1 and "CAP_NET_ADMIN" in said, f"it said {said!r}")
