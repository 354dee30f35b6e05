"""A command line as a task. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import re
import subprocess
from typing import Any

_PLACE = re.compile(r"\{(\d+)\}")
# Of what a command that failed wrote, so much is in the message.
_MAX_OUTPUT_BYTES = 4000


class CommandFailed(RuntimeError):
    """The command ended with another status than 0; the message has the end of what it wrote."""


class Command:
    """`Command("convert", 0, "--to={1}")`: numbers, alone or in braces, are the task's arguments. Gives what the
    command wrote to its standard output."""

    def __init__(self, *words: str | int) -> None:
        self.words = words
        self.label = " ".join(str(word) for word in words)

    def __call__(self, *arguments: Any) -> str:
        words = [self._filled(word, arguments) for word in self.words]
        ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True)
        if ended.returncode != 0:
            output = (ended.stderr or ended.stdout)[-_MAX_OUTPUT_BYTES:].decode(errors="replace")
            raise CommandFailed(f"{' '.join(words)}: status {ended.returncode}\n{output}")
        return ended.stdout.decode(errors="replace")

    def _filled(self, word: str | int, arguments: tuple[Any, ...]) -> str:
        if isinstance(word, int):
            return str(arguments[word])
        return _PLACE.sub(lambda place: str(arguments[int(place[1])]), word)

    def __reduce__(self) -> Any:
        return Command, self.words
