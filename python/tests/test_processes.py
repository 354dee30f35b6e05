"""Many threads, forked and spawned processes, and a node that dies. SPDX-License-Identifier: Apache-2.0"""

import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import Node

import thalweg
from thalweg.connections import close_all


def store_one(fs, path):
    fs.pipe_file(path, os.fsencode(path) * 1000)
    return fs.cat_file(path) == os.fsencode(path) * 1000


def test_many_threads_use_one_file_system(fs, folder):
    paths = [f"{folder}/{number}" for number in range(200)]
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        assert all(threads.map(store_one, [fs] * 200, paths))
    assert len(fs.ls(folder)) == 200


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_use_a_file_system_of_their_parents(fs, folder, method):
    fs.pipe_file(f"{folder}/mine", b"before")
    paths = [f"{folder}/{number}" for number in range(40)]
    with concurrent.futures.ProcessPoolExecutor(3, multiprocessing.get_context(method)) as processes:
        assert all(processes.map(store_one, [fs] * 40, paths))
    assert fs.cat_file(f"{folder}/mine") == b"before" and len(fs.ls(folder)) == 41


def test_a_forked_child_leaves_its_parents_files_alone(fs, folder):
    fs.pipe_file(f"{folder}/x", b"read on")
    with fs.open(f"{folder}/y", "wb") as written, fs.open(f"{folder}/x", cache_type="none") as read:
        written.write(b"1" * 10_000_000)
        child = os.fork()
        if child == 0:
            good = read.read() == b"read on"
            try:
                written.write(b"2" * 10_000_000)
            except RuntimeError:
                os._exit(0 if good else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert read.read() == b"read on"
    assert fs.size(f"{folder}/y") == 10_000_000


def test_a_child_that_is_forked_while_other_threads_commit_waits_for_none_of_them(tmp_path):
    thalweg.create(str(tmp_path / "store"))
    fs = thalweg.ThalwegFileSystem(str(tmp_path / "store"))
    is_over = threading.Event()

    def commit(thread):
        while not is_over.is_set():
            fs.pipe_file(f"{thread}", b"content")

    threads = [threading.Thread(target=commit, args=(thread,), daemon=True) for thread in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    try:
        for number in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(15)
                fs.pipe_file(f"child/{number}", b"content")
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert len(fs.ls("child")) == 10


def test_a_node_that_dies_is_an_error_that_names_it(tmp_path):
    thalweg.create(str(tmp_path / "store"))
    node = Node(str(tmp_path / "store"))
    fs = thalweg.ThalwegFileSystem(node.address)
    fs.pipe_file("x", b"1")
    node.kill()
    # The first waits for it to come back; then no call waits any more.
    for operation in (lambda: fs.cat_file("x"), lambda: fs.exists("x"), lambda: fs.pipe_file("y", b"2")):
        with pytest.raises(ConnectionError, match=node.address.removeprefix("thalweg://")):
            operation()
    again = Node(str(tmp_path / "store"), node.address)
    assert fs.cat_file("x") == b"1" and not fs.exists("y")
    close_all()
    for one in (node, again):
        one.stop()


def test_a_process_whose_node_is_gone_exits_at_once(tmp_path):
    thalweg.create(str(tmp_path / "store"))
    node = Node(str(tmp_path / "store"))
    script = "import sys, thalweg; thalweg.ThalwegFileSystem(sys.argv[1]).pipe_file('x', b'1'); print('done'); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script, node.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"done\n"
        node.stop()
        begun = time.monotonic()
        process.communicate(b"\n", timeout=60)
        assert process.returncode == 0 and time.monotonic() - begun < 8


def test_work_goes_on_when_the_node_comes_back(tmp_path):
    thalweg.create(str(tmp_path / "store"))
    node = Node(str(tmp_path / "store"))
    fs = thalweg.ThalwegFileSystem(node.address)
    fs.pipe_file("x", b"1")
    node.kill()
    again = Node(str(tmp_path / "store"), node.address)
    assert fs.cat_file("x") == b"1"
    fs.pipe_file("y", b"2")
    assert fs.cat_file("y") == b"2"
    close_all()
    for one in (node, again):
        one.stop()


WRITE_MUCH = """
import random, re, sys, thalweg
fs = thalweg.ThalwegFileSystem(sys.argv[1])
with fs.open("much", "wb") as file:
    for number in range(256):
        file.write(random.Random(number).randbytes(1 << 20))
with fs.open("much", cache_type="none") as file:
    while file.read(1 << 20):
        pass
print(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
"""


def test_memory_does_not_grow_with_the_file(directory_store):
    done = subprocess.run([sys.executable, "-c", WRITE_MUCH, directory_store], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # 64 MiB of decoded blocks, some parts of containers, the interpreter; the file has 256.
    assert int(done.stdout) << 10 < 200 << 20
