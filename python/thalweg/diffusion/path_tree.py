"""Numbers by path, found also by paths that contain theirs or lie below them. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

from collections.abc import Iterator


class _Node:
    __slots__ = ("children", "numbers")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.numbers: list[int] = []


class PathTree:
    """Paths are URLs or local ones, whose parts are between slashes.

    Examples
    --------
    >>> tree = PathTree()
    >>> tree.add("s3://bucket/tiles/1", 7)
    >>> tree.overlapping("s3://bucket/tiles"), tree.overlapping("s3://bucket/tiles/1/a"), tree.overlapping("s3://bucket/t")
    ([7], [7], [])
    """

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, path: str, number: int) -> None:
        node = self._root
        for part in path.split("/"):
            node = node.children.setdefault(part, _Node())
        node.numbers.append(number)

    def remove(self, path: str, number: int) -> None:
        """Removes a number that was added under this path, once."""
        way = [self._root]
        parts = path.split("/")
        for part in parts:
            way.append(way[-1].children[part])
        way[-1].numbers.remove(number)
        for part, parent, node in zip(reversed(parts), reversed(way[:-1]), reversed(way[1:])):
            if node.children or node.numbers:
                break
            del parent.children[part]

    def overlapping(self, path: str) -> list[int]:
        """Returns the numbers of the paths that contain this one, are it, or lie below it."""
        found: list[int] = []
        node: _Node | None = self._root
        for part in path.split("/"):
            found += node.numbers  # type: ignore[union-attr]
            node = node.children.get(part)  # type: ignore[union-attr]
            if node is None:
                return found
        found.extend(_below(node))  # type: ignore[arg-type]
        return found


def _below(node: _Node) -> Iterator[int]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield from node.numbers
        waiting.extend(node.children.values())
