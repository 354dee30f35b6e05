"""A file is not stored whose function an exception has left, however late it is collected; others are.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import csv
import gc
import gzip
import io
import json
import sys
import threading
import zipfile

import pandas as pd
import pytest

BAD = [1, object()]


class Unwritable:
    def __str__(self):
        raise TypeError("it cannot be written")


FRAME = pd.DataFrame({"a": ["x"] * 1000 + [Unwritable()]})


def zip_member(file):
    archive = zipfile.ZipFile(file, "w")
    archive.writestr("first", "1" * 1000)
    archive.writestr("second", BAD)


def compress(file):
    compressed = gzip.GzipFile(fileobj=file, mode="wb")
    compressed.write(b"1" * 1000)
    json.dump(BAD, io.TextIOWrapper(compressed))


def write_rows(file):
    rows = csv.writer(file)
    rows.writerow([1, 2])
    rows.writerow([Unwritable()])


def nest(depth, file):
    json.dump(BAD, file) if depth == 0 else nest(depth - 1, file)


WRITERS = {
    "json": ("w", lambda file: json.dump(BAD, file)),
    "json, far below": ("w", lambda file: nest(30, file)),
    "json, nested": ("w", lambda file: json.dump(json.loads("[" * 300 + "]" * 300) + BAD, file)),
    "to_csv": ("w", lambda file: FRAME.to_csv(file, chunksize=10)),
    "to_csv, bytes": ("wb", lambda file: FRAME.to_csv(file, chunksize=10)),
    "text": ("wb", lambda file: json.dump(BAD, io.TextIOWrapper(file))),
    "buffered": ("wb", lambda file: json.dump(BAD, io.TextIOWrapper(io.BufferedWriter(file)))),
    "gzip": ("wb", compress),
    "zip": ("wb", zip_member),
    "csv": ("w", write_rows),
    "scratch": ("w+", lambda file: json.dump(BAD, file)),
}


@pytest.fixture(params=WRITERS)
def raise_in_writer(request, fs, folder):
    mode, write = WRITERS[request.param]

    def raise_in_writer():
        write(fs.open(f"{folder}/x", mode))

    return raise_in_writer


@pytest.fixture
def is_stored(fs, folder):
    def is_stored():
        gc.collect()
        return fs.exists(f"{folder}/x")

    return is_stored


def test_one_that_was_handled(raise_in_writer, is_stored):
    try:
        raise_in_writer()
    except TypeError:
        pass
    assert not is_stored()


def test_one_that_was_suppressed(raise_in_writer, is_stored):
    with contextlib.suppress(TypeError):
        raise_in_writer()
    assert not is_stored()


def test_one_that_is_kept_and_replaced_later_as_notebooks_do(raise_in_writer, is_stored):
    try:
        raise_in_writer()
    except TypeError as error:
        kept = [error]
    assert not is_stored()
    kept.clear()
    assert not is_stored()


def test_one_that_ends_a_thread(raise_in_writer, is_stored, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    thread = threading.Thread(target=raise_in_writer)
    thread.start()
    thread.join()
    assert not is_stored()


def test_what_is_collected_while_another_exception_is_handled_is_stored(fs, folder, is_stored):
    try:
        raise KeyError
    except KeyError:
        json.dump([1], fs.open(f"{folder}/x", "w"))
        io.TextIOWrapper(fs.open(f"{folder}/y", "wb")).write("text")
    assert is_stored() and fs.cat_file(f"{folder}/y") == b"text"


def test_what_a_function_has_that_ends_well_is_stored(fs, folder, is_stored):
    def write():
        file = fs.open(f"{folder}/x", "w")
        with contextlib.suppress(KeyError):
            raise KeyError
        file.write("text")
        return sys._getframe().f_code

    assert write() is not None and is_stored()


def test_a_file_that_a_handler_closes_is_stored(fs, folder, is_stored):
    file = fs.open(f"{folder}/x", "w")
    try:
        json.dump(BAD, file)
    except TypeError:
        file.close()
    assert is_stored()
