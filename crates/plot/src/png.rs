//! A page as PNG: shapes are filled on a canvas, whose rows are compressed.

use std::f64::consts::TAU;

use ab_glyph_rasterizer::{Point as Pixel, Rasterizer, point};
use zlib_rs::crc32::crc32;
use zlib_rs::{DeflateConfig, compress_bound, compress_slice};

use crate::font::{self, Stroke, UNITS};
use crate::page::{Anchor, Colour, Page, Point, Shape};

/// Corners of a circle: at the radii of figures none is seen.
const CORNERS: usize = 32;

pub fn bytes(page: &Page, pixels_per_point: f64) -> Vec<u8> {
    let mut canvas = Canvas::new(page.width * pixels_per_point, page.height * pixels_per_point);
    for (colour, shape) in &page.shapes {
        let place = |(x, y): Point| (x * pixels_per_point, y * pixels_per_point);
        outlines(shape, pixels_per_point, place).iter().for_each(|outline| canvas.fill(outline, *colour));
    }
    canvas.encode()
}

/// A closed way of pixels, and whatever holes it has.
type Outline = Vec<(Pixel, Pixel)>;

/// Returns what is to be filled, one after the other, for a shape.
fn outlines(shape: &Shape, scale: f64, place: impl Fn(Point) -> Point) -> Vec<Outline> {
    match shape {
        Shape::Area { points } => vec![polygon(points.iter().map(|point| place(*point)))],
        Shape::Circle { centre, radius } => vec![circle(place(*centre), radius * scale)],
        Shape::Line { points, width } => {
            line(&points.iter().map(|point| place(*point)).collect::<Vec<_>>(), width * scale)
        }
        Shape::Text { at, anchor, size, text } => letters(place(*at), *anchor, size * scale, text),
    }
}

fn pixel((x, y): Point) -> Pixel {
    point(x as f32, y as f32)
}

fn polygon(corners: impl IntoIterator<Item = Point>) -> Outline {
    let corners: Vec<Pixel> = corners.into_iter().map(pixel).collect();
    let next = corners.iter().cycle().skip(1);
    corners.iter().copied().zip(next.copied()).collect()
}

fn circle((x, y): Point, radius: f64) -> Outline {
    let corner = |number: usize| {
        let angle = number as f64 * TAU / CORNERS as f64;
        (x + radius * angle.cos(), y + radius * angle.sin())
    };
    polygon((0..CORNERS).map(corner))
}

/// Returns a bar for each stretch, and a joint between two.
fn line(points: &[Point], width: f64) -> Vec<Outline> {
    let bar = |ends: &[Point]| {
        let [(x1, y1), (x2, y2)] = *ends else { unreachable!("windows of two") };
        let length = (x2 - x1).hypot(y2 - y1).max(1e-9);
        let (dx, dy) = ((y1 - y2) / length * width / 2.0, (x2 - x1) / length * width / 2.0);
        polygon([(x1 + dx, y1 + dy), (x2 + dx, y2 + dy), (x2 - dx, y2 - dy), (x1 - dx, y1 - dy)])
    };
    let inner = points.get(1..points.len().saturating_sub(1)).unwrap_or_default();
    points.windows(2).map(bar).chain(inner.iter().map(|joint| circle(*joint, width / 2.0))).collect()
}

fn letters((x, y): Point, anchor: Anchor, size: f64, text: &str) -> Vec<Outline> {
    let width = font::width(text, size);
    let mut left = match anchor {
        Anchor::Start => x,
        Anchor::Middle => x - width / 2.0,
        Anchor::End => x - width,
    };
    let letter = |character: char| {
        let glyph = font::glyph_of(character);
        let at = left;
        left += glyph.advance * size / UNITS;
        letter_outline(&glyph.strokes, |[dx, dy]| pixel((at + dx * size / UNITS, y - dy * size / UNITS)))
    };
    text.chars().map(letter).collect()
}

fn letter_outline(strokes: &[Stroke], place: impl Fn([f64; 2]) -> Pixel) -> Outline {
    let mut outline = Outline::new();
    let (mut begin, mut last) = (point(0.0, 0.0), point(0.0, 0.0));
    for stroke in strokes {
        match *stroke {
            Stroke::Move(x, y) => {
                if last != begin {
                    outline.push((last, begin));
                }
                begin = place([x, y]);
                last = begin;
            }
            Stroke::Line(x, y) => outline.push((std::mem::replace(&mut last, place([x, y])), place([x, y]))),
            Stroke::Curve(control, end) => {
                let (control, end) = (place(control), place(end));
                outline.extend(halved(last, control, end));
                last = end;
            }
        }
    }
    outline.push((last, begin));
    outline
}

/// A parabola as four straight stretches: letters of figures are small.
fn halved(begin: Pixel, control: Pixel, end: Pixel) -> impl Iterator<Item = (Pixel, Pixel)> {
    let at = move |quarter: u8| {
        let t = f32::from(quarter) / 4.0;
        let (a, b, c) = ((1.0 - t) * (1.0 - t), 2.0 * t * (1.0 - t), t * t);
        point(a * begin.x + b * control.x + c * end.x, a * begin.y + b * control.y + c * end.y)
    };
    (0..4).map(move |quarter| (at(quarter), at(quarter + 1)))
}

struct Canvas {
    width: usize,
    height: usize,
    /// Red, green and blue of each pixel, row by row.
    pixels: Vec<u8>,
}

impl Canvas {
    fn new(width: f64, height: f64) -> Self {
        let (width, height) = (width.ceil() as usize, height.ceil() as usize);
        Canvas { width, height, pixels: vec![255; width * height * 3] }
    }

    /// Fills an outline; what lies beyond the page is cut off.
    fn fill(&mut self, outline: &Outline, Colour(colour): Colour) {
        let Some((left, top, width, height)) = self.bounds(outline) else { return };
        let mut rasterizer = Rasterizer::new(width, height);
        let inside = |at: Pixel| point(at.x - left as f32, at.y - top as f32);
        outline.iter().for_each(|(begin, end)| rasterizer.draw_line(inside(*begin), inside(*end)));
        let [_, channels @ ..] = colour.to_be_bytes();
        rasterizer.for_each_pixel_2d(|x, y, covered| {
            let (x, y) = (left + x as usize, top + y as usize);
            if covered > 0.0 && x < self.width && y < self.height {
                let pixel = &mut self.pixels[(y * self.width + x) * 3..][..3];
                pixel.iter_mut().zip(channels).for_each(|(old, new)| *old = mixed(*old, new, covered));
            }
        });
    }

    /// Returns left, top, width and height of the pixels that an outline touches, or `None` where that is none.
    fn bounds(&self, outline: &Outline) -> Option<(usize, usize, usize, usize)> {
        let range = |of: fn(&Pixel) -> f32, most: usize| {
            let all = outline.iter().map(|(_, end)| of(end));
            let (least, highest) = all.fold((f32::MAX, f32::MIN), |(low, high), at| (low.min(at), high.max(at)));
            let (begin, end) = (least.floor().max(0.0) as usize, (highest.ceil().max(0.0) as usize).min(most));
            (begin < end).then(|| (begin, end - begin))
        };
        let (left, width) = range(|at| at.x, self.width)?;
        let (top, height) = range(|at| at.y, self.height)?;
        Some((left, top, width, height))
    }

    fn encode(&self) -> Vec<u8> {
        let mut header = Vec::new();
        header.extend((self.width as u32).to_be_bytes());
        header.extend((self.height as u32).to_be_bytes());
        // Eight bits a channel, three channels, not interlaced.
        header.extend([8, 2, 0, 0, 0]);
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        put_chunk(&mut png, b"IHDR", &header);
        put_chunk(&mut png, b"IDAT", &self.compressed());
        put_chunk(&mut png, b"IEND", &[]);
        png
    }

    fn compressed(&self) -> Vec<u8> {
        // Each row begins with the number of its filter; there is none.
        let rows: Vec<u8> = self.pixels.chunks(self.width * 3).flat_map(|row| [&[0], row].concat()).collect();
        let mut compressed = vec![0; compress_bound(rows.len())];
        let length = compress_slice(&mut compressed, &rows, DeflateConfig::new(9)).0.len();
        compressed.truncate(length);
        compressed
    }
}

fn mixed(old: u8, new: u8, covered: f32) -> u8 {
    let covered = covered.clamp(0.0, 1.0);
    (f32::from(old) + (f32::from(new) - f32::from(old)) * covered).round() as u8
}

fn put_chunk(png: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    png.extend((data.len() as u32).to_be_bytes());
    let begin = png.len();
    png.extend(kind);
    png.extend(data);
    let checksum = crc32(0, &png[begin..]);
    png.extend(checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canvas(draw: impl Fn(&mut Page)) -> Canvas {
        let mut page = Page::new(20.0, 10.0);
        draw(&mut page);
        let mut canvas = Canvas::new(20.0, 10.0);
        for (colour, shape) in &page.shapes {
            outlines(shape, 1.0, |at| at).iter().for_each(|outline| canvas.fill(outline, *colour));
        }
        canvas
    }

    fn pixel_at(canvas: &Canvas, x: usize, y: usize) -> &[u8] {
        &canvas.pixels[(y * canvas.width + x) * 3..][..3]
    }

    #[test]
    fn a_rectangle_covers_its_pixels_and_half_of_those_at_its_edge() {
        let drawn = canvas(|page| page.rectangle(Colour(0xff0000), (2.0, 2.0), 4.5, 4.0));
        assert_eq!((pixel_at(&drawn, 2, 2), pixel_at(&drawn, 1, 2)), (&[255, 0, 0][..], &[255; 3][..]));
        assert_eq!(pixel_at(&drawn, 6, 3), [255, 128, 128]);
    }

    #[test]
    fn what_lies_beyond_the_page_is_cut_off() {
        let drawn = canvas(|page| {
            page.rectangle(Colour(0), (-5.0, -5.0), 7.0, 30.0);
            page.circle(Colour(0), (30.0, 30.0), 5.0);
            page.line(Colour(0), 2.0, vec![(18.0, 5.0), (40.0, 5.0)]);
        });
        assert_eq!((pixel_at(&drawn, 1, 9), pixel_at(&drawn, 2, 0)), (&[0; 3][..], &[255; 3][..]));
        assert_eq!(pixel_at(&drawn, 19, 4), [0; 3]);
    }

    #[test]
    fn letters_have_holes() {
        let drawn = canvas(|page| page.sized_text((2.0, 10.0), Anchor::Start, 13.0, Colour(0), "O"));
        let dark = |x: usize| pixel_at(&drawn, x, 5)[0] < 128;
        let changes = (1..20).filter(|x| dark(*x) != dark(x - 1)).count();
        assert_eq!(changes, 4, "left side, hole, right side");
    }

    #[test]
    fn the_file_has_its_chunks() {
        let png = Page::new(20.0, 10.0).png();
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0(\0\0\0\x14\x08\x02"));
        assert!(png.ends_with(b"\0\0\0\0IEND\xaeB`\x82"));
    }
}
