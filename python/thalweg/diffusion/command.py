"""A command line as a task. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import re
import subprocess
from typing import Any

from thalweg.error_code import Coded, misuse

_PLACE = re.compile(r"\{(\d+)\}")
# Of what a command that failed wrote, so much is in the message.
MAX_OUTPUT_BYTES = 4000


class CommandFailed(Coded, RuntimeError):
    """The command ended with another status than 0; the message has the end of what it wrote."""

    code = "TW-812"


class Command:
    """A command line as a task, which returns what the command writes to its standard output.

    A status other than 0 fails the task with `CommandFailed`. There is no shell: each word is one argument.

    Parameters
    ----------
    *words : str or int
        The command and its arguments. Numbers, alone (`0`) or in braces in a word (`"--to={1}"`), stand for the task's
        arguments.

    Examples
    --------
    >>> with open("words.txt", "w") as file:
    ...     _ = file.write("one two three")
    >>> with Diffusion(workers=2) as d:
    ...     counted = d.submit(Command("wc", "-w", 0), File("words.txt"))
    ...     print(counted.result().split()[0])
    3
    """

    def __init__(self, *words: str | int) -> None:
        for word in words:
            if not isinstance(word, (str, int)):
                raise misuse(TypeError, f"{word!r}: a command's words are text, and numbers of the task's arguments")
        self.words = words
        self.label = " ".join(str(word) for word in words)

    def __call__(self, *arguments: Any) -> str:
        words = [self._filled(word, arguments) for word in self.words]
        ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True)
        if ended.returncode != 0:
            output = (ended.stderr or ended.stdout)[-MAX_OUTPUT_BYTES:].decode(errors="replace")
            raise CommandFailed(f"{' '.join(words)}: status {ended.returncode}\n{output}".rstrip())
        return ended.stdout.decode(errors="replace")

    def _filled(self, word: str | int, arguments: tuple[Any, ...]) -> str:
        if isinstance(word, int):
            return self._argument(word, arguments)
        return _PLACE.sub(lambda place: self._argument(int(place[1]), arguments), word)

    def _argument(self, number: int, arguments: tuple[Any, ...]) -> str:
        if not 0 <= number < len(arguments):
            raise misuse(IndexError, f"{self.label}: there is no argument {number}; the task has {len(arguments)}")
        return str(arguments[number])

    def __reduce__(self) -> Any:
        return Command, self.words
