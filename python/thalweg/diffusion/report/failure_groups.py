"""Failures of one kind, shown once: grouped by the exception's type and its message without what differs each time.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from typing import Any

_Record = dict[str, Any]

_MAX_GROUPS = 100
# Of each group; and of its message, so much is compared.
_MAX_EXAMPLES = 5
_MAX_NAMES = 5
_COMPARED = 500
# URLs, paths, quoted text with digits or slashes in it, hexadecimal and decimal numbers.
_VARYING = re.compile(
    r"""[A-Za-z][\w+.-]*://[^\s'"<>]+|'[^'\n]*[\d/][^'\n]*'|"[^"\n]*[\d/][^"\n]*"|(?<![\w/])/[^\s'",:;]+"""
    r"""|\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{8,}\b|\d+(?:[.,]\d+)*"""
)
OTHER_FAILURES = "(other kinds of failures)"


def normalised(error: str) -> str:
    """The type and message of `ValueError: row 17 of /a/b`, as `ValueError: row … of …`."""
    return _VARYING.sub("…", error[:_COMPARED].split("\n", 1)[0])


class FailureGroup:
    """`count` attempts, of which `final` were not repeated."""

    def __init__(self, key: str, record: _Record) -> None:
        self.key = key
        self.error = str(record["error"])
        self.traceback = str(record.get("traceback") or "")
        self.count = self.final = 0
        # Of each the first few.
        self.names: list[str] = []
        self.examples: list[_Record] = []

    def add(self, record: _Record) -> None:
        self.count += 1
        self.final += bool(record.get("final"))
        name = str(record.get("name") or record.get("source") or "")
        if name and name not in self.names and len(self.names) < _MAX_NAMES:
            self.names.append(name)
        if len(self.examples) < _MAX_EXAMPLES:
            self.examples.append({name: value for name, value in record.items() if name != "traceback"})
        if not self.traceback:
            self.traceback = str(record.get("traceback") or "")


class FailureGroups:
    """In bounded memory: the last of very many kinds share one group."""

    def __init__(self) -> None:
        self._groups: dict[str, FailureGroup] = {}

    def add(self, record: _Record) -> None:
        key = normalised(str(record["error"]))
        if key not in self._groups and len(self._groups) >= _MAX_GROUPS:
            key = OTHER_FAILURES
        if key not in self._groups:
            self._groups[key] = FailureGroup(key, record)
        self._groups[key].add(record)

    def by_count(self) -> list[FailureGroup]:
        """Those that ended tasks first, then the most frequent."""
        return sorted(self._groups.values(), key=lambda one: (-one.final, -one.count))
