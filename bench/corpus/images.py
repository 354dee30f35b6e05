"""Pictures: rendered scenes and photographs, as raw pixels and as PNG and JPEG.

SPDX-License-Identifier: Apache-2.0
"""

from pathlib import Path

import numpy
from PIL import Image, ImageDraw

from corpus.integers import smooth

PHOTOGRAPHS = Path("/usr/share/backgrounds/mate/nature")
DRAWINGS = ["/usr/share/doc", "/usr/share/backgrounds/mate/desktop", "/usr/share/backgrounds/mate/abstract"]


def scenes(output):
    """Rendered scenes as raw RGB: shaded hills with haze, a sky, discs and text, a little sensor noise."""
    wide = 1024 if output.bytes > 5e6 else 400
    for number, pixels in enumerate(render(output, wide, max(1, round(output.bytes / (wide * wide * 3 * 3 / 4))))):
        output.write(f"scene-{number}.rgb", pixels, "image")


def encoded_scenes(output):
    """Rendered scenes, not those of the raw pixels, as PNG and JPEG."""
    wide, number, size = 640, 0, 0
    while size < output.bytes:
        pixels = next(render(output, wide, 1))
        for suffix, settings in (("png", {}), ("jpg", {"quality": 88})):
            path = output.folder / f"scene-{number:02}.{suffix}"
            Image.fromarray(pixels).save(path, **settings)
            output.add(path.name, "compressed", format=suffix)
            size += path.stat().st_size
        number += 1


def render(output, wide, count):
    tall = wide * 3 // 4
    for _ in range(count):
        random = output.random
        sky = numpy.linspace(0, 1, tall)[:, None] + 0.15 * smooth((tall, wide), random, 1.7)
        colour = numpy.stack([90 + 120 * sky, 140 + 90 * sky, 230 - 20 * sky], -1)
        for distance in (3, 2, 1):
            ridge = tall * (0.75 - 0.13 * distance) + 60 / distance * smooth((wide,), random, 1.5)
            behind = numpy.arange(tall)[:, None] > ridge
            slope = smooth((tall, wide), random, 1.6)
            light = 70 + 28 * numpy.gradient(slope, axis=1) / 0.05 + 10 * slope
            ground = numpy.stack([light * 0.9, light * 1.15, light * 0.6], -1) + 35 * distance
            colour = numpy.where(behind[..., None], ground, colour)
        picture = Image.fromarray(colour.clip(0, 255).astype("u1"))
        drawing = ImageDraw.Draw(picture)
        for x, y, size in random.uniform(0, 1, (6, 3)):
            fill = tuple(int(part) for part in random.integers(0, 255, 3))
            drawing.ellipse([x * wide, y * tall, x * wide + 90 * size, y * tall + 90 * size], fill=fill)
            drawing.text((x * wide, y * tall), f"station {size:.3f} km", fill=(255, 255, 255))
        noise = random.normal(0, 1.5, colour.shape)
        yield (numpy.asarray(picture) + noise).round().clip(0, 255).astype("u1")


def photographs(output):
    """Photographs of the package mate-backgrounds, cropped and decoded, as raw RGB and raw grey pixels."""
    paths = sorted(PHOTOGRAPHS.glob("*.jpg"))
    side = int((output.bytes / len(paths) / 3.25) ** 0.5)
    for path in paths:
        picture = Image.open(path).convert("RGB")
        left, top = (max(0, (edge - side) // 2) for edge in picture.size)
        cropped = picture.crop((left, top, min(left + side, picture.width), min(top + side, picture.height)))
        output.write(f"{path.stem}.rgb", numpy.asarray(cropped), "image")
        grey = cropped.convert("L").resize((cropped.width // 2, cropped.height // 2))
        output.write(f"{path.stem}.grey", numpy.asarray(grey), "image")


def drawings(output):
    """PNG files of the documentation and the desktop of the system as they are."""
    paths = sorted(
        path
        for folder in DRAWINGS
        for path in Path(folder).rglob("*.png")
        if path.is_file() and path.stat().st_size > 15_000
    )
    left, seen = output.bytes, set()
    for index in output.random.permutation(len(paths)):
        content = paths[index].read_bytes()
        if left > 0 and content not in seen and len(content) < output.bytes / 3:
            seen.add(content)
            left -= len(content)
            output.write(f"{len(seen):03}-{paths[index].name}", content, "compressed", format="png")
