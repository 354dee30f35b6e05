"""The examples of README.md run, in order. SPDX-License-Identifier: Apache-2.0"""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_examples_run(tmp_path, node, capsys):
    text = README.read_text().replace("/tmp/thalweg-example", str(tmp_path / "store"))
    text = text.replace("thalweg://localhost:7420", node.address)
    names = {}
    for example in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(compile(example, str(README), "exec"), names)
    printed = capsys.readouterr().out
    for expected in (
        "so far so good",
        "1000.0",
        "[b'on', b'tw']",
        "b'one'",
        "[5 6 7]",
        "b'from afar'",
        "b'two'",
        r"b'1\n2\n3\n'",
        "\n100\n3\n",
        "[0.0, 1.0, 2.0]\n['0.zarr', '1.zarr', '2.zarr'] 3\n",
    ):
        assert expected in printed
    assert len(list((tmp_path / "store-cache").glob("items/??/*"))) == 2
    assert names["fs"].find("run4") == ["run4/a", "run4/b"]
    assert names["fs"].cat("run5/2") == b"2"
