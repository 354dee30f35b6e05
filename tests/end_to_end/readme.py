"""README.md's examples do what they show: each runs as it stands, and prints what is printed there."""

import os
import re

from stage.building import RELEASE, ROOT
from stage.registry import check, test

README = ROOT / "README.md"
END = "== that was the command =="


def blocks(text):
    """Each block of a console as (command, expected output)."""
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            yield divided(part.splitlines())


def divided(lines):
    """A command goes on where a line ends in a backslash or quotes are open."""
    count = 1
    while lines[count - 1].endswith("\\") or "\n".join(lines[:count]).count('"') % 2:
        count += 1
    return "\n".join(lines[:count]), lines[count:]


def without_numbers(line):
    line = re.sub(r"snapshot [0-9a-f]{8}", "snapshot N", line)
    return re.sub(r"\d+(\.\d+)?( [KMG]iB)?", "N", line)


@test(seconds=900)
def what_the_readme_shows_happens(scene):
    examples = list(blocks(README.read_text().replace("/tmp/", f"{scene.folder}/")))
    built = {"CARGO_TARGET_DIR": str(RELEASE.parent), "PIP_CACHE_DIR": str(RELEASE.parent / "pip")}
    # Rust's tools live in the user's home.
    variables = built | {"HOME": os.environ["HOME"], "PYTHONDONTWRITEBYTECODE": "1"}
    script = ["set -e", *(f"{command}\necho '{END}'" for command, _ in examples)]
    printed = scene.run(["bash", "-c", "\n".join(script)], cwd=ROOT, variables=variables).split(f"{END}\n")
    for (command, shown), came in zip(examples, printed):
        # What `make build` prints depends on what was built before.
        is_shown = list(map(without_numbers, shown)) == list(map(without_numbers, came.splitlines()))
        check(is_shown or command.startswith("make"), f"`{command}`: README.md shows {shown}, and this came: {came}")


@test
def the_pictures_are_drawn_from_their_texts(scene):
    pictures = ROOT / "docs" / "pictures"
    for text in pictures.glob("*.txt"):
        drawn = scene.run(["python3", "-c", DRAW, pictures / "draw", text])
        check(drawn == text.with_suffix(".svg").read_text(), f"{text}: draw it again with docs/pictures/draw")


DRAW = "import runpy, sys; print(runpy.run_path(sys.argv[1])['picture'](open(sys.argv[2]).read()), end='')"
