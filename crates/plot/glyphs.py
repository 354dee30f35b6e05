#!/usr/bin/env python3
"""glyphs.py FONT.ttf > src/glyphs.txt: the outlines of a font's letters as text. Needs fontTools.

A line has the number of a character, how far the next one stands from it, and its contours: M and L with a point, Q with two. Lengths
are 1/512 of the font's size; y grows upwards from the line that letters stand on.
SPDX-License-Identifier: Apache-2.0
"""

import sys

from fontTools.pens.basePen import BasePen
from fontTools.ttLib import TTFont

CHARACTERS = [chr(code) for code in range(0x20, 0x7F)] + list("×·–…")
UNITS = 512


class Contours(BasePen):
    def __init__(self, glyphs, units):
        super().__init__(glyphs)
        self.scale, self.words = UNITS / units, []

    def _point(self, *points):
        return " ".join(f"{round(x * self.scale)} {round(y * self.scale)}" for x, y in points)

    def _moveTo(self, point):
        self.words.append(f"M {self._point(point)}")

    def _lineTo(self, point):
        self.words.append(f"L {self._point(point)}")

    def _qCurveToOne(self, control, point):
        self.words.append(f"Q {self._point(control, point)}")


def main():
    font = TTFont(sys.argv[1])
    glyphs, names, units = font.getGlyphSet(), font.getBestCmap(), font["head"].unitsPerEm
    for character in CHARACTERS:
        glyph = glyphs[names[ord(character)]]
        pen = Contours(glyphs, units)
        glyph.draw(pen)
        print(ord(character), round(glyph.width * UNITS / units), *pen.words)


main()
