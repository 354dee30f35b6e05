"""The parts we use of `distributed` beside its public interface. The package bounds its versions; before the bound is moved,
this and the rest run on the new one. SPDX-License-Identifier: Apache-2.0"""

from pathlib import Path

import distributed
from distributed import Client, LocalCluster, Scheduler
from packaging.requirements import Requirement

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


def test_the_installed_version_is_within_the_bound():
    line = next(line for line in PROJECT.read_text().splitlines() if line.startswith("diffusion = "))
    (requirement,) = (Requirement(one) for one in line.split('"')[1::2] if one.startswith("distributed"))
    assert distributed.__version__ in requirement.specifier
    assert any(one.operator == "<" for one in requirement.specifier)


def test_what_is_used_is_there():
    def on_worker(dask_worker):
        assert {"stream_handlers", "batched_stream", "plugins", "security"} <= set(dir(dask_worker))
        return list(dask_worker.state.ready)

    def on_scheduler(dask_scheduler):
        used = {
            "stream_handlers",
            "stream_comms",
            "client_comms",
            "extensions",
            "handlers",
            "plugins",
            "queued",
            "tasks",
        }
        return sorted(used - set(dir(dask_scheduler)))

    with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster, Client(cluster) as client:
        assert client.run(on_worker) and client.run_on_scheduler(on_scheduler) == []
        assert isinstance(client._stream_handlers, dict) and client.scheduler_comm is not None
        assert callable(client._send_to_scheduler)
    assert callable(Scheduler.adaptive_target)
