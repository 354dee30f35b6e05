//! The outlines of letters, in 512ths of their size: ASCII and a few signs more. Others are shown as a question mark.

use std::sync::LazyLock;

/// Made by `glyphs.py`.
const GLYPHS: &str = include_str!("glyphs.txt");
pub const UNITS: f64 = 512.0;

/// Part of an outline; y grows upwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stroke {
    Move(f64, f64),
    Line(f64, f64),
    /// A parabola by its control point and its end.
    Curve([f64; 2], [f64; 2]),
}

#[derive(Clone, Debug)]
pub struct Glyph {
    character: char,
    pub advance: f64,
    pub strokes: Vec<Stroke>,
}

static FONT: LazyLock<Vec<Glyph>> = LazyLock::new(|| GLYPHS.lines().map(glyph).collect());

pub fn glyph_of(character: char) -> &'static Glyph {
    let of = |wanted: char| FONT.iter().find(|glyph| glyph.character == wanted);
    of(character).or_else(|| of('?')).expect("the font has a question mark")
}

/// Returns how wide a text is in letters of such a size.
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().map(|character| glyph_of(character).advance).sum::<f64>() * size / UNITS
}

fn glyph(line: &str) -> Glyph {
    let mut words = line.split(' ');
    let character =
        words.next().and_then(|code| char::from_u32(code.parse().ok()?)).expect("a line begins with a number");
    let advance = number(&mut words);
    let mut strokes = Vec::new();
    while let Some(verb) = words.next() {
        strokes.push(stroke(verb, &mut words));
    }
    Glyph { character, advance, strokes }
}

fn stroke<'a>(verb: &str, words: &mut impl Iterator<Item = &'a str>) -> Stroke {
    let mut next = || number(words);
    match verb {
        "M" => Stroke::Move(next(), next()),
        "L" => Stroke::Line(next(), next()),
        "Q" => Stroke::Curve([next(), next()], [next(), next()]),
        other => panic!("{other:?} in the font's outlines"),
    }
}

fn number<'a>(words: &mut impl Iterator<Item = &'a str>) -> f64 {
    words.next().and_then(|word| word.parse().ok()).expect("the font's outlines have all their numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_ascii_has_letters() {
        assert!((' '..='~').all(|character| glyph_of(character).character == character));
        assert!(glyph_of('A').strokes.len() > 8 && glyph_of(' ').strokes.is_empty());
        assert_eq!(glyph_of('😀').character, '?');
        assert!(width("ww", 12.0) > width("ii", 12.0));
    }
}
