"""A command line as a task that leaves a recipe. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

from thalweg import url as store_url
from thalweg._thalweg import run_on_copies
from thalweg.diffusion.arguments import LocalPath
from thalweg.diffusion.command import MAX_OUTPUT_BYTES, Command, CommandFailed
from thalweg.diffusion.stores.outputs import RECIPE_NAME
from thalweg.diffusion.worker.own_environment import own_environment
from thalweg.error_code import misuse, without_code
from thalweg.recipe import KEPT_PROGRAM_BYTES, Tolerance, record_options


class RecordedCommand(Command):
    """A command line as a task whose outputs are stored with a recipe that makes them again, as `thalweg.record` does.

    All `File` and `Output` arguments are in one Thalweg store. The command runs in a fresh directory, in which it finds each
    `File` at its path in the store, and leaves each `Output` at its own: numbers stand for these paths. Outputs and recipe are
    one commit. The task returns what the command writes to its standard output, and fails with `CommandFailed` where the
    command fails, leaves no output, changes an input, or leaves other files.

    Parameters
    ----------
    *words : str or int
        As those of `Command`.
    inputs_not_kept, programs, environment, tolerance, ignore_others, kept_program_bytes
        As those of `thalweg.record`. A mapping as `tolerance` has paths in the store as its keys.
    directory : str or os.PathLike, optional
        Where its programs are, on each worker. Default: the current one.

    Examples
    --------
    >>> import fsspec, thalweg
    >>> thalweg.create("st")
    >>> store = f"thalweg://{os.path.abspath('st')}!"
    >>> fsspec.filesystem("thalweg", store="st").pipe_file("words", b"two\\none\\n")
    >>> with Diffusion(workers=2) as d:
    ...     sort = RecordedCommand("sort", "-o", 1, 0)
    ...     _ = d.submit(sort, File(f"{store}/words"), Output(f"{store}/sorted")).result()
    >>> [dropped.path for dropped in thalweg.drop("sorted", store="st")]
    ['sorted']
    >>> [restored.path for restored in thalweg.recompute("sorted", store="st")]
    ['sorted']
    """

    def __init__(
        self,
        *words: str | int,
        inputs_not_kept: Iterable[str] = (),
        directory: str | os.PathLike[str] | None = None,
        programs: Iterable[str | os.PathLike[str]] = (),
        environment: Mapping[str, str | None] | None = None,
        tolerance: Tolerance = None,
        ignore_others: bool = False,
        kept_program_bytes: int = KEPT_PROGRAM_BYTES,
    ) -> None:
        super().__init__(*words)
        self.options = record_options(
            inputs_not_kept, directory, programs, environment, tolerance, ignore_others, kept_program_bytes
        )

    def __call__(self, *arguments: Any) -> str:
        files = _files(arguments)
        inputs = [file for file in files if file.kind == "file"]
        outputs = [file for file in files if file.kind == "output"]
        names = [_path_of(one) if isinstance(one, LocalPath) else one for one in arguments]
        words = [os.fsencode(self._filled(word, tuple(names))) for word in self.words]
        # The folder of the attempt, where the agent looks for it.
        folder = os.path.dirname(os.path.dirname(outputs[0]))
        with tempfile.TemporaryDirectory(dir=folder) as printed:
            options = {**self.options, "timeout_s": None, "scratch": folder}
            variables = list(own_environment().items())
            try:
                run = run_on_copies(words, _places(outputs), _places(inputs), variables, printed, options)
            except RuntimeError as error:
                failed = CommandFailed(
                    f"{without_code(str(error))}\n{_printed(printed, 'stderr') or _printed(printed, 'stdout')}".rstrip()
                )
                failed.code = error.code  # type: ignore[attr-defined]
                raise failed from None
            text = _printed(printed, "stdout", None)
        with open(os.path.join(folder, RECIPE_NAME), "wb") as file:
            pickle.dump(run, file)
        return text

    def __reduce__(self) -> Any:
        return _made_again, (self.words, self.options)


def _made_again(words: tuple[str | int, ...], options: dict[str, Any]) -> RecordedCommand:
    command = RecordedCommand(*words)
    command.options = options
    return command


def _files(arguments: tuple[Any, ...]) -> list[LocalPath]:
    """Returns the files among the arguments, each once; raises where a recipe could not say what they are."""
    files: dict[str, LocalPath] = {}
    store = None
    for one in arguments:
        if not isinstance(one, LocalPath):
            if not isinstance(one, (str, int, float, os.PathLike)):
                raise misuse(
                    TypeError,
                    f"{one!r}: a recorded command takes files, outputs, text and numbers as arguments of their own",
                )
            continue
        named, _ = store_url.split(one.url)
        if not one.url.startswith(store_url.SCHEME):
            raise misuse(
                ValueError, f"{one.url}: lies in no Thalweg store; a recipe is of files of one (thalweg://...)"
            )
        if one.kind == "range":
            raise misuse(ValueError, f"{one.url}: a recipe reads whole files; pass the range as numbers")
        if files and named != store:
            raise misuse(
                ValueError, f"{one.url}: lies in another store than {next(iter(files))}; a recipe is of files of one"
            )
        store = named
        if files.get(one.url, one).kind != one.kind:
            raise misuse(
                ValueError, f"{one.url}: is an input and an output; a recipe's output is another file than its inputs"
            )
        files[one.url] = one
    if not any(one.kind == "output" for one in files.values()):
        raise misuse(ValueError, "a recorded command needs at least one Output: the recipe is for making that again")
    return list(files.values())


def _path_of(file: LocalPath) -> str:
    return store_url.split(file.url)[1]


def _places(files: list[LocalPath]) -> list[tuple[bytes, bytes, str]]:
    """Returns the names in the command's directory, the paths in the store, and where they are here."""
    encoded = [(os.fsencode(_path_of(file)), str(file)) for file in files]
    return [(path, path, place) for path, place in encoded]


def _printed(folder: str, name: str, max_bytes: int | None = MAX_OUTPUT_BYTES) -> str:
    try:
        with open(os.path.join(folder, name), "rb") as file:
            printed = file.read()
    except FileNotFoundError:
        # It was not started.
        return ""
    return (printed if max_bytes is None else printed[-max_bytes:]).decode(errors="replace")
