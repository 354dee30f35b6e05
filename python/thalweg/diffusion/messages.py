"""Messages between workers, coordinator and client: small tuples, all picklable, each with its kind first.

Files are named by their item's key. A worker sends what happened as a list; every answer is a list too.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any, NamedTuple, Union

from thalweg.diffusion.failure import Failure


class Hello(NamedTuple):
    """A worker is there, with what its cache still holds: (key, bytes, digest)."""

    slots: int
    cache_bytes: int
    address: str
    held: list[tuple[str, int, bytes]]


class Arrived(NamedTuple):
    """A transfer ended well; `only_for` when it was for that attempt of a task alone."""

    key: str
    only_for: tuple[int, int] | None
    size: int
    digest: bytes
    seconds: float
    kept: bool


class Missed(NamedTuple):
    """A transfer did not; `peer` is whom it was to come from, empty for the store."""

    key: str
    only_for: tuple[int, int] | None
    peer: str
    why: str


class Missing(NamedTuple):
    """A task found an input gone that was to be in the cache."""

    task: int
    key: str


class Lost(NamedTuple):
    """The cache lost these by itself."""

    keys: list[str]


class Ended(NamedTuple):
    """An attempt ended: `result` is pickled, or else there is a failure. `inputs` are (source, bytes); `slot_s` is how
    long it had its slot, `fetch_s` of that waiting for input, `seconds` the function alone. `at_s` is the worker's clock."""

    task: int
    attempt: int
    result: bytes | None
    failure: Failure | None
    seconds: float
    slot_s: float
    fetch_s: float
    inputs: list[tuple[str, int]]
    at_s: float
    # Of each input its key and version, where a journal asks for them.
    versions: list[tuple[str, str | None]] = []
    # Definitions in the user's modules that are others on the worker than where the call came from.
    differing: tuple[str, ...] = ()


class PublishedOutput(NamedTuple):
    """An output that is in the store; one that `is_adopted` is in the worker's cache as well, and has a digest."""

    url: str
    size: int
    digest: bytes
    is_adopted: bool
    version: str | None
    is_folder: bool = False


class Writing(NamedTuple):
    """Folders that a task wrote are about to appear: from now on what is there is the run's."""

    task: int
    attempt: int
    folders: list[str]


class Published(NamedTuple):
    """The outputs of a task are in the store."""

    task: int
    attempt: int
    outputs: list[PublishedOutput]


class Unpublished(NamedTuple):
    """They could not be written there."""

    task: int
    attempt: int
    failure: Failure


class Answered(NamedTuple):
    """To a recall."""

    task: int
    attempt: int
    given_back: bool


class Usage(NamedTuple):
    """Usage of a worker's processes: memory now, if that is known, and processors on average over the last `seconds`.
    `running` are its tasks, `longest` those of them that it runs longest: (task, seconds)."""

    seconds: float
    cores: float
    memory_bytes: int | None
    running: int
    longest: list[tuple[int, float]]


Report = Union[Hello, Arrived, Missed, Missing, Lost, Ended, Writing, Published, Unpublished, Answered, Usage]


class Keep(NamedTuple):
    """A function or a large argument, which tasks will name by its digest."""

    digest: bytes
    pickled: bytes


class Forget(NamedTuple):
    """Of these no task will speak any more."""

    digests: list[bytes]


class Run(NamedTuple):
    """Run this when its inputs are there; those of `coming` are not, and fetches follow. Folders among the outputs may
    replace only `replaced`."""

    task: int
    attempt: int
    function: bytes
    payload: bytes
    values: tuple[bytes, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    coming: tuple[str, ...]
    replaced: tuple[str, ...] = ()
    # The function's, for errors.
    name: str = "the task"


class Fetch(NamedTuple):
    """Bring this from a peer or, without one, from the store; keep it, unless it is for one attempt alone."""

    key: str
    peer: str
    digest: bytes | None
    only_for: tuple[int, int] | None


class Evict(NamedTuple):
    keys: list[str]


class Recall(NamedTuple):
    task: int
    attempt: int


class Publish(NamedTuple):
    """The attempt counts: its outputs go where they belong."""

    task: int
    attempt: int


class Drop(NamedTuple):
    """The attempt does not count."""

    task: int
    attempt: int


Order = Union[Keep, Forget, Run, Fetch, Evict, Recall, Publish, Drop]


class Task(NamedTuple):
    """From the client, which numbers its tasks itself. `replaced` are outputs that may replace any folder."""

    number: int
    function: bytes
    name: str
    payload: bytes
    values: tuple[bytes, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    replaced: tuple[str, ...] = ()


class Tasks(NamedTuple):
    """`is_last` of a batch that may be ordered as a whole."""

    tasks: list[Task]
    is_last: bool


class Result(NamedTuple):
    """To the client. `inputs` are keys and versions, `outputs` URLs, bytes and versions, for the journal."""

    number: int
    result: bytes
    attempts: int
    inputs: list[tuple[str, str | None]] = []
    outputs: list[tuple[str, int, str | None]] = []
    # The worker, and the definitions that it has otherwise than the client.
    worker: str = ""
    differing: tuple[str, ...] = ()


class Folders(NamedTuple):
    """To the client: output folders of the run, for the journal."""

    urls: list[str]


class NoWorker(NamedTuple):
    """To the client: `tasks` have waited for `seconds` without any worker there. One has come, when it is none that wait."""

    tasks: int
    seconds: float


class Failed(NamedTuple):
    number: int
    failure: Failure
    attempts: int


class Event(NamedTuple):
    """A call of `events.Events`: its method and arguments."""

    kind: str
    arguments: dict[str, Any]


Update = Union[Result, Failed, Folders, NoWorker, Event]
