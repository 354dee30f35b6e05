"""The package's types fit, and its text is as the formatter has it. SPDX-License-Identifier: Apache-2.0"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "command",
    [["mypy", "thalweg"], ["ruff", "check", "."], ["ruff", "format", "--check", "."]],
    ids=["types", "rules", "format"],
)
def test_nothing_is_found_by(command, tmp_path):
    target = Path(os.environ.get("CARGO_TARGET_DIR", tmp_path))
    caches = {"MYPY_CACHE_DIR": str(target / "mypy"), "RUFF_CACHE_DIR": str(target / "ruff")}
    ran = subprocess.run(
        [sys.executable, "-m", *command], cwd=SOURCE, env={**os.environ, **caches}, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
