"""A store that fails is asked again, for a while: it may be gone for a moment only, with all that a run needs.

How long is counted for each question, and for each store since it answered anybody at all: when a store stays gone,
not every task of a run waits for it anew. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable, TypeVar

from thalweg.disk_cache.disk_cache import CacheDiskFull
from thalweg.disk_cache.locks import CacheLocked
from thalweg.error_code import Coded
from thalweg.store_error import store_error

Answer = TypeVar("Answer")

# Between two questions.
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
# A store that has failed less often is asked again, however long ago it answered.
_MIN_FAILURES = 3
# Errors not worth retrying; for others client libraries have names of their own.
_PERMANENT = (
    *(FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError),
    *(
        ArithmeticError,
        AssertionError,
        AttributeError,
        ImportError,
        LookupError,
        NotImplementedError,
        TypeError,
        ValueError,
    ),
)
# HTTP's "not your turn" and "not so fast".
_TRANSIENT_STATUSES = (408, 425, 429)
# Exceptions of client libraries for a connection that did not come about or broke; many are no `OSError`.
_CONNECTION_ERRORS = frozenset(
    {"ClientConnectionError", "ConnectionError", "HTTPClientError", "Timeout", "TimeoutError", "TransportError"}
)
# And for a response that ended early or was garbled. Several have a `code` or `status` of 400, which no store sent:
# all of aiohttp's HttpProcessingError do.
_RESPONSE_ERRORS = frozenset(
    {
        *("ClientPayloadError", "HttpProcessingError", "IncompleteRead", "IncompleteReadError", "BadStatusLine"),
        *("ChunkedEncodingError", "ContentDecodingError", "ProtocolError", "ServiceResponseError"),
    }
)
# S3's codes for the same and for "not so fast", which it may send with status 400.
_TRANSIENT_S3_CODES = frozenset(
    {"IncompleteBody", "InternalError", "RequestTimeout", "SlowDown", "Throttling", "ThrottlingException"}
)


class StoreGone(Coded, ConnectionError):
    """A store failed for longer than `store_timeout_s`."""

    code = "TW-855"


@dataclass
class _Outage:
    """The outage of one store: since when it has not answered, how often it failed since, and its last error."""

    since: float
    asked: float
    error: BaseException
    failures: int = 0


class StoreRetry:
    """Thread-safe; one for each worker."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._mutex = threading.Lock()
        self._outages: dict[str, _Outage] = {}

    def call(self, url: str, act: Callable[[], Answer], is_over: Callable[[], bool] = lambda: False) -> Answer:
        """Returns the result of `act`, which speaks with the store of `url`. Raises `StoreGone` after `timeout_s`, at
        once an error that is not worth retrying, and the store's own error when the run `is_over`."""
        begun = time.monotonic()
        pause_s = _FIRST_PAUSE_S
        while True:
            self._pass_over(url)
            try:
                answer = act()
            except Exception as error:
                if is_permanent(error):
                    self._answered(url)
                    if _is_forbidden(error):
                        raise store_error(errno.EACCES, url, "the store does not allow it", "TW-304") from error
                    raise
                outage = self._failed(url, begun, error)
                if is_over():
                    raise
                since = min(begun, outage.since)
                left_s = since + self._timeout_s - outage.asked
                # One that was asked once while the machine stood still may be there.
                if left_s <= 0 and outage.failures >= _MIN_FAILURES:
                    raise self._gone(url, error, outage.asked - since) from error
            else:
                self._answered(url)
                return answer
            # Once more when the time is over.
            time.sleep(max(_FIRST_PAUSE_S, min(pause_s, left_s)))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _pass_over(self, url: str) -> None:
        """Raises when other calls have just found the store gone."""
        with self._mutex:
            outage = self._outages.get(_store(url))
        if outage is None or outage.failures < _MIN_FAILURES:
            return
        if not any(isinstance(one, (ConnectionError, TimeoutError)) for one in _causes(outage.error)):
            return
        if outage.asked - outage.since > self._timeout_s and time.monotonic() - outage.asked < _LONGEST_PAUSE_S:
            raise self._gone(url, outage.error, outage.asked - outage.since) from outage.error

    def _failed(self, url: str, begun: float, error: BaseException) -> _Outage:
        with self._mutex:
            now = time.monotonic()
            outage = self._outages.setdefault(_store(url), _Outage(begun, now, error))
            outage.asked, outage.error = now, error
            outage.failures += 1
            return outage

    def _answered(self, url: str) -> None:
        if self._outages:
            with self._mutex:
                self._outages.pop(_store(url), None)

    def _gone(self, url: str, error: BaseException, seconds: float) -> StoreGone:
        return StoreGone(
            f"{url}: {_store(url)} has failed for {seconds:.3g} s (last: {_said(error)}). See that it is there, then start "
            "the run again, with the same run_folder to keep what is done; or wait longer: store_timeout_s is "
            f"{self._timeout_s:.3g} s"
        )


def is_permanent(error: BaseException) -> bool:
    """Whether asking again cannot help. fsspec's file systems raise `FileNotFoundError` for whatever a store answers
    when it is asked for a file; what it answered is in the causes then. A full disk under the cache, or a lock in it, is nothing of the
    store's."""
    if isinstance(error, (CacheDiskFull, CacheLocked)):
        return True
    for cause in _causes(error):
        if _is_transient(cause) or _is_transient(cause.__cause__):
            return False
        status = _status(cause)
        if status is not None:
            return 400 <= status < 500 and status not in _TRANSIENT_STATUSES
    return isinstance(error, _PERMANENT)


def _is_forbidden(error: BaseException) -> bool:
    """Of what is there and may not be read fsspec's HTTP says that it is not there."""
    return isinstance(error, FileNotFoundError) and any(_status(cause) in (401, 403) for cause in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _said(error: BaseException) -> str:
    """The error of the store, or of the connection: fsspec's file systems raise errors over it that only name the file."""
    found = next((one for one in _causes(error) if _is_transient(one) or _status(one) is not None), error)
    return f"{type(found).__name__}: {found}".removesuffix(": ")


def _status(error: BaseException) -> int | None:
    """HTTP's, as client libraries keep it."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        # botocore's.
        response = response.get("ResponseMetadata", {})
        found: Any = response.get("HTTPStatusCode")
    else:
        found = getattr(response, "status_code", None)
    for name in ("status", "status_code", "code"):
        found = getattr(error, name, None) if found is None else found
    try:
        status = int(found)
    except (TypeError, ValueError):
        return None
    return status if 400 <= status < 600 else None


def _is_transient(error: BaseException | None) -> bool:
    """Whether it says by itself, without a status, that the answer did not come or not whole."""
    if error is None or isinstance(error, _PERMANENT):
        return False
    response = getattr(error, "response", None)
    if isinstance(response, Mapping) and response.get("Error", {}).get("Code") in _TRANSIENT_S3_CODES:
        return True
    names = {base.__name__ for base in type(error).__mro__}
    return not names.isdisjoint(_RESPONSE_ERRORS) or (
        _status(error) is None and not names.isdisjoint(_CONNECTION_ERRORS)
    )


def _store(url: str) -> str:
    """The failure domain of a URL: all but the path; the disks of this machine are one."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}://{rest.split('/', 1)[0]}" if separator else "file://"
