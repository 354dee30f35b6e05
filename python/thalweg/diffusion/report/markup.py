"""HTML made of values that may hold anything: escaped, bounded, and without characters that change what surrounds them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

MAX_TEXT = 300
# Control characters, marks of writing direction, characters without width, lone surrogates.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def shortened(value: Any, limit: int = MAX_TEXT) -> str:
    """The value's text without its middle, if it is longer than `limit` characters."""
    written = value if isinstance(value, str) else str(value)
    if len(written) <= limit:
        return written
    ending = limit // 4
    return f"{written[: limit - ending - 1]}…{written[-ending:]}"


def visible(written: str) -> str:
    """Invisible characters as escapes: a name with a direction mark is not to look like another one."""
    return _INVISIBLE.sub(lambda found: ascii(found[0])[1:-1], written)


def text(value: Any, limit: int = MAX_TEXT) -> str:
    """The value as text of a page, apart from the writing direction around it."""
    return f"<bdi>{escape(visible(shortened(value, limit)))}</bdi>"


def preformatted(value: Any, limit: int, key: str) -> str:
    written = escape(visible(shortened(value, limit)))
    return f'<pre dir="ltr" tabindex="0" data-key="{_name_of(key)}">{written}</pre>'


class Column(NamedTuple):
    title: str
    is_number: bool = False


def table(caption: str, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML. On narrow screens each row becomes a block with labelled lines; the roles keep it a table there."""
    head = "".join(
        f'<th role="columnheader" scope="col"{_kind(column)}>{escape(column.title)}</th>' for column in columns
    )
    body = "".join(_row(columns, cells) for cells in rows)
    return (
        f'<table role="table"><caption>{escape(caption)}</caption><thead role="rowgroup"><tr role="row">{head}</tr>'
        f'</thead><tbody role="rowgroup">{body}</tbody></table>'
    )


def _row(columns: Sequence[Column], cells: Sequence[str]) -> str:
    first, *rest = zip(columns, cells)
    head = f'<th role="rowheader" scope="row"{_kind(first[0])}>{first[1]}</th>'
    others = "".join(
        f'<td role="cell" data-label="{escape(column.title)}"{_kind(column)}>{cell}</td>' for column, cell in rest
    )
    return f'<tr role="row">{head}{others}</tr>'


def _kind(column: Column) -> str:
    return ' class="number"' if column.is_number else ""


def details(key: str, summary: str, content: str) -> str:
    """A part that opens; it stays open in a live page, by its key."""
    return f'<details data-key="{_name_of(key)}"><summary>{summary}</summary>{content}</details>'


def _name_of(key: str) -> str:
    """Keys may be anything, too."""
    return hashlib.blake2b(key.encode(errors="replace"), digest_size=8).hexdigest()


def section(title: str, *parts: str) -> str:
    return f"<h2>{escape(title)}</h2>{''.join(parts)}" if any(parts) else ""
