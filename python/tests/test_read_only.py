"""A store that may only be read is read, and says so to who writes. SPDX-License-Identifier: Apache-2.0"""

import errno
import subprocess
import sys

import pytest

import thalweg

OPERATIONS = {
    "pipe": "fs.pipe_file('z', b'1')",
    "open": "file = fs.open('z', 'wb'); file.write(b'1'); file.close()",
    "open_only": "fs.open('z', 'wb')",
    "open_to_change": "fs.open('n', 'r+b')",
    "remove": "fs.rm('n')",
    "rename": "fs.mv('n', 'm')",
    "copy": "fs.cp('n', 'm')",
    "mkdir": "fs.mkdir('d')",
    "transaction": "fs.start_transaction(); fs.pipe_file('t', b''); fs.end_transaction()",
}
SCRIPT = """
import os, sys, fsspec.implementations.local, thalweg
if os.geteuid() == 0:
    # Root may write anywhere, and has the interpreter where others may not read it.
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
fs = thalweg.ThalwegFileSystem(sys.argv[1])
assert fs.cat_file("n") == b"n"
try:
    exec(sys.argv[2])
except OSError as error:
    print(type(error).__name__, error.errno)
"""


@pytest.fixture
def read_only(tmp_path):
    store = tmp_path / "store"
    thalweg.create(store)
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, thalweg; thalweg.ThalwegFileSystem(sys.argv[1]).pipe_file('n', b'n')",
            store,
        ],
        check=True,
    )
    paths = [store, *store.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    above = [path for path in (tmp_path, *tmp_path.parents) if not path.stat().st_mode & 1]
    modes = [path.stat().st_mode for path in above]
    for path in above:
        path.chmod(0o755)
    yield str(store)
    for path, mode in zip(above, modes):
        path.chmod(mode)
    for path in paths:
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_writing_says_that_it_can_only_be_read(read_only, operation):
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, read_only, OPERATIONS[operation]], capture_output=True, text=True, cwd="/"
    )
    assert ran.stdout.split() == ["OSError", str(errno.EROFS)], ran.stdout + ran.stderr
