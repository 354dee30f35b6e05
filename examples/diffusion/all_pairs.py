#!/usr/bin/env python3
"""All-pairs: compares each file with each other, and finds the two that are alike.

Makes files of random numbers, one of which is another one with noise; then computes the correlation of every pair, one
task each. N files are N (N - 1) inputs: from the store each should come about once. Needs numpy.
SPDX-License-Identifier: Apache-2.0
"""

import argparse
import contextlib
import itertools
import os
import tempfile

import numpy

from thalweg.diffusion import Diffusion, File
from thalweg.diffusion.report.summary import summary


def correlation(one, other):
    """The task: both are paths of copies on the worker."""
    return float(numpy.corrcoef(numpy.load(one), numpy.load(other))[0, 1])


def make_data(folder, files, numbers, dice):
    paths = []
    for number in range(files):
        values = dice.standard_normal(numbers)
        if number == files - 1:
            values += 2 * numpy.load(paths[files // 3])
        paths.append(os.path.join(folder, f"{number:04}.npy"))
        numpy.save(paths[-1], values)
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--files", type=int, default=24, help="each with each other (24)")
    parser.add_argument("--numbers", type=int, default=50_000, help="in a file, of 8 bytes (50000)")
    parser.add_argument("--workers", type=int, default=2, help="processes on this machine (2)")
    parser.add_argument("--dask", metavar="ADDRESS", help="a Dask scheduler, whose workers see --folder")
    parser.add_argument("--cache", default="1 GB", help="what a worker keeps of inputs (1 GB)")
    parser.add_argument("--folder", help="where data and report stay; a temporary folder by default")
    options = parser.parse_args()
    place = contextlib.nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory()
    with place as folder:
        data, run = os.path.join(folder, "numbers"), os.path.join(folder, "all-pairs-run")
        os.makedirs(data, exist_ok=True)
        paths = make_data(data, options.files, options.numbers, numpy.random.default_rng(1))
        pairs = list(itertools.combinations(paths, 2))
        with Diffusion(
            options.dask,
            workers=None if options.dask else options.workers,
            cache=options.cache,
            cache_folder=os.path.join(folder, "cache"),
            run_folder=run,
            progress=True,
        ) as d:
            results = d.map(correlation, [(File(one), File(other)) for one, other in pairs])
            likeness, best = max((result.value, result.index) for result in results)
        one, other = (os.path.basename(path) for path in pairs[best])
        print(f"Of {len(pairs)} pairs {one} and {other} are the most alike: {likeness:.3f}.")
        print(summary(run))
        if options.folder:
            print(f"Report: {os.path.join(run, 'report.html')}")


if __name__ == "__main__":
    main()
