"""Stores behind a secret and TLS, named by storage options; stores that may only be read.
SPDX-License-Identifier: Apache-2.0"""

import json
import os
import pickle
import subprocess
from pathlib import Path

import fsspec
import pytest
from conftest import COMMAND

import thalweg
from thalweg.connections import close_all

CERTIFICATES = Path(__file__).resolve().parents[2] / "tests" / "stage" / "certificates.sh"


@pytest.fixture
def guarded(tmp_path):
    """The storage options of a store whose node has a certificate and a secret."""
    subprocess.run(["sh", CERTIFICATES], cwd=tmp_path, check=True, capture_output=True)
    for name in ("secret", "other-secret"):
        subprocess.run([COMMAND, "secret", tmp_path / name], check=True, capture_output=True)
    thalweg.create(str(tmp_path / "store"))
    command = [COMMAND, "--json", "node", tmp_path / "store", "--listen", "127.0.0.1:0"]
    command += ["--tls-cert", tmp_path / "node.pem", "--tls-key", tmp_path / "node.key"]
    node = subprocess.Popen([*command, "--secret-file", tmp_path / "secret"], stdout=subprocess.PIPE, text=True)
    address = "thalweg://" + json.loads(node.stdout.readline())["listening"]
    yield {"store": address, "secret_file": tmp_path / "secret", "tls_ca": str(tmp_path / "ca.pem")}
    close_all()
    node.terminate()
    node.wait()
    node.stdout.close()


def test_storage_options_name_the_secret_and_the_authorities_of_a_node(guarded, tmp_path):
    with fsspec.open("thalweg:///a/file", "wb", **guarded) as file:
        file.write(b"content")
    fs = pickle.loads(pickle.dumps(fsspec.filesystem("thalweg", **guarded)))
    assert fs.cat("a/file") == b"content"
    for wrong in (
        {"tls_ca": None},
        {"secret_file": None},
        {"tls_ca": str(tmp_path / "other.pem")},
        {"secret_file": str(tmp_path / "other-secret")},
        {"secret_file": str(tmp_path / "nothing")},
    ):
        with pytest.raises(OSError):
            fsspec.filesystem("thalweg", **{**guarded, **wrong}).cat("a/file")
    assert fs.cat("a/file") == b"content"


def test_a_store_that_may_only_be_read_is_read(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounts need root")
    store, mount = tmp_path / "store", tmp_path / "mount"
    thalweg.create(str(store))
    writable = fsspec.filesystem("thalweg", store=str(store))
    writable.pipe("a/file", b"content")
    mount.mkdir()
    if subprocess.run(["mount", "--bind", store, mount], check=False).returncode != 0:
        pytest.skip("no mounts here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", mount], check=True)
        fs = fsspec.filesystem("thalweg", store=str(mount))
        assert fs.cat("a/file") == b"content"
        assert fs.ls("a", detail=False) == ["a/file"]
        with pytest.raises(OSError):
            fs.pipe("a/other", b"more")
        assert fs.cat("a/file") == b"content"
    finally:
        close_all()
        subprocess.run(["umount", "--lazy", mount], check=True)
