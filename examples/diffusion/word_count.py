#!/usr/bin/env python3
"""Word count: how often each word occurs in many files.

Makes files of words that are as frequent as in a language (Zipf's law); then counts them, a task a file. Each file is
read once, so there is nothing to find again: all comes from the store, and comes no slower for that. With --twice it
counts pairs of words as well, from the copies that the first count left.
SPDX-License-Identifier: Apache-2.0
"""

import argparse
import collections
import contextlib
import itertools
import os
import random
import tempfile

from thalweg.diffusion import Diffusion, File
from thalweg.diffusion.report.summary import summary


def count_words(path):
    """The task: `path` is a copy on the worker."""
    with open(path, encoding="utf-8") as file:
        return collections.Counter(word for line in file for word in line.split())


def count_pairs(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.split() for line in file]
    return collections.Counter(pair for words in lines for pair in zip(words, words[1:]))


def make_texts(folder, files, words, dice):
    syllables = ["ta", "ri", "mo", "ne", "su", "lo", "ka", "vi"]
    vocabulary = ["".join(parts) for length in (1, 2, 3) for parts in itertools.product(syllables, repeat=length)]
    frequency = list(itertools.accumulate(1 / rank for rank in range(1, len(vocabulary) + 1)))
    paths = []
    for number in range(files):
        paths.append(os.path.join(folder, f"text{number:04}.txt"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            lines = (dice.choices(vocabulary, cum_weights=frequency, k=10) for _ in range(words // 10))
            file.writelines(" ".join(line) + "\n" for line in lines)
    return paths


def total(results):
    counted = collections.Counter()
    for result in results:
        counted.update(result.value)
    return counted


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--files", type=int, default=24, help="tasks (24)")
    parser.add_argument("--words", type=int, default=20_000, help="in a file (20000)")
    parser.add_argument("--twice", action="store_true", help="count pairs of words, too")
    parser.add_argument("--workers", type=int, default=2, help="processes on this machine (2)")
    parser.add_argument("--dask", metavar="ADDRESS", help="a Dask scheduler, whose workers see --folder")
    parser.add_argument("--cache", default="1 GB", help="what a worker keeps of inputs (1 GB)")
    parser.add_argument("--folder", help="where data and report stay; a temporary folder by default")
    options = parser.parse_args()
    place = contextlib.nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory()
    with place as folder:
        data, run = os.path.join(folder, "texts"), os.path.join(folder, "word-count-run")
        os.makedirs(data, exist_ok=True)
        files = [File(path) for path in make_texts(data, options.files, options.words, random.Random(1))]
        with Diffusion(
            options.dask,
            workers=None if options.dask else options.workers,
            cache=options.cache,
            cache_folder=os.path.join(folder, "cache"),
            run_folder=run,
            progress=True,
        ) as d:
            words = total(d.map(count_words, files))
            pairs = total(d.map(count_pairs, files)) if options.twice else {}
        print(f"{sum(words.values()):,} words, {len(words):,} of them different: {named(words)}")
        if pairs:
            print(f"{sum(pairs.values()):,} pairs, {len(pairs):,} of them different: {named(pairs)}")
        print(summary(run))
        if options.folder:
            print(f"Report: {os.path.join(run, 'report.html')}")


def named(counted):
    return ", ".join(f"{' '.join([key] if isinstance(key, str) else key)} {n:,}" for key, n in counted.most_common(3))


if __name__ == "__main__":
    main()
