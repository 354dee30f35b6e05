"""What users see of tasks that fail. SPDX-License-Identifier: Apache-2.0"""

import os
import traceback

import pytest
from diffusion_tasks import Unfit, content, refuse, segfault

from thalweg.diffusion import Diffusion, File, WorkerLost


@pytest.fixture
def run(tmp_path):
    with Diffusion(workers=1, cache_folder=tmp_path / "cache") as run:
        yield run


def test_an_exception_that_takes_other_arguments_than_it_keeps_comes_as_itself(run):
    with pytest.raises(Unfit, match="a key is unfit: too short") as raised:
        run.submit(refuse, "a key", why="too short").result()
    assert (raised.value.what, raised.value.why) == ("a key", "too short")


def test_a_process_that_crashed_is_told_of_by_its_signal(run):
    with pytest.raises(WorkerLost, match="was killed by SIGSEGV"):
        run.submit(segfault).result()


def test_a_missing_input_is_a_line_and_not_a_walk_through_the_library(run, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere") as raised:
        run.submit(content, File(tmp_path / "nowhere")).result()
    cause = "".join(traceback.format_exception(raised.value.__cause__))
    assert len(cause.splitlines()) < 8 and "agent.py" not in cause


def test_there_are_as_many_workers_as_cores_that_may_be_used(tmp_path):
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        with Diffusion(cache_folder=tmp_path / "cache") as run:
            assert len(run._run._backend._slots) == 1
    finally:
        os.sched_setaffinity(0, allowed)
