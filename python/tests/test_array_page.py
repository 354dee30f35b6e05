"""The examples of docs/hdf5-zarr.md run, in order. SPDX-License-Identifier: Apache-2.0"""

import os
import re
from pathlib import Path

from conftest import COMMAND

PAGE = Path(__file__).parent.parent.parent / "docs" / "hdf5-zarr.md"


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(COMMAND).parent}:{os.environ['PATH']}")
    text = PAGE.read_text().replace("/tmp/thalweg-hdf5", str(tmp_path))
    names = {}
    for example in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(compile(example, str(PAGE), "exec"), names)
    files = {name: path_bytes(tmp_path / name) for name in ("climate.h5", "stock.h5", "climate.zarr", "climate2.zarr")}
    assert all(0 < size < names["temperature"].nbytes for size in files.values()), files


def path_bytes(path):
    return sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file())
