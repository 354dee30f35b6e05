"""How blocks are encoded, on request. SPDX-License-Identifier: Apache-2.0"""

import json
import random
import string
import subprocess

import fsspec
import pytest
from conftest import COMMAND

import thalweg


def _words():
    chosen = random.Random(1)
    words = ["".join(chosen.choices(string.ascii_lowercase, k=chosen.randint(3, 10))) for _ in range(2048)]
    return " ".join(words[int(len(words) * chosen.random() ** 2)] for _ in range(400_000)).encode()


def _stored_bytes(store):
    return json.loads(subprocess.run([COMMAND, "stats", store, "--json"], check=True, capture_output=True).stdout)[
        "stored_bytes"
    ]


def _written(folder, mode_of_store=None, **storage_options):
    store = str(folder)
    thalweg.create(store, mode_of_store)
    fs = fsspec.filesystem("thalweg", store=store, **storage_options)
    with fs.open("words", "wb") as file:
        file.write(_words())
    assert fs.cat_file("words") == _words()
    return _stored_bytes(store)


def test_a_file_system_encodes_in_its_mode(tmp_path):
    unasked = _written(tmp_path / "unasked")
    assert _written(tmp_path / "archival", encoding_mode="archival") < 0.93 * unasked
    assert _written(tmp_path / "store", "archival") < 0.93 * unasked


def test_a_pipe_and_a_file_named_by_its_url_are_encoded_in_the_mode(tmp_path):
    sizes = []
    for mode in (None, "archival"):
        store = str(tmp_path / f"store-{mode}")
        thalweg.create(store)
        with fsspec.open(f"thalweg://{store}!/words", "wb", encoding_mode=mode) as file:
            file.write(_words())
        fsspec.filesystem("thalweg", store=store, encoding_mode=mode).pipe_file("piped", _words()[::-1])
        sizes.append(_stored_bytes(store))
    assert sizes[1] < 0.93 * sizes[0]


def test_words_that_are_no_mode_are_refused(tmp_path):
    with pytest.raises(ValueError, match="performance, balanced"):
        fsspec.filesystem("thalweg", store=str(tmp_path), encoding_mode="smallest")
    with pytest.raises(ValueError, match="performance, balanced"):
        thalweg.create(tmp_path / "new", "smallest")
    assert not (tmp_path / "new").exists()
