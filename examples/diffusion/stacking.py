#!/usr/bin/env python3
"""Image stacking: thousands of objects too faint to be seen, added up until they are.

Makes tiles of a synthetic sky as FITS files, with a star in the noise at each catalogued position; then cuts out each
object, one task each, and adds the cut-outs. Objects of one tile need the same file, so most tasks should find theirs on
the worker that has read it already. Needs numpy, and uses astropy where it is installed.
SPDX-License-Identifier: Apache-2.0
"""

import argparse
import contextlib
import os
import tempfile

import numpy

from thalweg.diffusion import Diffusion, File
from thalweg.diffusion.report.summary import summary

try:
    from astropy.io import fits
except ImportError:
    fits = None

# A tile's pixels a side, an object's cut-out, and how bright it is in standard deviations of a pixel's noise.
TILE, CUT, BRIGHTNESS = 512, 24, 0.8


def cut_out(tile, row, column):
    """The task: `tile` is the path of a copy on the worker."""
    half = CUT // 2
    return read_image(tile)[row - half : row + half, column - half : column + half].astype("f8")


def read_image(path):
    if fits is not None:
        with fits.open(path, memmap=False) as found:
            return found[0].data
    return read_plain_fits(path)


def read_plain_fits(path):
    """An image of 32-bit floats that is all of a FITS file: cards of 80 characters, then big-endian numbers, both in
    blocks of 2880 bytes (FITS Standard 4.0, sections 3 to 5)."""
    cards = {}
    with open(path, "rb") as file:
        while "END" not in cards:
            block = file.read(2880)
            if len(block) < 2880:
                raise ValueError(f"{path}: ends within its header; is it a FITS file?")
            for start in range(0, 2880, 80):
                card = block[start : start + 80].decode("ascii")
                cards[card[:8].strip()] = card[10:].split("/")[0].strip()
        if cards.get("BITPIX") != "-32" or cards.get("NAXIS") != "2":
            raise ValueError(
                f"{path}: has BITPIX {cards.get('BITPIX')}, NAXIS {cards.get('NAXIS')}; -32 and 2 are read"
            )
        rows, columns = int(cards["NAXIS2"]), int(cards["NAXIS1"])
        content = file.read(4 * rows * columns)
    return numpy.frombuffer(content, ">f4").reshape(rows, columns)


def write_image(path, image):
    rows, columns = image.shape
    values = {"SIMPLE": "T", "BITPIX": -32, "NAXIS": 2, "NAXIS1": columns, "NAXIS2": rows}
    cards = [f"{name:<8}= {value:>20}".ljust(80) for name, value in values.items()] + ["END".ljust(80)]
    header, content = "".join(cards).encode(), image.astype(">f4").tobytes()
    with open(path, "wb") as file:
        file.write(header + b" " * (-len(header) % 2880) + content + bytes(-len(content) % 2880))


def make_sky(folder, tiles, objects, dice):
    """The files, and a catalogue of (path, row, column)."""
    y, x = numpy.mgrid[: CUT // 2 * 2, : CUT // 2 * 2] - CUT // 2
    star = BRIGHTNESS * numpy.exp(-(x**2 + y**2) / 8)
    places = dice.integers(CUT, TILE - CUT, size=(objects, 2))
    catalogue = []
    for number in range(tiles):
        path = os.path.join(folder, f"tile{number:04}.fits")
        image = dice.standard_normal((TILE, TILE))
        for row, column in places[number::tiles]:
            image[row - CUT // 2 : row + CUT // 2, column - CUT // 2 : column + CUT // 2] += star
            catalogue.append((path, int(row), int(column)))
        write_image(path, image)
    dice.shuffle(catalogue)
    return catalogue


def contrast(image):
    """How far the middle stands out of the edge."""
    edge = numpy.concatenate([image[:4].ravel(), image[-4:].ravel()])
    middle = image[CUT // 2 - 1 : CUT // 2 + 2, CUT // 2 - 1 : CUT // 2 + 2].mean()
    return (middle - edge.mean()) / edge.std()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tiles", type=int, default=20, help="files of 1 MB (20)")
    parser.add_argument("--objects", type=int, default=400, help="tasks (400)")
    parser.add_argument("--workers", type=int, default=2, help="processes on this machine (2)")
    parser.add_argument("--dask", metavar="ADDRESS", help="a Dask scheduler, whose workers see --folder")
    parser.add_argument("--cache", default="1 GB", help="what a worker keeps of inputs (1 GB)")
    parser.add_argument("--folder", help="where data and report stay; a temporary folder by default")
    options = parser.parse_args()
    place = contextlib.nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory()
    with place as folder:
        data, run = os.path.join(folder, "sky"), os.path.join(folder, "stacking-run")
        os.makedirs(data, exist_ok=True)
        catalogue = make_sky(data, options.tiles, options.objects, numpy.random.default_rng(1))
        stack, one = numpy.zeros((CUT, CUT)), None
        with Diffusion(
            options.dask,
            workers=None if options.dask else options.workers,
            cache=options.cache,
            cache_folder=os.path.join(folder, "cache"),
            run_folder=run,
            progress=True,
        ) as d:
            for result in d.map(cut_out, [(File(path), row, column) for path, row, column in catalogue]):
                one = result.value if one is None else one
                stack += result.value
        print(f"One object stands out by {contrast(one):.1f}, {options.objects} stacked by {contrast(stack):.1f}.")
        print(summary(run))
        if options.folder:
            print(f"Report: {os.path.join(run, 'report.html')}")


if __name__ == "__main__":
    main()
