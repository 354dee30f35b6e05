"""Thalweg stores for Python.

`thalweg` is an fsspec file system: once this package is installed, `thalweg://HOST:PORT/path` (a node) and
`thalweg:///directory/of/the/store!/path` (a store on this machine) are opened by everything that opens fsspec's URLs.

SPDX-License-Identifier: Apache-2.0
"""

from thalweg._thalweg import create
from thalweg.filesystem import ThalwegFileSystem

__all__ = ["ThalwegFileSystem", "create"]
