"""The extension module (`python/src`): stores, whose paths are bytes below their root, and plans of data diffusion."""

import builtins
import os
from typing import Callable, Literal, final

from thalweg.upload import CommitEntry, Owner

__version__: str

def create(directory: str | os.PathLike[str], encoding_mode: str | None = None) -> None:
    """Makes a store in a directory that is missing or empty."""

def check_mode(word: str) -> None:
    """Raises ValueError for a word that is no mode."""

MAX_CHUNK_BYTES: int
"""Raw bytes of a chunk at most."""

def encode_chunk(
    raw: bytes,
    element: str,
    record_length: int,
    codec: str,
    error_bound: str | None = None,
    missing_value: float | None = None,
    is_rounded: bool = False,
) -> bytes:
    """Encodes a chunk of an array; `element` is a type as docs/format.md lists them, such as f64, or f64be where it is
    big-endian. With an error bound, floats are rounded first; `is_rounded` says that they were before."""

def round_values(raw: bytes, element: str, error_bound: str, missing_value: float | None = None) -> tuple[bytes, str]:
    """The values rounded within the bound, and a note that names it and the largest error; TypeError where they are no floats."""

def parse_error_bound(error_bound: str) -> tuple[str, float]:
    """The bound's kind (`absolute`, `relative`, `range`) and number; raises ValueError where it is none."""

def decode_chunk(chunk: bytes, max_bytes: int) -> bytes:
    """Raises OSError where the chunk is damaged, or has more raw bytes than that."""

def check_codec(codec: str) -> None:
    """Raises ValueError where there is no such codec."""

@final
class Entry:
    """The target of a name, as it was at the request."""

    @property
    def path(self) -> bytes: ...
    @property
    def kind(self) -> Literal["file", "directory", "link"]: ...
    @property
    def size(self) -> int: ...
    @property
    def is_dropped(self) -> bool:
        """Whether its data was dropped: a recipe makes it again."""
    @property
    def mode(self) -> int: ...
    @property
    def uid(self) -> int: ...
    @property
    def gid(self) -> int: ...
    @property
    def links(self) -> int: ...
    @property
    def modified_ns(self) -> int: ...
    @property
    def committed_ns(self) -> int | None: ...
    @property
    def version(self) -> int | None: ...
    @property
    def content_digest(self) -> bytes | None:
        """BLAKE3 of the whole content, where the store has it."""
    @property
    def root(self) -> bytes | None:
        """Names the content as well, but equal contents may have several."""
    @property
    def target(self) -> bytes: ...

@final
class Finalizer:
    """Calls a function when it is released: after the finalizers of whatever held it, also of a cycle of garbage. The
    argument is what `is_left_by_exception` says then."""

    def __new__(cls, call: Callable[[bool], None]) -> Finalizer: ...

def is_left_by_exception() -> bool:
    """Whether an exception is on its way, or one that was handled is being released, and what it left with it."""

def record(
    store: Store,
    command: list[bytes],
    outputs: list[tuple[bytes, bytes]],
    inputs: list[tuple[bytes, bytes]],
    options: dict[str, object],
) -> tuple[str, float, list[tuple[bytes, int]]]:
    """Runs a command; the recipe's name, its seconds, and its outputs with their lengths."""

def run_on_copies(
    command: list[bytes],
    outputs: list[tuple[bytes, bytes, str]],
    inputs: list[tuple[bytes, bytes, str]],
    variables: list[tuple[str, str]],
    printed: str,
    options: dict[str, object],
) -> tuple[bytes, list[bytes]]:
    """Runs a command on copies of its inputs; its recipe, encoded, and the contents of the programs that this keeps."""

def store_run(
    store: Store,
    record: bytes,
    programs: list[bytes],
    outputs: list[tuple[bytes, str]],
    roots: list[tuple[bytes, bytes]],
) -> tuple[str, float, list[tuple[bytes, int]]]:
    """Stores what a command left on this machine, with its recipe; returns the same as `record`."""

def drop_recomputable(
    store: Store, paths: list[bytes], options: dict[str, object]
) -> list[tuple[bytes, str, int, list[str]]]:
    """Drops files that recipes make again; path, recipe, bytes and snapshots that keep the data, of each."""

def plan_recompute(store: Store, paths: list[bytes]) -> list[tuple[str, list[bytes], float, str, int]]:
    """The commands that dropped files take: recipe, command, seconds, host and user that recorded it."""

def recompute(store: Store, paths: list[bytes], options: dict[str, object]) -> list[tuple[bytes, int, bool]]:
    """Stores the data of dropped files again; path, bytes, and whether it is the same bit for bit, of each."""

def provide(store: Store, entries: list[Entry], directory: str) -> None:
    """Makes the data of dropped files again, to be read by this process."""

def list_recipes(store: Store, directory: str) -> list[dict[str, object]]:
    """The recipes of a store."""

@final
class EpochPin:
    """Keeps versions that were looked up since readable while it lives."""

@final
class Draft:
    """Content in the store, without a name until `Store.commit_drafts`."""

@final
class Writer:
    """A file on its way in; dropped unfinished, it leaves nothing that anyone sees."""

    def write(self, content: bytes) -> None: ...
    def finish(self) -> Draft: ...
    def discard(self) -> None: ...

@final
class Store:
    """An open store, shared by all threads of the process that opened it."""

    def __new__(cls, address: bytes, secret_file: str | None = None, tls_ca: str | None = None) -> Store: ...
    @property
    def id(self) -> str:
        """The store's identifier; another store in the same place has another one."""
    def hold(self) -> EpochPin: ...
    def entry(self, path: bytes) -> Entry | None: ...
    def entries(self, paths: builtins.list[bytes]) -> builtins.list[Entry | None | BaseException]: ...
    def list(self, directory: bytes, recursive: bool) -> builtins.list[Entry]: ...
    def versions(self, path: bytes) -> builtins.list[Entry]: ...
    def read(self, entry: Entry, start: int, end: int) -> bytes: ...
    def read_many(self, ranges: builtins.list[tuple[Entry, int, int]]) -> builtins.list[bytes | BaseException]: ...
    def writer(self, encoding_mode: str | None = None) -> Writer: ...
    def draft_of(self, entry: Entry) -> Draft: ...
    def commit_drafts(self, drafts: builtins.list[CommitEntry]) -> None: ...
    def make_directory(self, path: bytes, owner: Owner) -> None: ...
    def remove(self, paths: builtins.list[bytes], recursive: bool) -> None: ...
    # Replaces, as `os.rename` does.
    def rename(self, source: bytes, target: bytes) -> None: ...
    def close(self, timeout_s: float | None = None) -> None: ...

@final
class RunOrder:
    """Run this attempt of a task; the items of `coming` are not there yet, and fetches follow."""

    @property
    def worker(self) -> int: ...
    @property
    def task(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def coming(self) -> builtins.list[int]: ...

@final
class FetchOrder:
    """Fetch an item from a peer, or from the store without one. With `only_for`, a task and its attempt, it is not kept."""

    @property
    def worker(self) -> int: ...
    @property
    def item(self) -> int: ...
    @property
    def peer(self) -> int | None: ...
    @property
    def only_for(self) -> builtins.tuple[int, int] | None: ...

@final
class EvictOrder:
    """Remove items from the worker's cache."""

    @property
    def worker(self) -> int: ...
    @property
    def items(self) -> builtins.list[int]: ...

@final
class RecallOrder:
    """Give an attempt back, if it has not begun."""

    @property
    def worker(self) -> int: ...
    @property
    def task(self) -> int: ...
    @property
    def attempt(self) -> int: ...

@final
class Plan:
    """Plans what each worker of a run does next; used by one thread at a time. Times are seconds since the run began; workers,
    items and tasks are numbered from 0 as they come."""

    def __new__(
        cls,
        policy: str,
        eviction: str,
        *,
        seed: int,
        store_bytes_per_s: float | None,
        stream_bytes_per_s: float,
        peer_bytes_per_s: float,
        link_bytes_per_s: float,
        local_bytes_per_s: float,
        guess_bytes: int,
    ) -> Plan: ...
    def item(self, name: str) -> int: ...
    def join(
        self, now_s: float, slots: int, cache_bytes: int, held: builtins.list[builtins.tuple[int, int]]
    ) -> int: ...
    def leave(self, now_s: float, worker: int) -> builtins.list[int]:
        """Gives the tasks that were lost with it."""
    def submit(
        self,
        now_s: float,
        inputs: builtins.list[int],
        awaited: builtins.list[int],
        outputs: builtins.list[int],
        displaced: builtins.list[int],
        is_last: bool,
    ) -> int:
        """`awaited` are items that inputs overlap, and which other tasks are to write before this one runs; `displaced`
        those that outputs overlap, and whose readers and writers end before."""
    def arrived(
        self,
        now_s: float,
        worker: int,
        item: int,
        only_for: tuple[int, int] | None,
        bytes: int,
        is_kept: bool,
        seconds: float,
    ) -> None: ...
    def missed(
        self, now_s: float, worker: int, item: int, only_for: tuple[int, int] | None, peer: int | None
    ) -> None: ...
    def lost(self, now_s: float, worker: int, item: int) -> None: ...
    def missing(self, now_s: float, worker: int, task: int, item: int) -> None: ...
    def returned(self, now_s: float, worker: int, task: int, attempt: int) -> None: ...
    def answered(self, worker: int) -> None: ...
    def ended(self, worker: int, task: int, attempt: int, seconds: float | None) -> bool:
        """Whether that attempt is the one that counts."""
    def again(self, now_s: float, task: int) -> None: ...
    def wrote(self, now_s: float, worker: int, item: int, bytes: int, is_adopted: bool) -> None: ...
    def outdated(self, now_s: float, item: int) -> None:
        """All copies of the item are stale: something that overlaps it was written."""
    def done(self, now_s: float, task: int) -> None: ...
    def cancel(self, task: int) -> bool: ...
    def abandon(self, now_s: float, task: int) -> builtins.list[int]:
        """Gives the tasks that wait for its outputs in vain."""
    def orders(self, now_s: float) -> builtins.list[RunOrder | FetchOrder | EvictOrder | RecallOrder]:
        """Returns the orders since the last call, in the order in which workers must get them."""
    def next_wake_s(self) -> float | None: ...
    def last_copy_bytes(self, worker: int) -> int: ...
    def is_idle(self, worker: int) -> bool: ...
    def wanted_workers(self, more: int, task_s: float, drain_s: float, slots_per_worker: int) -> int: ...
