"""Codes of errors, which `thalweg explain` and docs/errors.md explain: they end the sentence, and are the attribute `code`.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from typing import TypeVar

_Error = TypeVar("_Error", bound=Exception)

# Of runs that end early, for a cause without a code.
RUN_LOST = "TW-860"

# Of an error that this one tells of.
_CODE_AT_END = re.compile(r" \[TW-\d{3}\]$")


class Coded:
    """Of a class of exceptions with a code of its own; stands before the class of Python's that it is, too."""

    code: str

    def __str__(self) -> str:
        return with_code(super().__str__(), self.code)


def coded(error: _Error, code: str) -> _Error:
    """Gives an exception whose first argument is its sentence a code, and returns it."""
    error.args = (with_code(str(error.args[0]), code), *error.args[1:])
    error.code = code  # type: ignore[attr-defined]
    return error


def with_code(said: str, code: str) -> str:
    """The sentence with a code at its end, and none of an error that it tells of."""
    return f"{without_code(said)} [{code}]"


def without_code(said: str) -> str:
    """The sentence of an error, to be continued."""
    return _CODE_AT_END.sub("", said.rstrip())


def code_of(error: BaseException, otherwise: str) -> str:
    """The error's own code, where it has one: other packages' errors have codes that are numbers."""
    code = getattr(error, "code", None)
    return code if isinstance(code, str) and code.startswith("TW-") else otherwise


def misuse(kind: type[_Error], why: str) -> _Error:
    """Returns the exception for a call that cannot be meant, in the class that Python has for it."""
    return coded(kind(why), "TW-112")
