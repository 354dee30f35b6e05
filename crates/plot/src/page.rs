//! A page, and the shapes on it: later ones cover earlier ones. Lengths are points; y grows downwards.

use crate::{font, png, svg};

pub type Point = (f64, f64);

/// Red, green and blue as in `#1f5fa8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour(pub u32);

/// Which part of a text stands at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Line { points: Vec<Point>, width: f64 },
    Area { points: Vec<Point> },
    Circle { centre: Point, radius: f64 },
    Text { at: Point, anchor: Anchor, size: f64, text: String },
}

/// What is drawn, before it is written in a format.
#[derive(Clone, Debug)]
pub struct Page {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) shapes: Vec<(Colour, Shape)>,
}

impl Page {
    pub fn new(width: f64, height: f64) -> Self {
        Page { width, height, shapes: Vec::new() }
    }

    pub fn svg(&self) -> String {
        svg::text(self)
    }

    /// Two pixels a point, so that letters are sharp on any screen.
    pub fn png(&self) -> Vec<u8> {
        png::bytes(self, 2.0)
    }

    /// Writes from a point on its line, in letters of 12 points.
    pub fn text(&mut self, at: Point, anchor: Anchor, colour: Colour, text: &str) {
        self.sized_text(at, anchor, 12.0, colour, text);
    }

    pub fn sized_text(&mut self, at: Point, anchor: Anchor, size: f64, colour: Colour, text: &str) {
        self.shapes.push((colour, Shape::Text { at, anchor, size, text: text.to_owned() }));
    }

    pub fn line(&mut self, colour: Colour, width: f64, points: Vec<Point>) {
        self.shapes.push((colour, Shape::Line { points, width }));
    }

    pub fn area(&mut self, colour: Colour, points: Vec<Point>) {
        self.shapes.push((colour, Shape::Area { points }));
    }

    pub fn rectangle(&mut self, colour: Colour, (left, top): Point, width: f64, height: f64) {
        let (right, bottom) = (left + width, top + height);
        self.area(colour, vec![(left, top), (right, top), (right, bottom), (left, bottom)]);
    }

    pub fn circle(&mut self, colour: Colour, centre: Point, radius: f64) {
        self.shapes.push((colour, Shape::Circle { centre, radius }));
    }

    pub fn diamond(&mut self, colour: Colour, (x, y): Point, radius: f64) {
        self.area(colour, vec![(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)]);
    }

    /// Draws a sample of a colour and its meaning; returns how wide both are, with the gap to the next.
    pub fn key(&mut self, (x, y): Point, colour: Colour, text: &str) -> f64 {
        self.rectangle(colour, (x, y - 9.0), 14.0, 9.0);
        self.text((x + 19.0, y), Anchor::Start, Colour(0x333333), text);
        36.0 + font::width(text, 12.0)
    }
}
