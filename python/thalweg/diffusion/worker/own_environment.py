"""The environment that a worker was started with: in processes for tasks PYTHONPATH is another one, for their imports.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os

_IN_TASK_PROCESS = "THALWEG_WORKER_PYTHONPATH"


def for_task_process(python_path: str) -> dict[str, str]:
    """Returns the environment for a process that is to import from there."""
    return {**os.environ, "PYTHONPATH": python_path, _IN_TASK_PROCESS: os.environ.get("PYTHONPATH", "")}


def own_environment() -> dict[str, str]:
    """Returns the worker's own environment, also in a process for tasks."""
    variables = dict(os.environ)
    python_path = variables.pop(_IN_TASK_PROCESS, None)
    if python_path is not None:
        variables.pop("PYTHONPATH", None)
        if python_path:
            variables["PYTHONPATH"] = python_path
    return variables
