"""Runs on Dask clusters that grow and shrink while they last. SPDX-License-Identifier: Apache-2.0"""

import os
import time

import pytest
from diffusion_tasks import content, double, nap_and_tell, read_slowly
from distributed import Client, LocalCluster
from test_diffusion import events, files  # noqa: F401

from thalweg.diffusion import Diffusion, File

_LONG_S = 60


@pytest.fixture
def cluster():
    """Without workers."""
    with LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


def until(condition):
    deadline = time.monotonic() + _LONG_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert condition()


def adapt(cluster, most):
    cluster.adapt(minimum=0, maximum=most, interval="100 ms", target_duration="1 s")


def workers(cluster):
    return len(cluster.scheduler_info["workers"])


def test_a_cluster_without_workers_gets_as_many_as_wait_and_loses_them_when_all_is_done(cluster, tmp_path):
    adapt(cluster, 3)
    folder = tmp_path / "run"
    with Diffusion(cluster, cache_folder=tmp_path / "cache", run_folder=folder) as run:
        results = list(run.map(nap_and_tell, [(number, 0.1) for number in range(100)]))
        assert sorted(result.index for result in results) == list(range(100))
        assert all(result.value[0] == result.index and result.attempts == 1 for result in results)
        assert len({result.value[1] for result in results}) == 3
        # The run goes on, but nothing waits.
        until(lambda: workers(cluster) == 0)
        # And again.
        assert run.submit(double, 4).result() == 8
    assert len(events(folder, "done")) == 101
    until(lambda: workers(cluster) == 0)


def test_a_run_without_a_worker_says_so_and_goes_on_when_one_comes(cluster, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("thalweg.diffusion.coordinator._NO_WORKER_S", 0.5)
    with Diffusion(cluster, cache_folder=tmp_path / "cache") as run:
        results = run.map(double, range(7))
        until(lambda: "7 task(s) have waited" in caplog.text)
        cluster.scale(1)
        assert sorted(result.value for result in results) == [0, 2, 4, 6, 8, 10, 12]
    assert caplog.text.count("have waited") == 1


def test_one_long_task_keeps_its_worker_and_no_other(cluster, tmp_path):
    adapt(cluster, 3)
    with Diffusion(cluster, cache_folder=tmp_path / "cache") as run:
        short = run.map(nap_and_tell, [(number, 0.1) for number in range(60)])
        long = run.submit(nap_and_tell, "long", 6.0)
        assert len({result.value[1] for result in short}) == 3
        until(lambda: workers(cluster) == 1)
        (remaining,) = cluster.scheduler_info["workers"].values()
        name, pid = long.result()
        assert name == "long" and pid_of(cluster, remaining) == pid


def pid_of(cluster, worker):
    return cluster.workers[worker["id"]].pid


def test_workers_that_leave_under_way_cost_no_task(cluster, tmp_path, files):  # noqa: F811
    notes = tmp_path / "notes"
    notes.mkdir()
    cluster.scale(3)
    with (
        Client(cluster) as client,
        Diffusion(client, cache_folder=tmp_path / "cache", run_folder=tmp_path / "run") as run,
    ):
        client.wait_for_workers(3)
        results = []
        for result in run.map(read_slowly, [(File(files[number % 12]), number, str(notes)) for number in range(200)]):
            results.append(result)
            if len(results) in (20, 40):
                # Whether it is idle or not.
                address = next(iter(client.scheduler_info(-1)["workers"]))
                client.retire_workers([address], close_workers=True, remove=True)
    assert sorted(result.index for result in results) == list(range(200))
    assert len(events(tmp_path / "run", "done")) == 200 and len(events(tmp_path / "run", "left")) >= 2


def test_a_worker_with_the_only_copies_stays_longest(cluster, tmp_path, files):  # noqa: F811
    cluster.scale(3)
    with Client(cluster) as client, Diffusion(client, cache_folder=tmp_path / "cache") as run:
        client.wait_for_workers(3)
        list(run.map(content, [File(path) for path in files]))
        copies = client.run_on_scheduler(last_copies)
        order = [client.run_on_scheduler(to_close, number) for number in (1, 2, 3)]
        assert [len(closed) for closed in order] == [1, 2, 3]
        assert [copies[address] for address in order[2]] == sorted(copies.values())


def last_copies(dask_scheduler):
    (plugin,) = (plugin for name, plugin in dask_scheduler.plugins.items() if name.startswith("thalweg-diffusion"))
    return {address: plugin._coordinator.last_copy_bytes(address) for address in dask_scheduler.workers}


def to_close(number, dask_scheduler):
    return dask_scheduler.workers_to_close(n=number)


def test_dask_counts_what_else_is_on_the_cluster_and_all_of_it_afterwards(cluster, tmp_path):
    with Client(cluster) as client:
        with Diffusion(client, cache_folder=tmp_path / "cache") as run:
            assert client.run_on_scheduler(target) == 0
            other = client.submit(os.getpid)
            until(lambda: client.run_on_scheduler(target) == 1)
            other.release()
            until(lambda: client.run_on_scheduler(target) == 0)
            future = run.submit(double, 1)
            until(lambda: client.run_on_scheduler(target) == 1)
            cluster.scale(1)
            assert future.result() == 2
        assert client.run_on_scheduler(is_as_it_was)


def target(dask_scheduler):
    return dask_scheduler.handlers["adaptive_target"]()


def is_as_it_was(dask_scheduler):
    return (
        dask_scheduler.handlers["adaptive_target"]
        == dask_scheduler.adaptive_target
        == type(dask_scheduler).adaptive_target.__get__(dask_scheduler)
    )
