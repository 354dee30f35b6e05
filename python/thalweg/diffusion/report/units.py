"""Numbers with their units, as people read them. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


def format_seconds(seconds: float) -> str:
    """`20 ms`, `1.5 s`, `90 s`, `12 min 30 s`, `3 h 5 min`, `2 d 4 h`."""
    if 0 < seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.0005 else "< 1 ms"
    if seconds <= 90:
        return f"{seconds:.3g} s"
    if seconds < _HOUR_S - 0.5:
        return _two(round(seconds), _MINUTE_S, "min", 1, "s")
    if seconds < _DAY_S - 30:
        return _two(round(seconds), _HOUR_S, "h", _MINUTE_S, "min")
    return _two(round(seconds), _DAY_S, "d", _HOUR_S, "h")


def _two(seconds: int, large_s: int, large: str, small_s: int, small: str) -> str:
    whole, rest = divmod(round(seconds / small_s), large_s // small_s)
    return f"{whole} {large} {rest} {small}" if rest else f"{whole} {large}"


def format_amount(amount: float, unit: str = "") -> str:
    """`950 B`, `1.5 kB`, `20/s`, `20 M/s`."""
    for prefix, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if amount >= 0.9995 * factor:
            return f"{amount / factor:.3g} {prefix}{unit}"
    return f"{amount:.3g} {unit}" if unit[:1].isalpha() else f"{amount:.3g}{unit}"


def format_share(part: float, whole: float) -> str:
    """`42%`; a dash of nothing."""
    return f"{min(1.0, part / whole):.0%}" if whole > 0 else "–"
