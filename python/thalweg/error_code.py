"""Codes of errors, which `thalweg explain` and docs/errors.md explain: they end the sentence, and are the attribute `code`.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from typing import TypeVar

_Error = TypeVar("_Error", bound=Exception)

# Of an error that this one tells of.
_CODE_AT_END = re.compile(r" \[TW-\d{3}\]$")


class Coded:
    """Of a class of exceptions with a code of its own; stands before the class of Python's that it is, too."""

    code: str

    def __str__(self) -> str:
        said, end = super().__str__(), f"[{self.code}]"
        return said if said.endswith(end) else f"{said} {end}"


def coded(error: _Error, code: str) -> _Error:
    """Gives an exception whose first argument is its sentence a code, and returns it."""
    said = _CODE_AT_END.sub("", str(error.args[0]))
    error.args = (f"{said} [{code}]", *error.args[1:])
    error.code = code  # type: ignore[attr-defined]
    return error


def misuse(kind: type[_Error], why: str) -> _Error:
    """Returns the exception for a call that cannot be meant, in the class that Python has for it."""
    return coded(kind(why), "TW-112")
