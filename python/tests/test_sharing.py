"""Runs and Dask's own tasks share a cluster. SPDX-License-Identifier: Apache-2.0"""

import contextlib
import gc
import time
from types import SimpleNamespace

import dask
import pytest
from diffusion_tasks import double, nap_and_tell
from distributed import Client, LocalCluster

from thalweg.diffusion import Diffusion
from thalweg.diffusion.dask import worker


@pytest.fixture(scope="module")
def client():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        yield client


def runners(dask_scheduler):
    return [key for key in dask_scheduler.tasks if str(key).startswith("thalweg-diffusion-")]


def until_no_agents(client):
    end = time.monotonic() + 20
    while client.run_on_scheduler(runners):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_idle_run_leaves_its_slots_and_works_when_there_is_work_again(client, tmp_path):
    with Diffusion(client, cache_folder=tmp_path / "1") as first:
        assert first.submit(double, 2).result() == 4
        until_no_agents(client)
        assert client.submit(double, 3).result(timeout=20) == 6
        with Diffusion(client, cache_folder=tmp_path / "2") as second:
            for number in range(3):
                assert second.submit(double, number).result(timeout=20) == 2 * number
                assert first.submit(double, number).result(timeout=20) == 2 * number
                time.sleep(0.8)
        assert sorted(result.value for result in first.map(double, range(100))) == list(range(0, 200, 2))


def test_two_busy_runs_and_dask_itself_get_on_side_by_side(client, tmp_path):
    with (
        Diffusion(client, cache_folder=tmp_path / "1") as first,
        Diffusion(client, cache_folder=tmp_path / "2") as second,
    ):
        long = first.map(nap_and_tell, [(number, 0.05) for number in range(400)])
        next(long)
        others = [client.submit(double, number) for number in range(4)]
        short = second.map(nap_and_tell, [(number, 0.05) for number in range(20)])
        assert client.gather(others) == [0, 2, 4, 6]
        assert len(list(short)) == 20
        assert long._sink.left > 100, "they did not wait for the end of the long one"
        assert sum(1 for _ in long) == 399


def test_dasks_tasks_that_its_scheduler_holds_back_get_their_turns(tmp_path):
    """So many of one kind wait with the scheduler until a worker has a thread to spare."""
    with (
        dask.config.set({"distributed.scheduler.worker-saturation": 1.0}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        Diffusion(client, cache_folder=tmp_path / "1") as run,
    ):
        long = run.map(nap_and_tell, [(number, 0.05) for number in range(2000)])
        next(long)
        assert client.gather(client.map(double, range(60))) == list(range(0, 120, 2))
        assert long._sink.left > 1000, "they did not wait for the end of the run"
        assert next(long).error is None
        long.cancel()


def test_a_run_that_nobody_has_leaves_the_cluster(client, tmp_path):
    run = Diffusion(client, cache_folder=tmp_path / "cache")
    assert run.submit(double, 2).result() == 4
    inner = run._run
    run = None
    gc.collect()
    end = time.monotonic() + 30
    while not inner.is_closed and time.monotonic() < end:
        time.sleep(0.05)
    assert inner.is_closed
    until_no_agents(client)


def test_an_agent_is_closed_once_by_the_last_of_its_runners():
    closed = []
    left = SimpleNamespace(
        has_runners=False, agent=SimpleNamespace(is_closed=True), is_left=False, close=lambda: closed.append(1)
    )
    for _ in range(2):
        worker._close_if_left(FakeWorker(), left)
    assert closed == [1]


class FakeWorker:
    """Can be referred to weakly."""


def test_an_idle_run_leaves_its_slot_at_once_to_one_that_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "_IDLE_TIMEOUT_S", 100.0)
    monkeypatch.setattr(worker, "_TURN_S", 100.0)
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster:
        with Client(cluster) as client, contextlib.ExitStack() as stack:
            runs = [stack.enter_context(Diffusion(client, cache_folder=tmp_path / str(number))) for number in range(5)]
            for _ in range(2):
                futures = [run.submit(double, number) for number, run in enumerate(runs)]
                assert [future.result(timeout=50) for future in futures] == [0, 2, 4, 6, 8]
