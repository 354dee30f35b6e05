"""A gate before VersityGW, and rclone as its client: both as distributed."""

import time
import urllib.request

from stage.gate import Gate
from stage.link import Link
from stage.ports import free_port
from stage.registry import check, test
from stage.versitygw import Client, Server

GATE = """
[[listen]]
protocol = "s3"
address = "127.0.0.1:{port}"
upstream = "127.0.0.1:{upstream}"
[[application]]
name = "heavy"
weight = 4
match = {{ access_key = "HEAVYKEY" }}
[[application]]
name = "light"
match = {{ access_key = "LIGHTKEY" }}
"""
PART = ["--s3-upload-cutoff", "5M", "--s3-chunk-size", "5M", "--s3-upload-concurrency", "3"]


def stand(scene):
    server, port = Server(scene), free_port()
    gate = Gate(scene, [port], GATE.format(port=port, upstream=server.port))
    client = Client(scene, port)
    client.run("mkdir", "S:bucket")
    return server, gate, client


def put(scene, client, name, length):
    path = scene.folder / name
    path.write_bytes(scene.dice.randbytes(length))
    client.run("copyto", *PART, path, f"S:bucket/{name}")
    return path.read_bytes()


def check_object(scene, client, name, content):
    path = scene.folder / f"fetched {name}"
    client.run("copyto", f"S:bucket/{name}", path)
    check(path.read_bytes() == content, f"{name} came back different")
    path.unlink()


@test
def signed_objects_of_all_sizes_pass_the_gate(scene):
    server, gate, client = stand(scene)
    for name, length in ("empty", 0), ("small", 1000), ("page", 4097), ("large", 4_900_000), ("parts", 23_000_001):
        content = put(scene, client, name, length)
        check((server.folder / "bucket" / name).read_bytes() == content, f"the server has another {name}")
        check_object(scene, client, name, content)
    listed = client.run("lsf", "S:bucket").split()
    check(sorted(listed) == ["empty", "large", "page", "parts", "small"], f"listed are {listed}")
    client.run("deletefile", "S:bucket/small")
    check(not (server.folder / "bucket" / "small").exists(), "a deleted object is still there")
    wrong = Client(scene, gate.ports[0], ("ROOTKEY", "another-secret"))
    wrong.run("lsf", "--retries", "1", "S:bucket", code=1)


@test
def ranges_and_presigned_addresses_pass_the_gate(scene):
    _, _, client = stand(scene)
    content = put(scene, client, "object", 3_000_000)
    (scene.folder / "part").write_text(client.run("cat", "--offset", "1000000", "--count", "0", "S:bucket/object"))
    url = client.run("link", "--expire", "1h", "S:bucket/object").strip()
    request = urllib.request.Request(url, headers={"Range": "bytes=1000000-2000009"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        check(answer.status == 206, f"a range is answered with {answer.status}")
        check(answer.read() == content[1_000_000:2_000_010], "the range holds other bytes")
    with urllib.request.urlopen(url, timeout=30) as answer:
        check(answer.read() == content, "the object holds other bytes")


@test
def a_server_that_comes_back_and_a_gate_that_is_killed_cost_no_object(scene):
    server, gate, client = stand(scene)
    content = put(scene, client, "before", 6_000_000)
    server.kill()
    client.run("lsf", "--retries", "1", "--low-level-retries", "1", "S:bucket", code=None)
    server.start()
    check_object(scene, client, "before", content)
    path = scene.folder / "during"
    path.write_bytes(scene.dice.randbytes(40_000_000))
    client.run("mkdir", "S:bucket")
    uploading = client.start("copyto", *PART, "--bwlimit", "10M", path, "S:bucket/during")
    scene.until(lambda: any((server.folder / "bucket").rglob("*")), "the upload to begin")
    gate.kill()
    gate.start()
    scene.wait_for(uploading)
    check(uploading.returncode == 0, f"the upload ended with {uploading.returncode}, though a new gate was there")
    check_object(scene, client, "during", path.read_bytes())
    check_object(scene, client, "before", content)


@test(seconds=120)
def two_access_keys_share_a_slow_server_four_to_one(scene):
    server, port = Server(scene), free_port()
    slow = Link(scene, f"127.0.0.1:{server.port}", bytes_per_second=12e6)
    gate = Gate(scene, [port], GATE.format(port=port, upstream=slow.port))
    source = scene.new_folder("source")
    for number in range(80):
        (source / str(number)).write_bytes(scene.dice.randbytes(1 << 20))
    running = {}
    for name in "heavy", "light":
        key = (f"{name.upper()}KEY", f"{name}-secret")
        server.add_user(*key)
        client = Client(scene, port, key)
        client.run("mkdir", f"S:{name}")
        running[name] = client.start("copy", "--transfers", "8", "--ignore-checksum", source, f"S:{name}")
    scene.wait_for(running["heavy"])
    check(running["heavy"].returncode == 0, "the heavy upload failed")
    done = sum(1 for path in (server.folder / "light").iterdir() if path.is_file())
    check(10 <= done <= 36, f"light has {done} of 80 objects when heavy has all: a quarter were right")
    gate.is_running()


@test
def a_large_object_comes_in_ranges_about_as_fast_as_whole(scene):
    server, _, client = stand(scene)
    content = scene.dice.randbytes(200 << 20)
    (server.folder / "bucket" / "large").write_bytes(content)
    seconds = {}
    for streams in ("0", "4"):
        path, begun = scene.folder / f"by {streams}", time.monotonic()
        client.run("copyto", "--multi-thread-cutoff", "8M", "--multi-thread-streams", streams, "S:bucket/large", path)
        seconds[streams] = time.monotonic() - begun
        check(path.read_bytes() == content, "other bytes came")
        path.unlink()
    check(seconds["4"] < 4 * seconds["0"] + 2, f"seconds by streams: {seconds}")
