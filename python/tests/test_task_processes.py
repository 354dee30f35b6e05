"""Task processes that do not start: a run ends with the reason, and does not wait for them. SPDX-License-Identifier: Apache-2.0"""

import shutil
import sys

import pytest
from diffusion_tasks import write
from distributed import LocalCluster

from thalweg.diffusion import Diffusion, Output
from thalweg.diffusion.run import RunLost

CRASHING = "#!/bin/sh\necho No module named thalweg >&2\nexit 3\n"
KILLED = "#!/bin/sh\nkill -9 $$\n"


def interpreter(folder, script):
    """In the place of Python's; none if there is no script."""
    path = folder / "python"
    if script is not None:
        path.write_text(script)
        path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (None, "No such file or directory"),
        (CRASHING, "ended with status 3 before it was ready: No module named thalweg"),
        (KILLED, "was killed by SIGKILL before it was ready"),
    ],
)
def test_a_run_ends_with_the_reason_when_no_task_process_starts(tmp_path, monkeypatch, script, why):
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, script))
    with Diffusion(workers=2, cache_folder=tmp_path / "cache") as run:
        future = run.submit(pow, 2, 3)
        with pytest.raises(RunLost, match=why):
            future.result(60)
        with pytest.raises(RunLost, match=why):
            list(run.map(pow, range(5), range(5)))


def test_a_process_that_starts_at_the_second_time_runs_its_tasks(tmp_path, monkeypatch):
    once = tmp_path / "once"
    script = f'#!/bin/sh\nif mkdir {once} 2>/dev/null; then exit 1; fi\nexec {sys.executable} "$@"\n'
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, script))
    with Diffusion(workers=1, cache_folder=tmp_path / "cache") as run:
        assert run.submit(pow, 2, 3).result(60) == 8
    assert once.is_dir()


def test_a_task_fails_with_the_reason_when_its_dask_worker_starts_no_process(tmp_path, monkeypatch):
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster:
        monkeypatch.setattr("thalweg.diffusion.worker.execution._START_PAUSES_S", ())
        monkeypatch.setattr(sys, "executable", interpreter(tmp_path, CRASHING))
        with Diffusion(cluster, timeout_s=30.0, cache_folder=tmp_path / "cache") as run:
            error = run.submit(pow, 2, 3).exception(60)
        assert "No module named thalweg" in str(error)


def test_a_task_fails_when_there_is_no_place_for_its_outputs(tmp_path):
    with Diffusion(workers=1, cache_folder=tmp_path / "cache") as run:
        assert run.submit(pow, 2, 3).result(60) == 8
        scratch = next((tmp_path / "cache").glob("*/scratch/tasks-*"))
        shutil.rmtree(scratch)
        scratch.write_text("in the way")
        failed = run.submit(write, "text", Output(tmp_path / "out"))
        assert isinstance(failed.exception(60), OSError)
        assert run.submit(pow, 2, 4).result(60) == 16
