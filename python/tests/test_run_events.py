"""The events of runs: each task is accounted for, with its arguments and what its worker used.

SPDX-License-Identifier: Apache-2.0
"""

import json
import subprocess
import sys
import time

import pytest
from diffusion_tasks import double, fail
from distributed import Client, LocalCluster
from test_coordinator import Play, ended

from thalweg.diffusion import Diffusion, File
from thalweg.diffusion.failure import Failure
from thalweg.diffusion.messages import Event, Run, Unpublished, Usage
from thalweg.diffusion.report.events import Events, read
from thalweg.diffusion.report.run_stats import RunStats
from thalweg.diffusion.worker.usage import process_tree_usage


class Watched(Play):
    """One whose events are added up."""

    def __init__(self, **options):
        super().__init__(**options)
        self.stats = RunStats()
        self.events = Events(None, [self.stats.fold])
        self.events.run(began=0.0, policy="")
        collect = self.coordinator.collect

        def collected(now_s):
            orders, updates = collect(now_s)
            for one in updates:
                if isinstance(one, Event):
                    getattr(self.events, one.kind)(**one.arguments)
            return orders, updates

        self.coordinator.collect = collected

    def counts(self):
        self.orders(())
        stats = self.stats
        return stats.submitted, stats.done, stats.failed, stats.cancelled, stats.tasks_left


def test_tasks_that_wait_for_a_worker_are_queued():
    play = Watched()
    play.submit((0, (), ()), (1, (), ()), (2, (), ()))
    assert play.counts() == (3, 0, 0, 0, 3)
    play.coordinator.cancel(0.0, [1])
    assert play.counts() == (3, 0, 0, 1, 2)
    play.join("a")
    play.say("a", *[ended(order) for _, order in play.orders(Run)])
    assert play.counts() == (3, 2, 0, 1, 0)


def test_cancelled_tasks_leave_the_queue_and_those_that_need_their_outputs_fail():
    play = Watched()
    play.join("a")
    play.submit((0, (), ()), (1, (), ("/x",)), (2, ("/x",), ()), (3, (), ()))
    runs = play.orders(Run)
    play.coordinator.cancel(0.0, [1, 3])
    play.say("a", *[ended(order) for _, order in runs if order.task == 0])
    for _ in range(3):
        play.say("a", *[ended(order) for _, order in runs if order.task in (1, 3)])
    submitted, done, failed, cancelled, left = play.counts()
    assert (submitted, failed, cancelled, left) == (4, 1, 2, 0) and done == 1
    assert "which was to write an input, was cancelled" in play.stats.failures.by_count()[0].error


def test_outputs_that_cannot_be_written_make_a_done_task_a_failed_one():
    play = Watched(retries=1)
    play.join("a")
    play.submit((0, (), ("/x",)), (1, ("/x",), ()))
    for _ in range(2):
        ((_, run),) = play.orders(Run)
        play.say("a", ended(run))
        assert play.counts()[1] == 1
        play.say("a", Unpublished(run.task, run.attempt, Failure.of(OSError("the disk is full"))))
    assert play.counts() == (2, 0, 2, 0, 0), "it, and the one that was to read its output"
    assert play.stats.tried_again == 1


@pytest.mark.parametrize("is_orderly", [False, True])
def test_workers_that_go_leave_no_task_uncounted(is_orderly):
    play = Watched()
    play.join("a")
    play.submit((0, (), ("/x",)))
    ((_, run),) = play.orders(Run)
    play.say("a", ended(run))
    assert play.counts() == (1, 1, 0, 0, 0)
    play.coordinator.gone(0.0, "a", "lost", is_orderly)
    assert play.counts() == (1, 0, 0, 0, 1), "its outputs were not written: it runs again"
    for number in range(20):
        play.join(f"b{number}")
        if not play.orders(Run):
            break
        play.coordinator.gone(0.0, f"b{number}", "lost")
    assert play.counts() == (1, 0, 1, 0, 0)


def test_usage_of_many_workers_is_recorded_more_seldom():
    play = Watched()
    for number in range(100):
        play.join(f"worker-{number}")
    play.submit((7, (), ()))
    ((name, run),) = play.orders(Run)
    received = 0
    for now_s in range(0, 60, 2):
        for number in range(100):
            usage = Usage(2.0, 1.5, 10**9, 1, [(run.task, 3.0), (999, 1.0)])
            play.coordinator.receive(float(now_s), f"worker-{number}", [usage], 0.0)
        _, updates = play.coordinator.collect(float(now_s))
        received += sum(isinstance(one, Event) for one in updates)
    assert 100 <= received <= 60 * 10 + 100
    (worker,) = [one for one in play.stats.workers() if one.name == name]
    assert [(one["task"], one["name"]) for one in worker.longest] == [(7, "f")], "by the client's number"


SPEND = """
import subprocess, sys, time
held = bytearray(60_000_000)
child = subprocess.Popen([sys.executable, "-c", "held = bytearray(60_000_000)\\nwhile True: pass"])
print(child.pid, flush=True)
sys.stdin.read()
child.kill()
child.wait()
sys.stdout.write("ended\\n"); sys.stdout.flush()
time.sleep(60)
"""


def test_usage_is_that_of_a_process_and_all_it_started():
    process = subprocess.Popen([sys.executable, "-c", SPEND], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        deadline = time.monotonic() + 60
        while True:
            used = process_tree_usage(process.pid)
            if used.memory_bytes > 120_000_000 and used.processor_s > 0.5:
                break
            assert time.monotonic() < deadline, used
            time.sleep(0.05)
        process.stdin.close()
        assert process.stdout.readline() == b"ended\n"
        after = process_tree_usage(process.pid)
        assert after.memory_bytes < used.memory_bytes and after.processor_s >= used.processor_s, (
            "the child's time stays"
        )
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stdin.close()
    assert process_tree_usage().memory_bytes > 1_000_000


def slow(number, path, seconds=0.0):
    time.sleep(seconds)
    return number


@pytest.mark.parametrize("back_end", ["local", "dask"])
def test_a_run_records_arguments_usage_and_failures(tmp_path, back_end):
    (tmp_path / "night.fits").write_bytes(b"x" * 1000)

    def run(cluster=None):
        options = {"cache_folder": tmp_path / "cache", "run_folder": tmp_path / "run", "page": True}
        with Diffusion(cluster, **options) as d:
            assert d.page.count("/") == 4
            # Usage is measured every 2 s: at least once while they run.
            futures = [d.submit(slow, number, File(tmp_path / "night.fits"), seconds=2.5) for number in range(2)]
            list(d.map(double, [1, 2, 3]))
            for result in d.map(fail, [77]):
                assert result.error is not None
            assert [future.result() for future in futures] == [0, 1]

    if back_end == "local":
        run()
    else:
        with (
            LocalCluster(n_workers=1, threads_per_worker=4, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            run(client)
    records = list(read(tmp_path / "run"))
    slowest = [one["arguments"] for one in records if one["kind"] == "done" and one["name"].endswith("slow")]
    assert sorted(slowest) == [f"{number}, {tmp_path}/night.fits, seconds=2.5" for number in range(2)]
    usage = [one for one in records if one["kind"] == "usage"]
    assert usage and all(one["cores"] >= 0 and one["memory_bytes"] > 1_000_000 for one in usage)
    assert any(one["longest"] and "seconds=2.5" in one["longest"][0]["arguments"] for one in usage)
    report = (tmp_path / "run" / "report.html").read_text()
    for expected in ("night.fits, seconds=2.5", "<code><bdi>77</bdi></code>", "1 task failed"):
        assert expected in report
    stats = RunStats()
    for record in records:
        stats.fold(json.loads(json.dumps(record)))
    assert (stats.submitted, stats.done, stats.failed, stats.tasks_left, stats.ended) == (6, 5, 1, 0, True)
