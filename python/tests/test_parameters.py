"""Senseless parameters are refused at once, and a worker that cannot work is reported.

SPDX-License-Identifier: Apache-2.0
"""

import pytest
from diffusion_tasks import double
from distributed import LocalCluster

from thalweg.diffusion import Diffusion, File, RunLost


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"workers": 0}, "workers must be 1 or more, not 0"),
        ({"slots": -1}, "slots must be 1 or more"),
        ({"retries": -1}, "retries must be 0 or more"),
        ({"timeout_s": 0}, "timeout_s must be more than 0, not 0; leave it out"),
        ({"peer_mb_s": 0}, "peer_mb_s must be more than 0"),
        ({"store_mb_s": -3}, "store_mb_s must be more than 0"),
        ({"store_timeout_s": float("nan")}, "store_timeout_s must be more than 0"),
        ({"policy": "best"}, "best"),
        ({"eviction": "all"}, "all"),
        ({"cache": "much"}, "much"),
    ],
)
def test_parameters_without_a_meaning_are_refused(parameters, said):
    with pytest.raises(ValueError, match=said):
        Diffusion(**({"workers": 1} | parameters))


@pytest.mark.parametrize(("start", "end"), [(5, 3), (-1, None), (0, -1)])
def test_ranges_that_are_none_are_refused(start, end):
    with pytest.raises(ValueError, match=f"bytes {start} to {end}"):
        File("s3://bucket/x", start, end)


def test_what_is_no_cluster_is_refused():
    with pytest.raises(TypeError, match="a scheduler's address is needed, not 3"):
        Diffusion(3)


def test_a_worker_that_cannot_have_a_cache_ends_the_run(tmp_path):
    (tmp_path / "file").touch()
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        with pytest.raises(RunLost, match="cannot run tasks: .*file"):
            with Diffusion(cluster, cache_folder=tmp_path / "file" / "cache") as run:
                list(run.map(double, range(3)))
