"""How much a cache may hold, as users write it. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import re

from thalweg.error_code import misuse

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS.update({"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40})


def parse_bytes(written: int | str) -> int:
    """Returns the bytes in `20 GB`, `512MiB`, or a number of bytes."""
    found = re.fullmatch(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([A-Za-z]*)\s*", str(written))
    if found is None or found[2].upper() not in _UNITS:
        raise misuse(ValueError, f"{written!r} is not a number of bytes; write it as in '20 GB'")
    return int(float(found[1]) * _UNITS[found[2].upper()])
