"""Thalweg stores for Python.

`thalweg` is an fsspec file system: once this package is installed, `thalweg://HOST:PORT/path` (a node) and
`thalweg:///directory/of/the/store!/path` (a store on this machine) are opened by everything that opens fsspec's URLs.

Examples
--------
>>> import pandas, thalweg
>>> thalweg.create("/scratch/st")
>>> pandas.DataFrame({"a": [1, 2]}).to_parquet("thalweg:///scratch/st!/run1/a.parquet")
>>> pandas.read_parquet("thalweg:///scratch/st!/run1/a.parquet")["a"].sum()
3

SPDX-License-Identifier: Apache-2.0
"""

from thalweg._thalweg import __version__, create
from thalweg.filesystem import ThalwegFileSystem
from thalweg.recipe import drop, plan_recompute, recipes, recompute, record

__all__ = ["ThalwegFileSystem", "__version__", "create", "drop", "plan_recompute", "recipes", "recompute", "record"]
