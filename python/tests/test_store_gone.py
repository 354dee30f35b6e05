"""Runs whose store is gone for a while, or for good. SPDX-License-Identifier: Apache-2.0"""

import asyncio
import http.client
import re
import threading
import time

import pytest
import requests
import urllib3
from aiohttp import ClientPayloadError
from aiohttp.http_exceptions import BadHttpMessage, ContentLengthError
from diffusion_tasks import content, fail, write
from distributed import LocalCluster
from far_store import FarStore

from thalweg.diffusion import Diffusion, File, Output, StoreGone
from thalweg.diffusion.stores.stall_timeout import StoreStalled, with_stall_timeout
from thalweg.diffusion.stores.store_retry import StoreRetry, is_permanent


@pytest.fixture
def store():
    store = FarStore()
    for number in range(60):
        store.files[f"/{number}"] = bytes([number]) * 1000
    yield store
    store.close()


@pytest.fixture(scope="module")
def cluster():
    # In this process, which knows the file system.
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture(params=["local", "dask"])
def begin(request, tmp_path):
    def begin(**options):
        options["cache_folder"] = tmp_path / "cache"
        if request.param == "local":
            return Diffusion(workers=2, **options)
        return Diffusion(request.getfixturevalue("cluster"), **options)

    return begin


def read_in_order(run, store, numbers):
    return [result.value for result in run.map(content, [File(store.url(number)) for number in numbers]).in_order()]


@pytest.mark.parametrize("way", ["refusing", "silent", "busy"])
def test_a_run_goes_on_when_its_store_comes_back(begin, store, way):
    with begin(store_timeout_s=6.0) as run:
        assert read_in_order(run, store, range(10)) == [bytes([number]) * 1000 for number in range(10)]
        getattr(store, way)()
        threading.Timer(1.5, store.there).start()
        results = list(run.map(content, [File(store.url(number)) for number in range(60)]))
    assert sorted(result.index for result in results) == list(range(60))
    assert all(result.value == bytes([result.index]) * 1000 and result.attempts >= 1 for result in results)


@pytest.mark.parametrize("scheme", ["far", "http"])
def test_responses_that_are_cut_off_are_asked_for_again(begin, store, scheme):
    urls = [store.url(number, scheme) for number in range(20)]
    with begin(store_timeout_s=6.0) as run:
        store.cutting()
        threading.Timer(1.0, store.there).start()
        results = list(run.map(content, [File(url) for url in urls]).in_order())
    assert [result.value for result in results] == [bytes([number]) * 1000 for number in range(20)]


@pytest.mark.parametrize("way", ["refusing", "silent", "busy"])
def test_tasks_fail_when_their_store_stays_gone_and_others_run(begin, store, way):
    with begin(store_timeout_s=1.0) as run:
        assert read_in_order(run, store, range(3)) == [bytes([number]) * 1000 for number in range(3)]
        getattr(store, way)()
        results = list(run.map(content, [File(store.url(number)) for number in range(60)]))
        assert sorted(result.index for result in results) == list(range(60))
        here = {result.index for result in results if result.error is None}
        assert here == {0, 1, 2}
        for result in results:
            if result.index not in here:
                assert isinstance(result.error, StoreGone)
                assert store.url(result.index) in str(result.error) and "run_folder" in str(result.error)
        store.there()
        # A store found gone is taken for gone for some seconds.
        end = time.monotonic() + 30
        while isinstance((future := run.submit(content, File(store.url(59)))).exception(), StoreGone):
            assert time.monotonic() < end
            time.sleep(0.2)
        assert future.result() == bytes([59]) * 1000


@pytest.mark.parametrize("way, said", [("refusing", "Cannot connect"), ("busy", "503")])
def test_the_error_of_a_store_that_stays_gone_has_its_cause_and_its_time(begin, store, way, said):
    with begin(store_timeout_s=1.0) as run:
        getattr(store, way)()
        begun = time.monotonic()
        error = run.submit(content, File(store.url(1, "http"))).exception()
        took_s = time.monotonic() - begun
    assert isinstance(error, StoreGone) and said in str(error)
    rounding_s = 0.005
    assert 0.9 <= float(re.search(r"has failed for ([\d.]+) s", str(error))[1]) <= took_s + rounding_s


@pytest.mark.parametrize("way", ["refusing", "silent", "busy"])
def test_outputs_reach_a_store_that_comes_back(begin, store, way):
    with begin(store_timeout_s=6.0) as run:
        getattr(store, way)()
        threading.Timer(1.5, store.there).start()
        written = [run.submit(write, f"out {number}", Output(store.url(f"out-{number}"))) for number in range(8)]
        assert [future.result() for future in written] == [5] * 8
    assert {name: body for name, body in store.files.items() if "out" in name} == {
        f"/out-{number}": f"out {number}".encode() for number in range(8)
    }


@pytest.mark.parametrize("way", ["refusing", "silent", "busy"])
def test_outputs_for_a_store_that_stays_gone_fail_their_tasks(begin, store, way):
    with begin(store_timeout_s=1.0) as run:
        getattr(store, way)()
        results = list(run.map(write, [("x", Output(store.url(f"out-{number}"))) for number in range(12)]))
        assert len(results) == 12
        assert all(isinstance(result.error, StoreGone) and "/out-" in str(result.error) for result in results)
    assert not any("out" in name for name in store.files)


def test_a_question_without_an_answer_is_given_up_and_one_that_gets_on_is_not():
    forever = threading.Event()
    with pytest.raises(StoreStalled, match="s3://bucket/x"):
        with_stall_timeout(forever.wait, 0.2, "s3://bucket/x")
    heard = iter(range(1000))
    pause = threading.Event()
    assert (
        with_stall_timeout(lambda: pause.wait(0.5) or "answer", 0.2, "s3://bucket/x", lambda: next(heard)) == "answer"
    )
    with pytest.raises(KeyError):
        with_stall_timeout(lambda: fail(1), 0.2, "s3://bucket/x")


def test_time_in_which_the_machine_stood_still_does_not_count(monkeypatch):
    clock = time.monotonic
    begun = clock()
    # One jump, before the store has had any time to answer.
    monkeypatch.setattr(time, "monotonic", lambda: clock() + (60 if clock() > begun + 0.2 else 0))
    pause = threading.Event()
    assert with_stall_timeout(lambda: pause.wait(0.5) or "answer", 1.0, "s3://bucket/x") == "answer"
    answers = iter([TimeoutError(), TimeoutError()])

    def ask():
        error = next(answers, None)
        if error is not None:
            pause.wait(0.3)
            raise error
        return "answer"

    begun = clock()
    assert StoreRetry(1.0).call("s3://bucket/x", ask) == "answer"


class ClientError(Exception):
    """As libraries have them: no `OSError`."""

    def __init__(self, status=None):
        super().__init__("no answer")
        self.status = status


def caused(error, cause):
    error.__cause__ = cause
    return error


def raise_(error):
    raise error


def incomplete_responses():
    """As client libraries raise them; a code of 400 is no store's answer here."""
    short = ContentLengthError("not enough data")
    assert short.code == 400
    yield short
    yield caused(ClientPayloadError("not completed"), short)
    yield caused(ClientError(400), BadHttpMessage("no status line"))
    yield http.client.IncompleteRead(b"some", 10)
    yield requests.exceptions.ChunkedEncodingError("cut off")
    yield urllib3.exceptions.ProtocolError("cut off")
    yield asyncio.IncompleteReadError(b"some", 10)


def test_a_response_that_is_cut_off_may_pass():
    for error in incomplete_responses():
        assert not is_permanent(error), repr(error)
        assert not is_permanent(caused(FileNotFoundError("x"), error)), repr(error)


def test_the_code_of_an_answer_of_s3_counts_beside_its_status():
    def answer(code):
        error = ClientError()
        error.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}
        return error

    assert not any(is_permanent(answer(code)) for code in ("RequestTimeout", "IncompleteBody", "SlowDown"))
    assert all(is_permanent(answer(code)) for code in ("ExpiredToken", "InvalidBucketName"))


def test_what_may_pass_is_asked_again_and_nothing_else():
    passing = [
        ClientError(),
        ClientError(503),
        ClientError(429),
        ConnectionResetError(),
        TimeoutError(),
        OSError("EIO"),
    ]
    passing += [caused(FileNotFoundError("x"), cause) for cause in (ClientError(503), ClientError(429), passing[3])]
    passing.append(caused(FileNotFoundError("x"), caused(OSError("no"), TimeoutError())))
    assert not any(is_permanent(error) for error in passing)
    hopeless = [caused(FileNotFoundError("x"), cause) for cause in (ClientError(404), KeyError("x"), ClientError())]
    assert all(is_permanent(error) for error in hopeless)
    assert all(is_permanent(error) for error in [ClientError(403), FileNotFoundError(), PermissionError(), TypeError()])
    with pytest.raises(PermissionError, match="does not allow"):
        StoreRetry(1.0).call("https://x/y", lambda: raise_(caused(FileNotFoundError("y"), ClientError(403))))
    answers = iter(passing[:3])

    def ask():
        error = next(answers, None)
        if error is not None:
            raise error
        return "answer"

    assert StoreRetry(60.0).call("s3://bucket/x", ask) == "answer"
