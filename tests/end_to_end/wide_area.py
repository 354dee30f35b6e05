"""The test bed of slow and far links (bench/wan): its delays and rates, and the streams that MPI programs open over it."""

import json
import sys

from stage.building import ROOT, THALWEG, door_program, own_program
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Store

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


# Runs on the near side: a node on the far side, with a store there.
NODE = """
import json, os, re, subprocess, sys, time
thalweg, store, program = sys.argv[1], sys.argv[2], sys.argv[3:]
on_far, far = os.environ["WAN_ON_FAR"].split(), os.environ["WAN_FAR"] + ":7420"
listen = ["--insecure", "--listen", far, "--metrics", os.environ["WAN_FAR"] + ":7421"]
node = subprocess.Popen([*on_far, thalweg, "node", store, *listen], stdout=subprocess.DEVNULL)
while subprocess.run([*on_far, "ss", "-tlnH", "sport", "=", ":7421"], capture_output=True).stdout == b"":
    if node.poll() is not None: sys.exit("the node ended")
    time.sleep(0.05)
"""

# A program here, and how many connections carried its bytes.
STREAMS = NODE + """
def connections():
    said = subprocess.run([*on_far, "ss", "-tinH", "state", "established", "sport", "=", ":7420"],
                          capture_output=True, text=True, check=True).stdout
    received = [word.split(":")[1] for word in said.split() if word.startswith("bytes_received:")]
    return sum(int(bytes) > 128 << 10 for bytes in received)
command = [thalweg, "run", "--node", far, "--", *program]
running, most = subprocess.Popen(command, stdout=subprocess.DEVNULL), 0
while running.poll() is None:
    most = max(most, connections())
    time.sleep(0.1)
node.terminate(), node.wait()
print(json.dumps(dict(code=running.returncode, connections=most)))
"""


@test(each=[1, 4])
def a_job_opens_eight_streams_in_all_to_a_far_node(scene, ranks):
    program = scene.folder / "fresh"
    scene.run(["mpicc.mpich", "-O2", "-std=gnu11", "-o", program, ROOT / "bench" / "fresh.c"])
    store = Store(scene)
    # 32 MiB in pieces of 1 MiB, at 200 Mbit/s.
    job = launch("mpich", ranks, program, "SD:/file", 32 // ranks, 1024, scene.dice.randrange(1 << 20))
    link = [WAN, "--delay-ms", "10", "--rate-mbit", "200", "--"]
    found = json.loads(scene.run([*link, sys.executable, "-c", STREAMS, THALWEG, store.folder, *job]))
    check(found["code"] == 0, f"the program ended with {found['code']}")
    check(found["connections"] == 8, f"{found['connections']} connections carried the file")
    store.verify()


# A command here, and what the node counted. The word NODE in it becomes the node's address.
COUNTED = NODE + """
import urllib.request
program = [word.replace("NODE", far) for word in program]
code = subprocess.run(program, stdout=subprocess.DEVNULL).returncode
said = urllib.request.urlopen("http://" + os.environ["WAN_FAR"] + ":7421/metrics", timeout=60).read().decode()
requests = sum(float(count) for count in re.findall(r"^thalweg_node_requests_total(?:{.*})? (.*)$", said, re.M))
node.terminate(), node.wait()
print(json.dumps(dict(code=code, requests=requests)))
"""


@test
def a_tree_comes_back_over_a_far_link_with_few_requests(scene):
    tree, back = scene.folder / "tree", scene.folder / "back"
    tree.mkdir()
    for number in range(400):
        (tree / f"small{number}").write_bytes(scene.dice.randbytes(scene.dice.randrange(20_000)))
    (tree / "large").write_bytes(scene.dice.randbytes(24 << 20))
    store = Store(scene)
    store.command("put", tree, store.at())
    link = [WAN, "--delay-ms", "25", "--rate-mbit", "400", "--"]
    job = [THALWEG, "get", "thalweg://NODE::", back]
    found = json.loads(scene.run([*link, sys.executable, "-c", COUNTED, THALWEG, store.folder, *job]))
    check(found["code"] == 0, f"get ended with {found['code']}")
    scene.run(["diff", "--recursive", tree, back / "tree"])
    # One for each small file, and one for each 512 KiB, were too many: each takes a round trip.
    check(found["requests"] < 200, f"{found['requests']:.0f} requests for 401 files of 28 MB")


def requests_for_pieces(scene, ranks, piece_bytes, variables=()):
    """Requests for 16 MiB that the ranks read in turns, piece by piece."""
    plain = scene.folder / "plain"
    plain.write_bytes(scene.dice.randbytes((16 << 20) + 77))
    store = Store(scene)
    store.command("put", plain, store.at())
    link = [WAN, "--delay-ms", "25", "--rate-mbit", "400", "--"]
    job = launch("mpich", ranks, own_program("read_pieces", "mpich"), "SD:/plain", plain, piece_bytes)
    run = ["env", *variables, THALWEG, "run", "--node", "NODE", "--", *job]
    found = json.loads(scene.run([*link, sys.executable, "-c", COUNTED, THALWEG, store.folder, *run]))
    check(found["code"] == 0, f"the program ended with {found['code']}")
    return found["requests"]


@test(each=[1, 4])
def a_program_that_reads_a_far_file_piece_by_piece_waits_for_few_answers(scene, ranks):
    requests = requests_for_pieces(scene, ranks, 32 << 10)
    check(requests < 256, f"{requests:.0f} requests for 512 pieces")


@test
def a_program_whose_hint_says_that_it_reads_at_random_asks_for_each_piece(scene):
    hints = scene.folder / "hints"
    hints.write_text("access_style read_once,random\n")
    requests = requests_for_pieces(scene, 1, 64 << 10, [f"ROMIO_HINTS={hints}"])
    check(requests > 256, f"{requests:.0f} requests for 256 pieces")


@test(each=["interleaved", "pointer", "read_ahead", "shared", "views"])
def programs_read_back_from_a_far_node_what_they_wrote(scene, name):
    store = Store(scene)
    link = [WAN, "--delay-ms", "3", "--rate-mbit", "400", "--"]
    job = launch("mpich", 3, door_program("mpich", name), "SD:/test-", scene.new_folder("plain"))
    run = [THALWEG, "run", "--node", "NODE", "--", *job]
    found = json.loads(scene.run([*link, sys.executable, "-c", COUNTED, THALWEG, store.folder, *run]))
    check(found["code"] == 0, f"{name} ended with {found['code']}")
    store.verify()
