"""Data diffusion: tasks over many files, run where their input already lies.

    from thalweg.diffusion import Diffusion, File, Output, Command

    with Diffusion(cluster, cache="20 GB") as d:
        for r in d.map(stack, [(File(u), File(v)) for u, v in pairs]):
            print(r.value)

How it works is in docs/diffusion.md. SPDX-License-Identifier: Apache-2.0
"""

from thalweg.diffusion.arguments import File, LocalPath, Output
from thalweg.diffusion.command import Command, CommandFailed
from thalweg.diffusion.diffusion import Diffusion
from thalweg.diffusion.failure import InputFailed, TaskTimeout, WorkerLost, WorkerTraceback
from thalweg.diffusion.futures import Scattered, TaskFuture, as_completed
from thalweg.diffusion.journal import RunFolderBusy
from thalweg.diffusion.recorded_command import RecordedCommand
from thalweg.diffusion.results import Results, TaskResult
from thalweg.diffusion.run import RunLost
from thalweg.diffusion.stores.outputs import OutputMissing
from thalweg.diffusion.stores.recorded import NotRecorded
from thalweg.diffusion.stores.store_retry import StoreGone

__all__ = [
    "Command",
    "CommandFailed",
    "Diffusion",
    "File",
    "InputFailed",
    "LocalPath",
    "NotRecorded",
    "Output",
    "OutputMissing",
    "RecordedCommand",
    "Results",
    "RunFolderBusy",
    "RunLost",
    "Scattered",
    "StoreGone",
    "TaskFuture",
    "TaskResult",
    "TaskTimeout",
    "WorkerLost",
    "WorkerTraceback",
    "as_completed",
]
