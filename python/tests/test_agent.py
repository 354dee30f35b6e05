"""A worker's agent by itself, with a cache that does what it is asked to. SPDX-License-Identifier: Apache-2.0"""

import threading
import time
from typing import NamedTuple

import pytest

from thalweg.diffusion.cache.item import Item
from thalweg.diffusion.cache.worker_cache import Arrival
from thalweg.diffusion.messages import Answered, Arrived, Ended, Evict, Fetch, Missed, Missing, Recall, Run
from thalweg.diffusion.options import Options
from thalweg.diffusion.peers.client import PeerFailed
from thalweg.diffusion.worker.agent import Agent
from thalweg.diffusion.worker.execution import Outcome


class Copy(NamedTuple):
    path: str
    bytes: int
    version: str = "v"


class FakeCache:
    """Keeps nothing, or everything."""

    address = ""

    def __init__(self, folder, keeps):
        self.path = folder / "copy"
        self.path.write_text("content")
        self.keeps = keeps
        self.held = set()
        self.losses = []
        self.released = 0
        self.asked = 0
        self.sources = []
        # So often is the peer busy.
        self.busy = 0
        self.is_store_empty = False
        self.outdated = 0
        # Called while something is brought.
        self.meanwhile = lambda: None

    def contents(self):
        return []

    def lost(self):
        losses, self.losses = self.losses, []
        return losses

    def allow(self, keys):
        pass

    def bring(self, item, source, *, keep, digest=None, pin=False):
        self.sources.append(source)
        if source != "store" and self.busy:
            self.busy -= 1
            raise PeerFailed(source, item.key, "it is busy", True)
        if source == "store" and self.is_store_empty:
            raise FileNotFoundError(item.key)
        if keep and self.keeps:
            self.held.add(item)
        version = str(self.outdated)
        self.meanwhile()
        return Arrival(str(self.path), 7, b"d" * 16, source, 0.0, item, keep and self.keeps, True, version)

    def release(self, arrival):
        self.released += 1

    def pin(self, item):
        self.asked += 1
        return Copy(str(self.path), 7) if item in self.held else None

    def pin_again(self, item):
        return Copy(str(self.path), 7) if item in self.held and self.asked else None

    def unpin(self, item):
        pass

    def begin_evicting(self, keys):
        self.held -= {Item.of_key(key) for key in keys}
        self.outdated += 1

    def finish_evicting(self):
        pass

    def is_current(self, arrival):
        """Of what came before the last eviction, nothing."""
        return arrival.version == str(self.outdated)

    def close(self):
        pass


def begun(tmp_path, keeps):
    reports = []
    cache = FakeCache(tmp_path, keeps)
    agent = Agent(cache, Options(), lambda sent, can_wait: reports.extend(sent), str(tmp_path))
    return agent, cache, reports


def run(task, attempt=1, coming=("in",)):
    return Run(task, attempt, b"f", b"", (), ("in",), (), coming)


def until(condition):
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.002)
    assert condition()


def test_a_job_runs_when_its_input_has_come_and_lets_go_of_it_after(tmp_path):
    agent, cache, reports = begun(tmp_path, keeps=True)
    agent.receive([run(1), run(2), Fetch("in", "", None, None)])
    jobs = [agent.take(10), agent.take(10)]
    assert [job.run.task for job in jobs] == [1, 2] and jobs[0].paths == {"in": str(cache.path)}
    for job in jobs:
        agent.finish(job, Outcome(b"done", None))
    assert cache.released == 1
    assert [report.task for report in reports if isinstance(report, Ended)] == [1, 2]
    agent.close()


def test_what_came_before_its_file_was_written_anew_is_given_to_nobody_who_asks_after(tmp_path):
    agent, cache, reports = begun(tmp_path, keeps=True)

    def written_anew():
        cache.meanwhile = lambda: None
        agent.receive([Evict(["in"]), run(1)])

    cache.meanwhile = written_anew
    agent.receive([Fetch("in", "peer:1", b"d" * 16, None)])
    job = agent.take(10)
    assert cache.sources == ["peer:1", "store"] and job.versions == [("in", "1")] and cache.released == 1
    assert [type(report) for report in reports] == [Arrived]
    agent.close()


def test_a_job_that_was_sent_while_its_input_passed_by_says_that_it_has_none(tmp_path):
    agent, cache, reports = begun(tmp_path, keeps=False)
    agent.receive([run(1), Fetch("in", "", None, None)])
    until(lambda: any(isinstance(report, Arrived) for report in reports))
    agent.receive([run(2)])
    assert reports[-1] == Missing(2, "in")
    agent.receive([Fetch("in", "", None, (2, 1))])
    jobs = [agent.take(10), agent.take(10)]
    assert [job.run.task for job in jobs] == [1, 2]
    agent.close()


@pytest.mark.parametrize("way", ["evicted", "lost"])
def test_a_job_that_was_sent_before_its_input_went_again_says_that_it_has_none(tmp_path, way):
    agent, cache, reports = begun(tmp_path, keeps=True)
    agent.receive([Fetch("in", "", None, None)])
    until(lambda: any(isinstance(report, Arrived) for report in reports))
    if way == "evicted":
        agent.receive([Evict(["in"])])
    else:
        cache.losses = ["in"]
        time.sleep(0.6)
        agent.receive([Recall(7, 1)])
    agent.receive([run(1)])
    assert reports[-1] == Missing(1, "in")
    agent.receive([Fetch("in", "", None, None), run(2)])
    assert [agent.take(10).run.task, agent.take(10).run.task] == [1, 2]
    assert not any(report == Missing(2, "in") for report in reports)
    agent.close()


def test_a_job_says_that_its_input_is_missing_after_it_was_said_to_have_arrived(tmp_path):
    agent, _, reports = begun(tmp_path, keeps=True)
    sent_meanwhile = threading.Thread(target=lambda: agent.receive([Evict(["in"]), run(1)]))

    def send(sent, can_wait):
        if isinstance(sent[0], Arrived):
            sent_meanwhile.start()
            sent_meanwhile.join(0.3)
        reports.extend(sent)

    agent._send = send
    agent.receive([Fetch("in", "", None, None)])
    until(lambda: len(reports) == 2)
    assert [type(report) for report in reports] == [Arrived, Missing]
    agent.close()


def test_what_has_not_begun_is_given_back_and_nothing_else(tmp_path):
    agent, _, reports = begun(tmp_path, keeps=True)
    agent.receive([run(1), Fetch("in", "", None, None), run(2)])
    assert agent.take(10).run.task == 1
    agent.receive([Recall(1, 1), Recall(2, 1), Recall(3, 1)])
    answers = [report for report in reports if isinstance(report, Answered)]
    assert answers == [Answered(1, 1, False), Answered(2, 1, True), Answered(3, 1, False)]
    assert agent.take(0.01) is None
    agent.close()


def test_a_copy_that_is_gone_is_reported_and_fetched_again(tmp_path):
    agent, cache, reports = begun(tmp_path, keeps=True)
    agent.receive([run(1, coming=())])
    until(lambda: Missing(1, "in") in reports)
    agent.receive([Fetch("in", "", None, None)])
    assert agent.take(10).run.task == 1
    agent.close()


def test_a_copy_that_a_job_here_has_pinned_is_not_asked_for_again(tmp_path):
    agent, cache, reports = begun(tmp_path, keeps=True)
    agent.receive([run(1), Fetch("in", "", None, None)])
    until(lambda: any(isinstance(report, Arrived) for report in reports))
    agent.receive([run(2, coming=())])
    until(lambda: cache.asked)
    agent.receive([run(3, coming=())])
    jobs = [agent.take(10) for _ in range(3)]
    assert [job.run.task for job in jobs] == [1, 2, 3] and jobs[2].sources == [("local", 7)]
    assert cache.asked == 1
    agent.close()


def test_a_busy_peer_is_asked_again_then_the_store_and_its_copy_counts_on(tmp_path):
    agent, cache, reports = begun(tmp_path, keeps=True)
    for busy, is_store_empty, asked in ((2, True, ["p:1"] * 3), (9, False, ["p:1"] * 4 + ["store"])):
        cache.busy, cache.is_store_empty = busy, is_store_empty
        cache.sources.clear()
        reports.clear()
        agent.receive([Fetch("in", "p:1", None, None)])
        until(lambda: reports)
        assert isinstance(reports[0], Arrived) and cache.sources == asked
    cache.busy, cache.is_store_empty = 9, True
    reports.clear()
    agent.receive([Fetch("in", "p:1", None, None)])
    until(lambda: reports)
    assert isinstance(reports[0], Missed) and reports[0].peer == "", "no other is informed that the peer has none"
    agent.close()
