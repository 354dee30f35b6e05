"""Recipes: commands that leave their outputs in a store, with all that makes them again, so that the data need not be kept.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Tuple, Union

from thalweg import _thalweg
from thalweg.connections import using
from thalweg.error_code import misuse
from thalweg.filesystem import ThalwegFileSystem

Word = Union[str, bytes, "os.PathLike[str]"]
Places = Union[str, Iterable[str], Mapping[str, str]]
Tolerance = Union[Tuple[float, str], Mapping[str, Tuple[float, str]], None]

KEPT_PROGRAM_BYTES = 4 << 20


class Recorded(NamedTuple):
    """A command that was run: its recipe, how long it took, and the bytes of each of its outputs."""

    recipe: str
    seconds: float
    outputs: dict[str, int]


class Dropped(NamedTuple):
    """A file whose data was dropped. Snapshots that have the data too keep it."""

    path: str
    recipe: str
    bytes: int
    snapshots: list[str]


class Restored(NamedTuple):
    """A file that has its data again. Where it is not exact, its statistics agree within the recipe's tolerance."""

    path: str
    bytes: int
    is_exact: bool


class Step(NamedTuple):
    """A command that `recompute` would run."""

    recipe: str
    command: list[str]
    seconds: float
    host: str
    uid: int


class Output(NamedTuple):
    """A file that a recipe made; its state is "kept", "dropped" or "gone"."""

    path: str
    bytes: int
    state: str


class Recipe(NamedTuple):
    """A recipe of a store. `seconds_with_inputs` counts the recipes of dropped inputs too; None where it cannot be run again,
    and `why_not` says why."""

    id: str
    command: list[str]
    recorded_ns: int
    host: str
    uid: int
    outputs: list[Output]
    inputs: list[str]
    inputs_not_kept: list[str]
    seconds: float
    seconds_with_inputs: float | None
    why_not: str | None


def record(
    command: Sequence[Word],
    outputs: Places,
    inputs: Places = (),
    *,
    store: str | os.PathLike[str] | None = None,
    inputs_not_kept: Iterable[str] = (),
    directory: str | os.PathLike[str] | None = None,
    programs: Iterable[str | os.PathLike[str]] = (),
    environment: Mapping[str, str | None] | None = None,
    tolerance: Tolerance = None,
    ignore_others: bool = False,
    timeout_s: float | None = None,
    kept_program_bytes: int = KEPT_PROGRAM_BYTES,
    scratch: str | os.PathLike[str] | None = None,
    **storage_options: Any,
) -> Recorded:
    """Runs a command, and commits its outputs with a recipe that makes them again: all or nothing.

    The command runs in a fresh directory: it finds each input at its path in the store, and leaves each output at its own.
    Files of `directory` that it names are its programs, and stand there too. It is given only the environment that is kept.

    Parameters
    ----------
    command : sequence of str, bytes or os.PathLike
        The program and its arguments.
    outputs, inputs : str, iterable of str, or mapping of str to str
        URLs or paths of one store. A mapping has the names in the command's directory as its keys.
    store : str or os.PathLike, optional
        The store, if no URL names it. Default: `$THALWEG_STORE`.
    inputs_not_kept : iterable of str
        What else it reads, and no store has; the recipe is then for the record, and nothing is dropped by it.
    directory : str or os.PathLike, optional
        Where its programs are. Default: the current one.
    programs : iterable of str or os.PathLike
        Files that it is made of, besides those that it names.
    environment : mapping of str to str or None, optional
        Variables to keep besides PATH, LANG and the like; None stands for the value they have.
    tolerance : (float, str), or mapping of str to such, optional
        Outputs may differ when they are made again: their statistics by this share of the largest value, of values of the
        type "f32", "f64", "f32be" or "f64be". A mapping has the outputs as its keys.
    ignore_others : bool
        Whether it may leave other files, which are not kept.
    timeout_s : float, optional
        The command is ended after so many seconds.
    kept_program_bytes : int
        Longer program files are known by their digests alone.
    scratch : str or os.PathLike, optional
        Where its directory is made. Default: `$TMPDIR`.

    Examples
    --------
    >>> fs.pipe("run1/out.txt", b"3 1 2")
    >>> thalweg.record(["sort", "-o", "run1/sorted.txt", "run1/out.txt"], "run1/sorted.txt", "run1/out.txt", store="/scratch/st")
    Recorded(recipe='…', seconds=…, outputs={'run1/sorted.txt': 6})
    """
    if isinstance(command, (str, bytes)):
        raise misuse(
            TypeError, "a command is a sequence of words, as in ['sort', '-o', 'out', 'in']; shlex.split makes one"
        )
    output_places = _places(outputs)
    fs = _file_system([path for _, path in output_places], store, storage_options)
    options = {
        **record_options(
            inputs_not_kept, directory, programs, environment, tolerance, ignore_others, kept_program_bytes
        ),
        "timeout_s": timeout_s,
        "scratch": None if scratch is None else os.path.abspath(scratch),
    }
    words = [_word(word) for word in command]
    with using(fs.location) as opened:
        recipe, seconds, made = _thalweg.record(
            opened, words, _in_store(fs, output_places), _in_store(fs, _places(inputs)), options
        )
    return Recorded(recipe, seconds, {os.fsdecode(path): size for path, size in made})


def record_options(
    inputs_not_kept: Iterable[str] = (),
    directory: str | os.PathLike[str] | None = None,
    programs: Iterable[str | os.PathLike[str]] = (),
    environment: Mapping[str, str | None] | None = None,
    tolerance: Tolerance = None,
    ignore_others: bool = False,
    kept_program_bytes: int = KEPT_PROGRAM_BYTES,
) -> dict[str, Any]:
    """Returns what `record` says of a command, but for its limits, as the extension module takes it."""
    for name, value in (environment or {}).items():
        if not isinstance(name, str) or not isinstance(value, (str, type(None))):
            raise misuse(
                TypeError, f"environment: {name!r} is {value!r}; variables are text, or None for the value they have"
            )
    if not isinstance(kept_program_bytes, int) or kept_program_bytes < 0:
        raise misuse(ValueError, f"kept_program_bytes is a number of bytes, not {kept_program_bytes!r}")
    return {
        "inputs_not_kept": list(inputs_not_kept),
        "directory": os.path.abspath(directory or os.curdir),
        "environment": list((environment or {}).items()),
        "programs": [os.fspath(program) for program in programs],
        "kept_program_bytes": kept_program_bytes,
        "tolerances": _tolerances(tolerance),
        "ignore_others": ignore_others,
    }


def drop(
    paths: str | Iterable[str],
    *,
    store: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    check: bool = False,
    **storage_options: Any,
) -> list[Dropped]:
    """Frees the data of files that recipes make again; their names stay. `thalweg collect` frees the space.

    With `check` the commands are run first, as this user, and `RuntimeError` is raised where they do not make the same
    again. Raises `OSError` where no recipe made just this content, or not all that it needs is kept.

    Examples
    --------
    >>> thalweg.drop("run1/sorted.txt", store="/scratch/st")
    [Dropped(path='run1/sorted.txt', recipe='…', bytes=6, snapshots=[])]
    """
    fs, encoded = _files(paths, store, storage_options)
    options = {"directory": os.getcwd(), "dry_run": dry_run, "check": check}
    with using(fs.location) as opened:
        dropped = _thalweg.drop_recomputable(opened, encoded, options)
    return [Dropped(os.fsdecode(path), recipe, size, snapshots) for path, recipe, size, snapshots in dropped]


def plan_recompute(
    paths: str | Iterable[str], *, store: str | os.PathLike[str] | None = None, **storage_options: Any
) -> list[Step]:
    """Returns the commands that `recompute` would run, each once, in order.

    Examples
    --------
    >>> [step.command for step in thalweg.plan_recompute("run1/sorted.txt", store="/scratch/st")]
    [['sort', '-o', 'run1/sorted.txt', 'run1/out.txt']]
    """
    fs, encoded = _files(paths, store, storage_options)
    with using(fs.location) as opened:
        steps = _thalweg.plan_recompute(opened, encoded)
    return [Step(recipe, _decoded(command), seconds, host, uid) for recipe, command, seconds, host, uid in steps]


def recompute(
    paths: str | Iterable[str],
    *,
    store: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    timeout_s: float | None = None,
    directory: str | os.PathLike[str] | None = None,
    scratch: str | os.PathLike[str] | None = None,
    accept_different: bool = False,
    **storage_options: Any,
) -> list[Restored]:
    """Runs the recipes of dropped files again, as this user, and gives the files their data back.

    What they make is compared bit for bit, or within the tolerance that the recipe states. Where it differs, or a command
    fails, `RuntimeError` is raised, and the store is as before. A recipe is the program of the user who recorded it:
    `plan_recompute` shows it.

    Parameters
    ----------
    paths : str or iterable of str
        Dropped files.
    jobs : int
        Commands that run at once.
    timeout_s : float, optional
        Of each command. Default: ten times what it took, and a minute.
    directory : str or os.PathLike, optional
        Where programs that are not kept are looked for. Default: the current one.
    accept_different : bool
        Take what the commands make now, also where it is not what was dropped.

    Examples
    --------
    >>> thalweg.recompute("run1/sorted.txt", store="/scratch/st")
    [Restored(path='run1/sorted.txt', bytes=6, is_exact=True)]
    """
    if not isinstance(jobs, int) or jobs < 1:
        raise misuse(ValueError, f"jobs is how many commands run at once, not {jobs!r}")
    fs, encoded = _files(paths, store, storage_options)
    options = {
        "directory": os.path.abspath(directory or os.curdir),
        "jobs": jobs,
        "timeout_s": timeout_s,
        "scratch": None if scratch is None else os.path.abspath(scratch),
        "accept_different": accept_different,
    }
    with using(fs.location) as opened:
        restored = _thalweg.recompute(opened, encoded, options)
    return [Restored(os.fsdecode(path), size, is_exact) for path, size, is_exact in restored]


def recipes(store: str | os.PathLike[str] | None = None, **storage_options: Any) -> list[Recipe]:
    """Returns the recipes of a store, in the order in which they were recorded.

    Examples
    --------
    >>> [recipe.outputs[0].state for recipe in thalweg.recipes("/scratch/st")]
    ['kept']
    """
    fs = ThalwegFileSystem(store=store, **storage_options)
    with using(fs.location) as opened:
        found = _thalweg.list_recipes(opened, os.getcwd())
    return [_recipe(fields) for fields in found]


def _recipe(fields: dict[str, Any]) -> Recipe:
    outputs = [Output(os.fsdecode(path), size, state) for path, size, state in fields.pop("outputs")]
    command, inputs = _decoded(fields.pop("command")), _decoded(fields.pop("inputs"))
    return Recipe(outputs=outputs, command=command, inputs=inputs, **fields)


def _decoded(words: list[bytes]) -> list[str]:
    return [os.fsdecode(word) for word in words]


def _places(written: Places) -> list[tuple[str | None, str]]:
    """Returns the names in the command's directory, where they differ, and the paths."""
    if isinstance(written, Mapping):
        return [(name, _path(path)) for name, path in written.items()]
    paths = [written] if isinstance(written, (str, os.PathLike)) else written
    if not isinstance(paths, Iterable) or isinstance(paths, bytes):
        raise misuse(TypeError, f"{written!r}: files are named by a path, by several, or by a mapping to paths")
    return [(None, _path(path)) for path in paths]


def _path(written: object) -> str:
    if not isinstance(written, (str, os.PathLike)):
        raise misuse(TypeError, f"{written!r}: a file is named by a URL or a path")
    return os.fspath(written)


def _in_store(fs: ThalwegFileSystem, places: list[tuple[str | None, str]]) -> list[tuple[bytes, bytes]]:
    found = []
    for name, path in places:
        stripped = fs._strip_protocol(path)
        found.append((os.fsencode(stripped if name is None else name), os.fsencode(stripped)))
    return found


def _tolerances(tolerance: Tolerance) -> list[tuple[bytes | None, float, str]]:
    if tolerance is None:
        return []
    if isinstance(tolerance, Mapping):
        return [(_word(output), *_bound(bound)) for output, bound in tolerance.items()]
    return [(None, *_bound(tolerance))]


def _bound(written: object) -> tuple[float, str]:
    if isinstance(written, (tuple, list)) and len(written) == 2:
        share, element = written
        if isinstance(share, numbers.Real) and isinstance(element, str):
            return float(share), element
    raise misuse(
        TypeError, f"{written!r}: a tolerance is a share and a type, as in (1e-6, 'f64'), or such of each output"
    )


def _word(word: Word) -> bytes:
    if not isinstance(word, (str, bytes, os.PathLike)):
        raise misuse(TypeError, f"{word!r}: words of a command are text or paths")
    return os.fsencode(word)


def _files(
    paths: str | Iterable[str], store: str | os.PathLike[str] | None, storage_options: dict[str, Any]
) -> tuple[ThalwegFileSystem, list[bytes]]:
    written = [path for _, path in _places(paths)]
    fs = _file_system(written, store, storage_options)
    return fs, [os.fsencode(fs._strip_protocol(path)) for path in written]


def _file_system(
    paths: list[str], store: str | os.PathLike[str] | None, storage_options: dict[str, Any]
) -> ThalwegFileSystem:
    """Returns the file system of the store that is named, or that the first of the URLs names."""
    fs = ThalwegFileSystem(store=store, **storage_options)
    return fs.of_url(paths[0]) if paths else fs
