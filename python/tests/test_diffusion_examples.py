"""The examples of examples/diffusion run, and say what came from where. SPDX-License-Identifier: Apache-2.0"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "diffusion"


def run(name, *arguments):
    command = [sys.executable, EXAMPLES / name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "the progress bar is silent in a pipe"
    return done.stdout


def inputs_from(printed):
    """How many, by where they came from."""
    found = re.findall(r"^ *([\d,]+) inputs .* from (\w+) ", printed, re.MULTILINE)
    return {source: int(count.replace(",", "")) for count, source in found}


@pytest.mark.parametrize("name", ["stacking.py", "all_pairs.py", "word_count.py"])
def test_they_tell_how_they_are_used(name):
    assert "--folder" in run(name, "--help")


def test_stacking_finds_what_no_image_shows(tmp_path):
    printed = run("stacking.py", "--tiles", "8", "--objects", "120", "--folder", tmp_path)
    one, stacked = map(float, re.search(r"by ([-\d.]+), 120 stacked by ([\d.]+)\.", printed).groups())
    assert stacked > 5 > one
    came = inputs_from(printed)
    assert sum(came.values()) == 120 and came["the"] == 8, "each tile came from the store once"
    assert "<svg" in (tmp_path / "stacking-run" / "report.html").read_text()


def test_all_pairs_finds_the_two_that_are_alike():
    printed = run("all_pairs.py", "--files", "9", "--numbers", "2000")
    assert "Of 36 pairs 0003.npy and 0008.npy are the most alike" in printed
    came = inputs_from(printed)
    assert sum(came.values()) == 72 and came["the"] == 9


def test_word_count_counts_words():
    printed = run("word_count.py", "--files", "4", "--words", "1000", "--twice")
    assert "4,000 words" in printed and "3,600 pairs" in printed
    assert inputs_from(printed) == {"this": 4, "other": 0, "the": 4}
